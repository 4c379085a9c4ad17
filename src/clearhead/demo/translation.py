"""A translator learns English and German from nothing."""

from itertools import combinations
from typing import ClassVar

from clearhead import metrics
from clearhead.config import Given
from clearhead.demo.show import Show
from clearhead.look import Alignment
from clearhead.look.labelled import Heatmap
from clearhead.tasks import Translator

TYPED = ["Hello.", "how are you", "My name is Anna.", "A man rides a bike.", "i don't know"]


class TranslationShow(Show):
    task = "translation"
    suffixes = ("en", "de")
    settings: ClassVar[Given] = {
        "model": {"n_encoder_layers": 2, "n_decoder_layers": 2, "dropout": 0.0},
        "tokenizer": {"vocab_size": 2_500},
        "data": {"batch_tokens": 1_024},
        "train": {
            "max_steps": 600,
            "validate_every": 60,
            "score_sample": 100,
            "label_smoothing": 0.05,
        },
    }
    about = (
        "A phrasebook",
        "A small grammar makes {train:,} English sentences with their German: what people say "
        "first, then three genders, cases, verbs that split and wander to the end. Some "
        "combinations of words, such as a noun with a certain adjective or verb, are kept out of "
        "training; {test:,} sentences with them are the test. Learning them by heart will not help.",
    )
    form = "one sentence a line"
    training = (
        "A Transformer begins with random numbers. At each update it reads about a hundred pairs, "
        "guesses every German word from the English sentence and the German words before it, and "
        "is moved a little towards the right one. The loss is how wrong its guesses are; BLEU, "
        "from 0 to 100, is how close whole translations come."
    )
    limits = "It knows this phrasebook and nothing else; outside it, it guesses."
    asked = "A man rides a bike."
    yours = "train YOURS.en YOURS.de --into runs/yours --budget 45m"

    def pairs(self, part: str) -> list[tuple[str, str]]:
        return list(zip(self.lines(part), self.lines(part, 1), strict=True))

    def print_examples(self) -> None:
        pairs = self.pairs("train")
        self.print_pairs([pair for pair in pairs if len(pair[0].split()) > 6][:4])

    def print_results(self) -> list[str]:
        translator, test = Translator.load(self.into), self.pairs("test")
        self.print_translations(translator, test)
        found = [each.text for each in translator.translate([text for text, _ in test], beam=1)]
        wanted = [right for _, right in test]
        score = metrics.bleu(found, wanted)
        n_right = sum(text == right for text, right in zip(found, wanted, strict=True))
        self.say(
            "How good it is",
            f"{score.name} {score.value:.1f} on {len(test):,} held-out sentences, "
            f"{n_right:,} of them right to the letter.",
        )
        self.say("", f"Signature: {score.signature}")
        return [
            f'translate {self.into} "{test[-1][0]}"',
            f"translate {self.into}",
            f"evaluate {self.into} {self.file('test')} {self.file('test', 1)}",
        ]

    def print_translations(self, translator: Translator, test: list[tuple[str, str]]) -> None:
        """Translate some sentences, and draw for one of them where the model looked."""
        typed = [each.text for each in translator.translate(TYPED)]
        self.say(
            "What people type first", "It knows greetings and the like, however they are typed."
        )
        self.print_pairs(list(zip(TYPED, typed, strict=True)))
        readable = [pair for pair in test if 6 < len(pair[0].split()) <= 11]
        some = readable[:: max(1, len(test) // 60)][:6]
        found = [each.text for each in translator.translate([text for text, _ in some])]
        self.say("Sentences it never saw", "Every word is known; the combination is new.")
        self.print_pairs(
            [
                (text, said if said == right else f"{said} (expected: {right})")
                for (text, right), said in zip(some, found, strict=True)
            ]
        )
        alignments = [
            translator.align(text, said)
            for (text, _), said in zip(some, found, strict=True)
            if said
        ]
        if not alignments:
            return
        self.say(
            "Where it looked",
            "Each row is a word that it wrote, each column a word that it read: the fuller the "
            "block, the more attention it paid while writing. Nobody told it which words belong "
            "together, nor in which order German wants them.",
        )
        self.print_lines(Heatmap(max(alignments, key=crossings).matrix).blocks())


def crossings(alignment: Alignment) -> int:
    """How often the order of words changes on the way."""
    places = [source for source, _ in alignment.links]
    return sum(before > after for before, after in combinations(places, 2))
