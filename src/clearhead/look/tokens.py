"""Tokens as people read them, the words that they make up, and how likely each was."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

Spell = Callable[[Sequence[int]], list[str]]
"""Token ids as people read them, a leading space as ▁."""


@dataclass(frozen=True)
class Token:
    """A token and the word that it belongs to, counted from 0; special tokens belong to none."""

    id: int
    text: str
    word: int | None
    special: bool


def tokens(ids: Sequence[int], spell: Spell, n_special: int) -> tuple[Token, ...]:
    """Ids with their texts and words; the first ids of a vocabulary are special."""
    texts = spell(ids)
    special = [number < n_special for number in ids]
    return tuple(map(Token, ids, texts, word_numbers(texts, special), special))


def word_numbers(texts: Sequence[str], special: Sequence[bool]) -> list[int | None]:
    """The word that each token belongs to: a word begins with ▁, or behind a special token."""
    numbers: list[int | None] = []
    count, inside = -1, False
    for text, is_special in zip(texts, special, strict=True):
        count += not is_special and (not inside or text.startswith("▁"))
        numbers.append(None if is_special else count)
        inside = not is_special
    return numbers


def word_places(tokens: Sequence[Token]) -> list[list[int]]:
    """The places of each word's tokens (subword merging)."""
    found: dict[int, list[int]] = {}
    for place, token in enumerate(tokens):
        if token.word is not None:
            found.setdefault(token.word, []).append(place)
    return list(found.values())


def word_texts(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(
        "".join(tokens[place].text for place in word).strip("▁ ") for word in word_places(tokens)
    )


@dataclass(frozen=True)
class Guess:
    """A token or a class that the model could have said, and how likely that was."""

    id: int
    text: str
    logit: float
    prob: float

    @property
    def log_prob(self) -> float:
        return math.log(self.prob) if self.prob else -math.inf

    def __str__(self) -> str:
        return f"{self.text} {self.prob:.1%}"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One row of logits: what was said, and what else could have been."""

    chosen: Guess
    top: tuple[Guess, ...]
    max_logit: float
    log_sum_exp: float

    @property
    def rest(self) -> float:
        """The probability of everything that is not among the top."""
        return max(0.0, 1 - sum(guess.prob for guess in self.top))


def guesses(logits: Float[Tensor, " V"], ids: Sequence[int], spell: Spell) -> tuple[Guess, ...]:
    probs = logits.softmax(dim=0)
    return tuple(
        Guess(token, text, float(logits[token]), float(probs[token]))
        for token, text in zip(ids, spell(ids), strict=True)
    )
