"""Running text with a part of it hidden, to be found again: what pre-training asks without labels.

What is hidden is a pure function of the seed and the place in the stream, so that a run that goes
on asks what it would have asked anyway.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import torch
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from clearhead.data.batches import (
    Batches,
    MaskedBatch,
    PairBatch,
    TextBatch,
    TokenBatch,
    paired,
)
from clearhead.data.order import Ints, mix
from clearhead.text import MASK

B = TypeVar("B", bound=TokenBatch, covariant=True)

AS_MASK, AS_ANOTHER = 0.8, 0.1
"""Shares of the hidden tokens that show the mask and another token; the rest stays, as in BERT."""
SPAN = 3
"""Mean length of the spans that are taken out for denoising, as in T5."""


class Noisy(Batches[B]):
    """Windows of running text, each of which is spoiled in its own way."""

    def __init__(self, windows: Batches[TextBatch], share: float, seed: int) -> None:
        self.windows, self.share, self.seed = windows, share, seed

    @abstractmethod
    def spoiled(self, batch: TextBatch, random: Generator) -> B:
        """The batch with a part of it hidden."""

    def __len__(self) -> int:
        return len(self.windows)

    def batch(self, place: int) -> B:
        return self.spoiled(self.windows.batch(place), default_rng(mix(self.seed, place)))

    def fixed(self) -> Iterator[B]:
        for number, batch in enumerate(self.windows.fixed()):
            yield self.spoiled(batch, default_rng(number))


class Masked(Noisy[MaskedBatch]):
    """Hidden tokens here and there, which the encoder has to name (masked language modelling)."""

    def __init__(self, windows: Batches[TextBatch], share: float, seed: int, words: range) -> None:
        super().__init__(windows, share, seed)
        self.words = words
        """The ids of tokens that are words: no others are hidden or shown instead."""

    def spoiled(self, batch: TextBatch, random: Generator) -> MaskedBatch:
        text = batch.target_out.numpy()
        order = np.where(
            batch.judged.numpy() & (text >= self.words.start), random.random(text.shape), 2.0
        )
        n_hidden = max(1, round(self.share * int((order < 1).sum())))
        hidden = order <= min(1.0, np.partition(order.ravel(), n_hidden - 1)[n_hidden - 1])
        fate = random.random(text.shape)
        others = random.integers(self.words.start, self.words.stop, text.shape)
        shown = np.select(
            [~hidden, fate < AS_MASK, fate < AS_MASK + AS_ANOTHER], [text, MASK, others], text
        )
        return MaskedBatch(
            indices=batch.indices,
            source=torch.from_numpy(shown),
            target_out=batch.target_out,
            judged=torch.from_numpy(hidden),
        )


class Denoised(Noisy[PairBatch]):
    """Spans taken out: the encoder reads a mask for each, the decoder writes them (as in T5)."""

    def spoiled(self, batch: TextBatch, random: Generator) -> PairBatch:
        texts = [
            row[real]
            for row, real in zip(batch.target_out.numpy(), batch.judged.numpy(), strict=True)
        ]
        sources, targets = zip(
            *(taken_out(text, spans(len(text), self.share, random)) for text in texts), strict=True
        )
        return paired(batch.indices, end_to_end(sources), end_to_end(targets))


def spans(length: int, share: float, random: Generator) -> NDArray[np.bool_]:
    """Which places of a text are hidden: a share of them, in spans with something between them."""
    n_hidden = max(1, min(round(length * share), length - 1))
    n_spans = max(1, min(round(n_hidden / SPAN), length - n_hidden))
    lengths = np.stack(
        [random_parts(length - n_hidden, n_spans, random), random_parts(n_hidden, n_spans, random)],
        axis=1,
    )
    return np.repeat(np.tile([False, True], n_spans), lengths.ravel())


def random_parts(total: int, n_parts: int, random: Generator) -> Ints:
    """Lengths that add up to the total, none of them 0, every way to cut being equally likely."""
    cuts = np.sort(random.permutation(np.arange(1, total))[: n_parts - 1])
    return np.diff(np.concatenate([[0], cuts, [total]])).astype(np.int64)


def taken_out(text: Ints, hidden: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """The text with a mask for each hidden span; and the spans, each after a mask."""
    begins = hidden & ~np.concatenate([[False], hidden[:-1]])
    source = np.where(begins, MASK, text)[begins | ~hidden]
    at = np.flatnonzero(begins)
    return source, np.insert(text, at, MASK)[np.insert(hidden, at, True)]


def end_to_end(rows: tuple[Ints, ...]) -> tuple[Ints, Ints]:
    return np.concatenate(rows), np.array([len(row) for row in rows])
