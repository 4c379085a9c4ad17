"""The four shows: what each model learns, and what it is asked once it can answer."""

import json
import lzma
from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar

from clearhead import metrics
from clearhead.config import Given
from clearhead.data.examples import labelled
from clearhead.demo.show import Show, Words
from clearhead.look import Alignment, Heatmap
from clearhead.tasks import Chatbot, Classifier, Translator, Writer
from clearhead.tasks.evaluation import evaluate_labels

TYPED = ["Hello.", "how are you", "My name is Anna.", "A man rides a bike.", "i don't know"]
OPENINGS = (
    "Hi how are you|i am good, and you?|My name is Nora|I live in Lisbon.|what is my name?|where "
    "do i live",
    "hello there|do you like penguins?|I am hungry|Maybe some noodles|what do I like to "
    "eat|thanks, bye",
)
TEXTS = [
    "I love this film.",
    "this is the worst movie ever",
    "The soup was lovely.",
    "The soup was not lovely.",
    "Nobody could call the film boring.",
    "The food was excellent, but the service was awful.",
    "I can't say that the hotel was bad.",
]
N_TOLD = 20
OPENING = "Once upon a time, there was a brave"


class TranslationShow(Show):
    """A translator learns English and German from nothing."""

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
    words = Words(
        title="A phrasebook",
        text=(
            "A small grammar makes {train:,} English sentences with their German: what people say "
            "first, then three genders, cases, verbs that split and wander to the end. Some "
            "combinations of words, such as a noun with a certain adjective or verb, are kept out "
            "of training; {test:,} sentences with them are the test. Learning them by heart will "
            "not help."
        ),
        form="one sentence a line",
        training=(
            "A Transformer begins with random numbers. At each update it reads about a hundred "
            "pairs, guesses every German word from the English sentence and the German words "
            "before it, and is moved a little towards the right one. The loss is how wrong its "
            "guesses are; BLEU, from 0 to 100, is how close whole translations come."
        ),
        limits="It knows this phrasebook and nothing else; outside it, it guesses.",
        asked="A man rides a bike.",
        yours="train YOURS.en YOURS.de --into runs/yours --budget 45m",
    )

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
            f"{n_right:,} of them right to the letter.\n\nSignature: {score.signature}",
        )
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
        if alignments:
            self.say(
                "Where it looked",
                "Each row is a word that it wrote, each column a word that it read: the fuller the "
                "block, the more attention it paid while writing. Nobody told it which words "
                "belong together, nor in which order German wants them.",
            )
            self.print_lines(Heatmap(max(alignments, key=n_crossings).matrix).blocks())


def n_crossings(alignment: Alignment) -> int:
    """How many pairs of word links cross: where the languages order the words differently."""
    return sum(before > after for (before, _), (after, _) in combinations(alignment.links, 2))


class ChatShow(Show):
    """A chatbot learns to make small talk, and to remember what it is told."""

    task = "chat"
    suffixes = ("jsonl",)
    settings: ClassVar[Given] = {
        "model": {"n_decoder_layers": 3, "dropout": 0.0},
        "tokenizer": {"vocab_size": 1_000},
        "data": {"batch_tokens": 2_048},
        "train": {"max_steps": 480, "validate_every": 80, "label_smoothing": 0.0},
    }
    words = Words(
        title="Small talk",
        text=(
            "A small grammar makes {train:,} conversations: greetings, names, towns, food, "
            "hobbies, the weather. What the user tells comes back later. Some combinations of "
            "phrases and words are kept out of training."
        ),
        form="one conversation a line",
        training=(
            "The model reads whole conversations, in which marks tell who speaks. It guesses every "
            "word of the bot from all that was said before, and is moved a little towards the "
            "right one; the user's words are only read. The loss is how wrong its guesses are."
        ),
        limits="It knows this small talk and nothing else; outside it, it guesses.",
        asked="Hi how are you",
        yours="train YOURS.tsv --task chat --into runs/yours --budget 45m",
    )

    def talks(self, part: str) -> list[list[str]]:
        return [json.loads(line)["turns"] for line in self.lines(part)]

    def print_examples(self) -> None:
        self.print_turns(next(turns for turns in self.talks("train") if 6 <= len(turns) <= 10))

    def print_turns(self, turns: Sequence[str]) -> None:
        self.print_lines(f"{'bot' if n % 2 else 'you'}  {text}" for n, text in enumerate(turns))

    def print_results(self) -> list[str]:
        bot, test = Chatbot.load(self.into), self.talks("test")
        self.say(
            "A talk with it",
            "You can say such things in other words; here is what it answers.",
        )
        for opening in OPENINGS:
            bot.reset()
            for text in opening.split("|"):
                bot.reply(text)
            self.print_turns(bot.turns)
        asked = [
            (turns[:place], turns[place])
            for turns in test
            for place in range(1, len(turns), 2)
            if turns[place].startswith(("Your name is", "You are from", "You like"))
        ]
        n_right = sum(bot.answer(turns, temperature=0.0).text == answer for turns, answer in asked)
        self.say(
            "How good it is",
            f"In {len(test):,} conversations that it never saw, it is asked {len(asked):,} times "
            f"for something that it was told turns before: {n_right:,} of its answers are right "
            f"to the letter.\n\nOver all it has to say there: {bot.perplexity(test)}.",
        )
        return [
            f"chat {self.into}",
            f"chat {self.into} --temperature 1 --seed 7",
            f"evaluate {self.into} {self.file('test')}",
        ]


class ClassificationShow(Show):
    """A classifier learns to tell praise from blame, also where "not" turns it round."""

    task = "classification"
    suffixes = ("tsv",)
    settings: ClassVar[Given] = {
        # the encoder alone, on words: what is shown is how it learns
        "model": {"n_encoder_layers": 2, "dropout": 0.0},
        "tokenizer": {"method": "words", "vocab_size": None},
        "data": {"batch_tokens": 1_024, "max_n_grams": 0},
        "train": {
            "max_steps": 450,
            "validate_every": 75,
            "optimizer": "muon",
            "learning_rate": 4e-3,
            "word_dropout": 0.0,
            "label_smoothing": 0.02,
        },
    }
    words = Words(
        title="Reviews",
        text=(
            "A small grammar writes {train:,} reviews that are good, bad or mixed, some of them as "
            "people type. Words such as not, hardly and anything but turn a judgement round. Some "
            "pairs, of a thing and what is said about it, are kept out of training; {test:,} "
            "reviews with them are the test."
        ),
        form="a label, a tab and a text on each line",
        training=(
            "The model reads a review, makes one vector of it and guesses the label from that; at "
            "each update it is moved a little towards the right ones. The loss is how wrong its "
            "guesses are; accuracy is the share of right ones."
        ),
        limits="It knows these words and no others; outside them, it guesses.",
        asked="The soup was not lovely.",
        yours="train YOURS.tsv --task classification --into runs/yours",
    )

    def print_examples(self) -> None:
        rows = (line.split("\t") for line in self.lines("train")[:5])
        self.print_pairs([(text, label) for label, text in rows])

    def print_results(self) -> list[str]:
        classifier, test = Classifier.load(self.into), list(labelled(self.file("test")))
        self.say("Texts of your own", "It says how sure it is, and the sureness is calibrated.")
        self.print_pairs(
            [(one.text, f"{one} ({one.probability:.0%})") for one in classifier.classify(TEXTS)]
        )
        self.say(
            "How good it is",
            f"On {len(test):,} reviews with pairs of words that it never saw together:",
        )
        self.print_lines(str(evaluate_labels(classifier, test)).split("\n"))
        return [
            f'classify {self.into} "{TEXTS[0]}" --probabilities',
            f"classify {self.into}",
            f"evaluate {self.into} {self.file('test')}",
        ]


class WritingShow(Show):
    """A writer learns to tell little stories, and to keep their heroes in mind."""

    task = "writing"
    suffixes = ("txt",)
    settings: ClassVar[Given] = {
        "model": {"n_decoder_layers": 3, "dropout": 0.0},
        "tokenizer": {"vocab_size": 800},
        "data": {"batch_tokens": 2_048, "window": 128},
        # Copying a hero's name appears all at once, around update 400; half as many updates are
        # a matter of luck.
        "train": {"max_steps": 800, "validate_every": 100, "label_smoothing": 0.0},
    }
    words = Words(
        title="Stories",
        text=(
            "A small grammar tells {train:,} little stories, one a line: a hero, a wish, what came "
            "of it. Some heroes, such as a fox of a certain name, are kept out of training."
        ),
        form="plain text",
        training=(
            "The model reads windows of the running text and guesses every token from those before "
            "it, all at once; nothing is labelled, the text itself is what it should say. The loss "
            "is how wrong its guesses are."
        ),
        limits="It knows these stories and nothing else; outside them, it guesses.",
        asked=OPENING,
        yours="train YOURS.txt --task writing --into runs/yours --budget 45m",
    )

    def print_examples(self) -> None:
        self.say("", self.lines("train")[0])

    def print_results(self) -> list[str]:
        writer, stories = Writer.load(self.into), self.lines("test")
        self.say(
            "Stories that nobody wrote",
            "The first words are given; the second hero is one that it never met.",
        )
        for opening in (OPENING, beginning(stories[1])):
            self.say("", str(writer.write(opening, stop=["\n"])))
        text = "".join(f"{story}\n" for story in stories)
        packed = 8 * len(lzma.compress(text.encode(), preset=9)) / len(text.encode())
        self.say(
            "How good it is",
            f"On {len(stories):,} stories about heroes that it never met: "
            f"{writer.perplexity(text)}. A general compressor (xz) needs {packed:.2f} bits per "
            "byte for them.",
        )
        openings = [beginning(story) for story in stories[:N_TOLD]]
        n_kept = sum(
            opening.partition("named ")[2].split(".")[0] in writer.write(opening, stop=["\n"]).text
            for opening in openings
        )
        self.say(
            "",
            f"Given the first words of {N_TOLD} of them, it came back to the hero's name in "
            f"{n_kept}.",
        )
        return [
            f'write {self.into} "{OPENING}"',
            f'write {self.into} "One day" -n 3 --temperature 1 --stop "\\n"',
            f"evaluate {self.into} {self.file('test')}",
        ]


def beginning(story: str) -> str:
    """The first words of a story, in which its hero gets a name."""
    return " ".join(story.split()[:12]).rstrip(".")
