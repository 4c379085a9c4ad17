"""A translator learns English and German from nothing, in front of your eyes."""

import os
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.cli.demos.stage import say, suggested, table, written

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.config import Config
    from clearhead.data.examples import Pair
    from clearhead.look import Alignment
    from clearhead.tasks import Translator

N_TRAINING, N_VALIDATION, N_TEST = 30_000, 300, 1_000
N_SHOWN, MOST_WORDS = 6, 11
SHADES = " ░▒▓█"
"""Nothing to all, in the colour of the text: as legible on light as on dark."""
TRAINING = (
    "A Transformer begins with random numbers. At each update it reads about a hundred pairs, guesses every German "
    "word from the English sentence and the German words before it, and is moved a little towards the right one. "
    "The loss is how wrong its guesses are; BLEU, from 0 to 100, is how close whole translations come."
)


def settings(data: Path, into: Path) -> "Config":
    """A model that learns the phrasebook in a minute or two without a GPU."""
    from clearhead.config import Config, DataConfig, ModelConfig, TokenizerConfig, TrainConfig

    seen = Path(os.path.relpath(data, into))
    return Config(
        model=ModelConfig.preset("tiny", n_encoder_layers=2, n_decoder_layers=2, dropout=0.0),
        tokenizer=TokenizerConfig(vocab_size=1_500),
        data=DataConfig(
            files=(str(seen / "train.en"), str(seen / "train.de")),
            validation_files=(str(seen / "valid.en"), str(seen / "valid.de")),
            batch_tokens=1_024,
        ),
        train=TrainConfig(max_steps=600, validate_every=60, score_sample=100, label_smoothing=0.05),
    )


def corpus(data: Path) -> "dict[str, list[Pair]]":
    """The phrasebook in three parts, read from files beside the run, which are written when they are not there."""
    from clearhead.data.examples import pairs
    from clearhead.tasks.phrasebook import held_out_pairs, training_pairs

    if not data.exists():
        training = training_pairs(N_TRAINING)
        held_out = held_out_pairs(N_VALIDATION + N_TEST, training)
        parts = {
            "train": training,
            "valid": held_out[:N_VALIDATION],
            "test": held_out[N_VALIDATION:],
        }
        sides = {
            name: zip(("en", "de"), zip(*part, strict=True), strict=True)
            for name, part in parts.items()
        }
        written(
            data, {f"{name}.{code}": lines for name, both in sides.items() for code, lines in both}
        )
    return {
        name: list(pairs(data / f"{name}.en", data / f"{name}.de"))
        for name in ("train", "valid", "test")
    }


def prepared(console: "Console", data: Path) -> None:
    """Make the text to learn from, and show some of it."""
    say(
        console,
        "A phrasebook",
        f"A small grammar makes {N_TRAINING:,} English sentences with their German: three genders, cases, verbs that "
        f"split and wander to the end. Some combinations of words, such as a noun with a certain adjective or verb, "
        f"are kept out of training; {N_TEST:,} sentences with them are the test. Learning them by heart will not help.",
    )
    training = corpus(data)["train"]
    table(
        console,
        [(pair.source, pair.target) for pair in training if len(pair.source.split()) > 6][:4],
    )
    say(console, "", f"The files are in {data}, one sentence a line, as you would bring your own.")


def shown(console: "Console", into: Path, data: Path) -> None:
    """What it has learned, and what to type next."""
    from clearhead.tasks import Translator

    translator, test = Translator.load(into), corpus(data)["test"]
    translated(console, translator, test)
    measured(console, translator, test)
    commands = [
        f'translate {into} "{test[-1].source}"',
        f"translate {into}",
        f"evaluate {into} {data / 'test.en'} {data / 'test.de'}",
        f"info {into}",
        "train YOURS.en YOURS.de --into runs/yours --budget 45m",
    ]
    suggested(
        console, "It knows this phrasebook and nothing else; outside it, it guesses. Try:", commands
    )


def translated(console: "Console", translator: "Translator", test: "Sequence[Pair]") -> None:
    """Translate some sentences, and draw for one of them where the model looked."""
    some = [pair for pair in test if 6 < len(pair.source.split()) <= MOST_WORDS][
        :: max(1, len(test) // 60)
    ][:N_SHOWN]
    found = translator.translate([pair.source for pair in some])
    say(console, "Sentences it never saw", "Every word is known; the combination is new.")
    rows = []
    for pair, translation in zip(some, found, strict=True):
        is_right = translation.text == pair.target
        rows.append(
            (
                pair.source,
                translation.text if is_right else f"{translation.text} (expected: {pair.target})",
            )
        )
    table(console, rows)
    alignments = [translator.align(translation.source, translation.text) for translation in found]
    say(
        console,
        "Where it looked",
        "Each row is a word that it wrote, each column a word that it read: the fuller the block, the more attention "
        "it paid while writing. Nobody told it which words belong together, nor in which order German wants them.",
    )
    for line in drawn(max(alignments, key=crossings)):
        console.print(f"  {line}", soft_wrap=True)
    console.print()


def crossings(alignment: "Alignment") -> int:
    """How often the order of words changes on the way."""
    places = [source for source, _ in alignment.links]
    return sum(before > after for before, after in combinations(places, 2))


def drawn(alignment: "Alignment") -> list[str]:
    """The alignment as lines of text, output words downwards, source words across."""
    margin = max(map(len, alignment.target))
    lines = [" ".join([" " * margin, *alignment.source])]
    for word, row in zip(alignment.target, alignment.weights, strict=True):
        cells = [
            SHADES[round(float(weight) * (len(SHADES) - 1))] * len(name)
            for weight, name in zip(row, alignment.source, strict=True)
        ]
        lines.append(" ".join([word.rjust(margin), *cells]).rstrip())
    return lines


def measured(console: "Console", translator: "Translator", test: "Sequence[Pair]") -> None:
    from clearhead import metrics

    found = translator.translate([pair.source for pair in test], beam=1)
    score = metrics.bleu(
        [translation.text for translation in found], [pair.target for pair in test]
    )
    n_right = sum(
        translation.text == pair.target for translation, pair in zip(found, test, strict=True)
    )
    say(
        console,
        "How good it is",
        f"{score.name} {score.value:.1f} on {len(test):,} held-out sentences, {n_right:,} of them right to the letter.",
    )
    say(console, "", f"Signature: {score.signature}")
