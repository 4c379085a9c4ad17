"""Which words a model has seen in training, so that it can say when a text holds others.

A word is kept as a number (its CRC-32), which is enough to recognise it and too little to read it.
Writing without spaces (Chinese, Japanese, Thai …) has no words here.
"""

import re
import zlib
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
WORD = re.compile(rf"[^\W\d_{UNSPACED}]+(?:['’][^\W\d_{UNSPACED}]+)*")
MOST_WORDS = 2_000_000
"""Different words that are kept at most."""
SHOWN = 5
"""New words that a note names."""

Words = NDArray[np.int32]
"""The numbers of words, in ascending order."""


def numbers_of(words: Collection[str]) -> Words:
    sums = (zlib.crc32(word.casefold().encode()) - 2**31 for word in words)
    return np.fromiter(sums, np.int32, len(words))


class WordsSeen:
    """The words of texts that pass by."""

    def __init__(self) -> None:
        self.words: set[str] = set()

    def add(self, text: str) -> None:
        if len(self.words) < MOST_WORDS:
            self.words.update(WORD.findall(text.casefold()))

    def numbers(self) -> Words:
        return np.unique(numbers_of(self.words))


def are_new(words: list[str], known: Words) -> NDArray[np.bool_]:
    """Which words are not among the known ones, by binary search.

    To look at all known words would take longer than a translation.
    """
    if not len(known):
        return np.ones(len(words), np.bool_)
    numbers = numbers_of(words)
    places = np.searchsorted(known, numbers)
    return np.asarray(known.take(places, mode="clip") != numbers, np.bool_)


def share_known(text: str, known: Words) -> float:
    """The share of a text's words that are among the known ones; none where it has no words."""
    words = WORD.findall(text)
    return 1 - float(are_new(words, known).mean()) if words else 0.0


def told_of_new_words(text: str, known: Words) -> str:
    """A note on the words that are not among the known ones; empty if all are."""
    words = list(dict.fromkeys(WORD.findall(text)))
    new = [word for word, is_new in zip(words, are_new(words, known), strict=True) if is_new]
    if not new:
        return ""
    are, more = "is" if len(new) == 1 else "are", " …" if len(new) > SHOWN else ""
    return (
        f"{len(new)} of {len(words)} words {are} new to this model: {', '.join(new[:SHOWN])}{more}"
    )
