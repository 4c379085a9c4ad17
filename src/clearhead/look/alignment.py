"""Which source word each output word was made from, read off cross-attention."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from clearhead.look.tokens import Token, spelled, word_numbers, words
from clearhead.model import Trace, Transformer

UNSEEN = 1e-3
"""Weight that counts for a word that nobody looks at: a few of them, as articles often are, must not decide all."""


@dataclass(frozen=True)
class Alignment:
    """How much each output word looks at each source word; rows sum to 1."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: NDArray[np.float32]
    """Output words × source words."""
    head: str = ""
    """Whose attention it is: `decoder.1.cross.3`, or `decoder.1.cross` for the mean of its heads."""

    @property
    def links(self) -> tuple[tuple[int, int], ...]:
        """For each output word, the source word that it looks at most, as (source, output)."""
        return tuple((int(row.argmax()), number) for number, row in enumerate(self.weights))

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


@torch.inference_mode()
def align(
    model: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    labels: tuple[Sequence[str], Sequence[str]],
    start: int = 1,
    end: int = 2,
) -> Alignment:
    """The alignment of a source and an output, both ids without special tokens; labels are their tokens as text."""
    trace = Trace()
    device = model.device
    model(
        torch.tensor([[*source, end]], device=device),
        torch.tensor([[start, *target]], device=device),
        tap=trace,
    )
    patterns = {
        path.removesuffix(".pattern"): pattern[0].float().cpu()
        for path, pattern in trace.seen.items()
        if path.endswith("cross.pattern")
    }
    read, said = (with_end(side, end) for side in labels)
    return best_alignment(patterns, read, said)


def with_end(texts: Sequence[str], end: int) -> tuple[Token, ...]:
    """Tokens of which only the texts are known, and the end."""
    numbers = word_numbers(texts, [False] * len(texts))
    found = [Token(0, text, number, False) for text, number in zip(texts, numbers, strict=True)]
    return (*found, Token(end, "", None, True))


def best_alignment(
    patterns: Mapping[str, Float[Tensor, "H T S"]],
    source: Sequence[Token],
    predicted: Sequence[Token],
) -> Alignment:
    """The alignment by the head, or the mean of a layer's heads, that comes nearest to linking words one to one.

    Row t of the decoder reads token t - 1 and predicts token t, so its attention belongs to the token it predicts.
    """
    candidates = {
        f"{path}.{head}": pattern[head]
        for path, pattern in patterns.items()
        for head in range(len(pattern))
    }
    candidates |= {path: pattern.mean(dim=0) for path, pattern in patterns.items()}
    tables = {name: merged(pattern, source, predicted) for name, pattern in candidates.items()}
    best = max(tables, key=lambda name: one_to_one(tables[name]))
    weights = tables[best] / tables[best].sum(dim=1, keepdim=True).clamp_min(1e-9)
    return Alignment(spelled(source), spelled(predicted), weights.numpy(), best)


def one_to_one(weights: Float[Tensor, "T S"]) -> float:
    """The strongest link of every word, on both sides, as the sum of two means of logarithms.

    A head that stares at special tokens or at one word leaves the others without a link; one that looks everywhere has
    only weak ones.
    """
    if not weights.numel():
        return 0.0
    strongest = (weights.amax(dim=side).clamp_min(UNSEEN).log().mean() for side in (0, 1))
    return float(sum(strongest))


def merged(
    pattern: Float[Tensor, "T S"], source: Sequence[Token], predicted: Sequence[Token]
) -> Float[Tensor, "U R"]:
    """Token weights as word weights: added up over a source word, averaged over an output word."""
    rows, columns = (belongs(side) for side in (predicted, source))
    return (rows / rows.sum(dim=1, keepdim=True)) @ pattern @ columns.mT


def belongs(tokens: Sequence[Token]) -> Float[Tensor, "W T"]:
    """A row for each word, with 1 where a token is part of it."""
    table = torch.zeros(len(words(tokens)), len(tokens))
    for row, places in enumerate(words(tokens)):
        table[row, places] = 1
    return table
