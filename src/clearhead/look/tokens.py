"""Tokens as people read them, and the words that they make up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


def words(tokens: Sequence[Token]) -> list[list[int]]:
    """The places of each word's tokens."""
    found: dict[int, list[int]] = {}
    for place, token in enumerate(tokens):
        if token.word is not None:
            found.setdefault(token.word, []).append(place)
    return list(found.values())


def spelled(tokens: Sequence[Token]) -> tuple[str, ...]:
    """The words that the tokens make up."""
    return tuple(
        "".join(tokens[place].text for place in places).strip("▁ ") for places in words(tokens)
    )
