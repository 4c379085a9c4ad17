"""BPE-dropout: merges skipped at random, so that training sees a word cut in several ways.

The Rust library draws from a generator that cannot be seeded; training that resumes exactly needs
one that can.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from random import Random

from clearhead.text.vocabulary import Vocabulary, byte_tokens

LONGEST = 256
"""Symbols merged together at most, for the time grows with the square; longer words are cut."""


class Merges:
    """The merges of a vocabulary as ids: which pair becomes which token, and which comes first."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.ids = vocabulary.ids()
        self.first_byte = self.ids[byte_tokens(vocabulary.method)[0]]
        self.ranks: Mapping[tuple[int, int], tuple[int, int]] = {
            (self.ids[left], self.ids[right]): (rank, self.ids[left + right])
            for rank, (left, right) in enumerate(vocabulary.merges)
        }

    def encode(self, words: Iterable[str], dropout: float, random: Random) -> Iterator[int]:
        """Ids of the words; each possible merge is left out with the probability `dropout`."""
        for word in words:
            symbols = list(self.symbols(word))
            for start in range(0, len(symbols), LONGEST):
                yield from self.merge(symbols[start : start + LONGEST], dropout, random)

    def symbols(self, word: str) -> Iterator[int]:
        """The characters of a word as ids, spelled in bytes where the vocabulary lacks them."""
        for character in word:
            if character in self.ids:
                yield self.ids[character]
            else:
                yield from (self.first_byte + byte for byte in character.encode())

    def merge(self, symbols: list[int], dropout: float, random: Random) -> list[int]:
        while True:
            possible = [
                (*self.ranks[pair], place)
                for place, pair in enumerate(pairwise(symbols))
                if pair in self.ranks and random.random() >= dropout
            ]
            if not possible:
                return symbols
            _, token, place = min(possible)
            symbols[place : place + 2] = [token]
