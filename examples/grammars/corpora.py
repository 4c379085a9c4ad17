"""The corpora of the four demos, each in three parts, and the form in which they ship with the package.

To write them into the package anew: python -m examples.grammars.corpora
"""

import bz2
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

from clearhead.data.examples import LabelledText
from examples.grammars.phrasebook import (
    everyday_pairs,
    held_out_pairs,
    mixed,
    training_pairs,
)
from examples.grammars.reviews import some_opinions, some_reviews
from examples.grammars.smalltalk import conversations
from examples.grammars.stories import some_stories

DATA = Path(__file__).resolve().parents[2] / "src" / "clearhead" / "demo" / "data"
WORD = re.compile(r" ?[\w']+| ?[^\w\s]+")
"""A word, or marks, with the space before it."""
FIRST = 32
"""The character that stands for the first word; those below it, such as a line's end, stand for themselves."""

T = TypeVar("T")
Parts = list[list[str]]
"""The lines to train on, to validate with and to test with."""


def corpora() -> dict[str, Parts]:
    """Every file of text by name."""
    grammatical = training_pairs(24_000)
    held_out = held_out_pairs(1_300, grammatical)
    training = mixed(grammatical, everyday_pairs(10_000))
    pairs = (training, held_out[:300], held_out[300:])
    return {
        "translation.en": [[pair.source for pair in part] for part in pairs],
        "translation.de": [[pair.target for pair in part] for part in pairs],
        "chat.jsonl": [
            [json.dumps({"turns": each.turns}) for each in part]
            for part in drawn_parts(conversations, (12_000, 200, 400))
        ],
        "classification.tsv": [
            [f"{each.labels[0]}\t{each.text}" for each in part] for part in reviews()
        ],
        "writing.txt": drawn_parts(some_stories, (8_000, 100, 200)),
    }


def reviews() -> list[list[LabelledText]]:
    """Reviews to learn from, among them opinions as people type them; those of the tests are the grammar's."""
    training, *tests = drawn_parts(some_reviews, (5_000, 300, 1_000))
    both = [*training, *some_opinions(2_000)]
    return [Random(0).sample(both, len(both)), *tests]  # noqa: S311


def drawn_parts(draw: Callable[..., list[T]], sizes: Sequence[int]) -> list[list[T]]:
    """Each part from a seed of its own; all but the first hold what is kept out of training."""
    return [draw(n, seed=seed, held_out=seed > 0) for seed, n in enumerate(sizes)]


def packed(parts: Parts) -> bytes:
    """The words, the most frequent first, then the lines with one character for each word (dictionary coding), in bz2.

    Blank lines stand between the parts. Written out in gzip, the text would take more than twice the space.
    """
    text = "\n\n".join("\n".join(lines) for lines in parts)
    counts = Counter(WORD.findall(text))
    words = sorted(counts, key=lambda word: (-counts[word], word))
    letters = {word: chr(FIRST + number) for number, word in enumerate(words)}
    coded = WORD.sub(lambda found: letters[found[0]], text)
    return bz2.compress(f"{'|'.join(words)}\n{coded}".encode())


if __name__ == "__main__":
    for name, parts in corpora().items():
        (DATA / f"{name}.bz2").write_bytes(packed(parts))
