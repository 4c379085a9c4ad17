"""Tokens as people read them, the words that they make up, and which of them belong together.

The alignment, which source word each output word was made from, is read off cross-attention.
"""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.look.labelled import LabelledTensor, patterns, replayed
from clearhead.model import Model
from clearhead.text.words import UNSPACED

LETTER_WITHOUT_SPACES = re.compile(f"[{UNSPACED}]")
Spell = Callable[[Sequence[int]], list[str]]
"""Token ids as people read them, a leading space as ▁."""
UNSEEN = 1e-3
"""The least weight that a word counts with: a few that nothing looks at must not decide all."""


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
    """The word that each token belongs to, counted from 0; special tokens belong to none."""
    numbers: list[int | None] = []
    count, word = -1, ""
    for text, is_special in zip(texts, special, strict=True):
        begins = not is_special and begins_word(text, word)
        count += begins
        numbers.append(None if is_special else count)
        word = "" if is_special else text if begins else word + text
    return numbers


def begins_word(text: str, before: str) -> bool:
    """Whether a token begins a word or goes on with the one before it.

    A word begins with ▁, or behind a special token. In writing without spaces (Chinese, Japanese,
    Thai …) each token is one, and takes the punctuation behind it along.
    """
    if not before or text.startswith("▁"):
        return True
    if not before.strip("▁"):
        return False
    is_other_writing = text[:1].isalnum() and LETTER_WITHOUT_SPACES.search(before)
    return bool(LETTER_WITHOUT_SPACES.match(text) or is_other_writing)


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


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """How much each output word looks at each source word; rows sum to 1."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Float[np.ndarray, "target source"]
    head: str = ""
    """Whose attention it is: `decoder.1.cross.3`; `decoder.1.cross` for the mean of its heads."""

    @property
    def links(self) -> tuple[tuple[int, int], ...]:
        """For each output word, the source word that it looks at most, as (source, output)."""
        return tuple((int(row.argmax()), number) for number, row in enumerate(self.weights))

    @property
    def matrix(self) -> LabelledTensor:
        return LabelledTensor(
            path=f"alignment by {self.head}",
            values=self.weights,
            axes=("target", "source"),
            labels=(self.target, self.source),
        )

    def csv(self) -> str:
        """A table for a spreadsheet: source words across, output words downwards."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["", *self.source])
        rows.writerows(
            [word, *(f"{w:.4f}" for w in row)]
            for word, row in zip(self.target, self.weights, strict=True)
        )
        return text.getvalue()

    def __str__(self) -> str:
        """Pharaoh's format: 0-0 2-1 …"""
        return " ".join(f"{source}-{target}" for source, target in sorted(self.links))


def align(model: Model, source: Sequence[Token], target: Sequence[Token], start: int) -> Alignment:
    """The alignment of any source and output, each ended by its end token."""
    sides = [token.id for token in source], [start, *(token.id for token in target[:-1])]
    return best_alignment(patterns(replayed(model, *sides), "cross"), source, target)


def best_alignment(
    patterns: Mapping[str, Float[Tensor, "H T S"]],
    source: Sequence[Token],
    predicted: Sequence[Token],
) -> Alignment:
    """The alignment by the head, or by the mean of a layer's, that is most nearly one to one.

    Row t of the decoder reads token t - 1 and predicts token t, so its attention belongs to the
    token it predicts.
    """
    heads = {
        f"{path}.{head}": weights
        for path, pattern in patterns.items()
        for head, weights in enumerate(pattern)
    } | {path: pattern.mean(dim=0) for path, pattern in patterns.items()}
    # Tokens to words: weights add up over a source word, and are averaged over an output word.
    rows, columns = membership(predicted), membership(source)
    rows = rows / rows.sum(dim=1, keepdim=True)
    tables = {name: rows @ pattern @ columns.mT for name, pattern in heads.items()}
    best = max(tables, key=lambda name: one_to_one(tables[name]))
    weights = tables[best] / tables[best].sum(dim=1, keepdim=True).clamp_min(1e-9)
    return Alignment(
        source=word_texts(source),
        target=word_texts(predicted),
        weights=weights.numpy(),
        head=best,
    )


def one_to_one(weights: Float[Tensor, "T S"]) -> float:
    """The strongest link of every word, on both sides, as the sum of two means of logarithms.

    A head that looks only at special tokens or at one word leaves the other words without a link;
    one that looks everywhere has only weak links.
    """
    if not weights.numel():
        return 0.0
    strongest = (weights.amax(dim=side).clamp_min(UNSEEN).log().mean() for side in (0, 1))
    return float(sum(strongest))


def membership(tokens: Sequence[Token]) -> Float[Tensor, "W T"]:
    """A row for each word, with 1 where a token is part of it."""
    places = word_places(tokens)
    table = torch.zeros(len(places), len(tokens))
    for row, own in zip(table, places, strict=True):
        row[own] = 1
    return table
