"""One source and what is asked of its output, and many of them side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.model import masks

Term = tuple[tuple[int, ...], ...]
"""A term that must appear, in any one of its spellings (with and without a leading space, say)."""


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """One source and what is asked of its output."""

    index: int
    """Its place in the order given."""
    source: tuple[int, ...]
    """What the encoder reads; nothing, for a model without one."""
    prompt: tuple[int, ...]
    """What the decoder reads before the first choice: the start or a context, and the prefix."""
    n_prefix: int
    """How many of the prompt's last tokens are the beginning of the output."""
    limit: int
    """The longest output, its prefix and its end token included."""
    min_length: int = 0
    terms: tuple[Term, ...] = ()
    draw: int = 0
    """Which of several random outputs this is."""

    @property
    def prefix(self) -> tuple[int, ...]:
        return self.prompt[len(self.prompt) - self.n_prefix :]


def n_followed(sentences: Sequence[Sentence]) -> int:
    """How many of the prompts' last tokens are asked what follows them."""
    return 1 + max(sentence.n_prefix for sentence in sentences)


def sources(
    sentences: Sequence[Sentence], device: torch.device
) -> tuple[Int[Tensor, "N S"], Bool[Tensor, "N 1 1 S"] | None]:
    """The sources side by side (collated), and a mask where some are shorter than others."""
    lengths = torch.tensor([len(sentence.source) for sentence in sentences], device=device)
    source = padded([sentence.source for sentence in sentences], device)
    if lengths.min() == source.size(1):
        return source, None
    return source, masks.padding(torch.arange(source.size(1), device=device) < lengths[:, None])


def padded(
    rows: Sequence[Sequence[int]], device: torch.device, left: bool = False
) -> Int[Tensor, "N S"]:
    """Rows of one length, at least 1; what stands in the padding is never looked at."""
    width = max(1, *map(len, rows))
    fill = [[0] * (width - len(row)) for row in rows]
    return torch.tensor(
        [[*f, *row] if left else [*row, *f] for f, row in zip(fill, rows, strict=True)],
        device=device,
    )
