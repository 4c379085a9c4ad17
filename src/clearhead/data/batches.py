"""Batches: examples collated to tensors, at any place of an endless deterministic stream.

A place is one integer. Processes that share the work take turns: of n processes, number r sees the
places r, n + r, 2n + r and so on, so that together they see what one would see alone, and each
takes as many steps as the others. Running text may have a part of it hidden, to be found again
(pre-training); what is hidden depends on the seed and the place alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Generic, Self, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.random import Generator, default_rng
from torch import Tensor

from clearhead.data.order import Ints, cuts, longest, mix, shuffled
from clearhead.data.store import Store
from clearhead.errors import DataError
from clearhead.text import END, MASK, START, Tokenizer

AS_MASK, AS_ANOTHER = 0.8, 0.1
"""Shares of the hidden tokens that show the mask and another token; the rest stays, as in BERT."""
SPAN = 3
"""Mean length of the spans that are taken out for denoising, as in T5."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Tensors whose rows belong together."""

    indices: Int[Tensor, " B"]
    """Which examples of the store, or which windows of the text, the rows are."""

    def to(self, device: torch.device | str) -> Self:
        return type(self)(
            **{field.name: getattr(self, field.name).to(device) for field in fields(self)}
        )


@dataclass(frozen=True, kw_only=True)
class TokenBatch(Batch):
    target_out: Int[Tensor, "B T"]
    """What should be predicted at each position."""
    judged: Bool[Tensor, "B T"]
    """The loss mask: True at the positions whose prediction is judged."""


@dataclass(frozen=True, kw_only=True)
class TextBatch(TokenBatch):
    """Text to be continued; `target_out` is the text, then the end token."""

    target_in: Int[Tensor, "B T"]
    """What the decoder reads: the start token, then the text."""


@dataclass(frozen=True, kw_only=True)
class PairBatch(TextBatch):
    """Text to be produced from other text."""

    source: Int[Tensor, "B S"]
    """What the encoder reads: the text, then the end token."""
    source_mask: Bool[Tensor, "B S"]
    """True where the source is real and not padding."""


@dataclass(frozen=True, kw_only=True)
class MaskedBatch(TokenBatch):
    """Text of which a part is hidden; what was hidden is judged."""

    source: Int[Tensor, "B T"]
    """What the encoder reads: the text with masks, and other tokens, in place of some."""


@dataclass(frozen=True, kw_only=True)
class LabelBatch(Batch):
    source: Int[Tensor, "B S"]
    source_mask: Bool[Tensor, "B S"]
    labels: Bool[Tensor, "B C"]
    """True for every label that the text has."""


def pair_batch(store: Store, examples: Ints) -> PairBatch:
    return paired(torch.from_numpy(examples), store.rows(0, examples), store.rows(1, examples))


def paired(
    indices: Int[Tensor, " B"], sources: tuple[Ints, Ints], targets: tuple[Ints, Ints]
) -> PairBatch:
    """Pairs collated to a batch, each side given as ids end to end and how many each row has."""
    source, source_mask = padded_with_end(*sources)
    target, judged = padded_with_end(*targets)
    return PairBatch(
        indices=indices,
        source=source,
        source_mask=source_mask,
        target_in=shifted(target, judged),
        target_out=target,
        judged=judged,
    )


def label_batch(store: Store, examples: Ints) -> LabelBatch:
    source, mask = padded_with_end(*store.rows(0, examples))
    numbers, lengths = store.rows(1, examples)
    labels = torch.zeros(len(examples), store.vocab_sizes[1], dtype=torch.bool)
    labels[np.repeat(np.arange(len(examples)), lengths), numbers] = True
    return LabelBatch(
        indices=torch.from_numpy(examples), source=source, source_mask=mask, labels=labels
    )


def conversation_batch(store: Store, examples: Ints) -> TextBatch:
    """Conversations to be continued where the bot speaks; it says the end if it speaks last."""
    ids, lengths = store.rows(0, examples)
    target, real = padded_with_end(ids, lengths)
    spoken, _ = padded_rows(store.rows(1, examples)[0], lengths)
    every = np.arange(len(examples))
    spoken[every, lengths] = spoken[every, lengths - 1]
    return TextBatch(
        indices=torch.from_numpy(examples),
        target_in=shifted(target, real),
        target_out=target,
        judged=torch.from_numpy(spoken > 0),
    )


def padded_rows(ids: Ints, lengths: Ints) -> tuple[Ints, Bool[np.ndarray, "B T"]]:
    """Rows of ids, given end to end, as a rectangle with room for an end; and where it is real."""
    columns = np.arange(lengths.max() + 1)
    rectangle = np.zeros((len(lengths), len(columns)), np.int64)
    rectangle[columns < lengths[:, None]] = ids
    return rectangle, columns <= lengths[:, None]


def padded_with_end(ids: Ints, lengths: Ints) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    rectangle, real = padded_rows(ids, lengths)
    rectangle[np.arange(len(lengths)), lengths] = END
    return torch.from_numpy(rectangle), torch.from_numpy(real)


def shifted(target: Int[Tensor, "B T"], real: Bool[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """What the decoder reads: the start token, then all but the last of the row."""
    start = torch.full_like(target[:, :1], START)
    return torch.cat([start, target[:, :-1]], dim=1) * real


B = TypeVar("B", bound=Batch, covariant=True)


class Batches(ABC, Generic[B]):
    """An endless stream of batches; every epoch has equally many and holds everything once."""

    @abstractmethod
    def __len__(self) -> int:
        """Batches in an epoch."""

    @abstractmethod
    def batch(self, place: int) -> B:
        """The batch at a place of the stream, which runs on from epoch to epoch."""

    @abstractmethod
    def fixed(self) -> Iterator[B]:
        """Everything once, not shuffled, for measuring."""


class ByLength(Batches[B]):
    """Examples of like length together, as many as fit a number of tokens.

    Examples change places only within their length bucket, so padding stays small and the cuts are
    the same in every epoch.
    """

    def __init__(
        self, store: Store, make: Callable[[Store, Ints], B], batch_tokens: int, seed: int
    ) -> None:
        self.store, self.make, self.seed = store, make, seed
        self.cuts = cuts(longest(store.buckets) + 1, store.bucket_sizes, batch_tokens)
        self.bucket_ends = np.cumsum(store.bucket_sizes)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def batch(self, place: int) -> B:
        epoch, index = divmod(place, len(self))
        number = int(shuffled(np.array([index]), len(self), mix(self.seed, epoch))[0])
        places = np.arange(self.cuts[number], self.cuts[number + 1])
        bucket = np.searchsorted(self.bucket_ends, places, side="right")
        sizes = self.store.bucket_sizes[bucket]
        starts = self.bucket_ends[bucket] - sizes
        places = starts + shuffled(places - starts, sizes, mix(self.seed, epoch, bucket))
        return self.make(self.store, self.store.by_length[places])

    def fixed(self) -> Iterator[B]:
        """Every example once, shorter ones first; `indices` says how to restore the order."""
        for start, end in zip(self.cuts[:-1], self.cuts[1:], strict=True):
            yield self.make(self.store, self.store.by_length[start:end])


class Recut(Batches[PairBatch]):
    """The same pairs, their words cut into other tokens each time (subword dropout)."""

    def __init__(
        self,
        pairs: Batches[PairBatch],
        tokenizers: tuple[Tokenizer, Tokenizer],
        dropout: float,
        seed: int,
    ) -> None:
        self.pairs, self.tokenizers, self.dropout, self.seed = pairs, tokenizers, dropout, seed

    def __len__(self) -> int:
        return len(self.pairs)

    def batch(self, place: int) -> PairBatch:
        pairs, (source, target) = self.pairs.batch(place), self.tokenizers
        seed = int(mix(self.seed, place)[0])
        return paired(
            pairs.indices,
            self.recut(source, pairs.source, pairs.source_mask, seed),
            self.recut(target, pairs.target_out, pairs.judged, seed + 1),
        )

    def recut(
        self, tokenizer: Tokenizer, ids: Int[Tensor, "B T"], real: Bool[Tensor, "B T"], seed: int
    ) -> tuple[Ints, Ints]:
        """The rows as ids end to end and their lengths, after their text was tokenised again."""
        texts = [
            tokenizer.decode(row[:length])
            for row, length in zip(ids.tolist(), (real.sum(1) - 1).tolist(), strict=True)
        ]
        rows = tokenizer.encode_batch(texts, self.dropout, seed)
        return end_to_end([np.array(row, np.int64) for row in rows])

    def fixed(self) -> Iterator[PairBatch]:
        return self.pairs.fixed()


class Windows(Batches[TextBatch]):
    """Running text in full windows. The text is a ring, and each epoch cuts it at other places."""

    def __init__(self, store: Store, window: int, batch_tokens: int, seed: int) -> None:
        self.text, self.seed = store.ids[0], seed
        if len(self.text) < 2:
            raise DataError(
                f"There is too little text to learn from: {len(self.text)} tokens.",
                "Give a longer text.",
            )
        self.window = min(window, len(self.text) - 1)
        self.n_windows = (len(self.text) - 1) // self.window
        self.rows = max(1, batch_tokens // self.window)

    def __len__(self) -> int:
        return -(-self.n_windows // self.rows)

    def batch(self, place: int) -> TextBatch:
        epoch, index = divmod(place, len(self))
        key = mix(self.seed, epoch)
        places = np.arange(index * self.rows, min((index + 1) * self.rows, self.n_windows))
        return self.windows(
            shuffled(places, self.n_windows, key), offset=int(key[0] % len(self.text))
        )

    def fixed(self) -> Iterator[TextBatch]:
        """The text from first token to last, each predicted once; the last window is short."""
        n_windows = -(-(len(self.text) - 1) // self.window)
        for start in range(0, n_windows, self.rows):
            yield self.windows(np.arange(start, min(start + self.rows, n_windows)), ring=False)

    def windows(self, numbers: Ints, offset: int = 0, ring: bool = True) -> TextBatch:
        places = numbers[:, None] * self.window + np.arange(self.window + 1)
        ids = torch.from_numpy(self.text[(places + offset) % len(self.text)])
        return TextBatch(
            indices=torch.from_numpy(numbers),
            target_in=ids[:, :-1],
            target_out=ids[:, 1:],
            judged=torch.from_numpy(ring | (places[:, 1:] < len(self.text))),
        )


class Noisy(Batches[B]):
    """Windows of running text with a part of each hidden, by `masked_batch` or `denoising_batch`."""

    def __init__(
        self, windows: Batches[TextBatch], hide: Callable[[TextBatch, Generator], B], seed: int
    ) -> None:
        self.windows, self.hide, self.seed = windows, hide, seed

    def __len__(self) -> int:
        return len(self.windows)

    def batch(self, place: int) -> B:
        return self.hide(self.windows.batch(place), default_rng(mix(self.seed, place)))

    def fixed(self) -> Iterator[B]:
        for number, batch in enumerate(self.windows.fixed()):
            yield self.hide(batch, default_rng(number))


def masked_batch(batch: TextBatch, random: Generator, *, share: float, words: range) -> MaskedBatch:
    """Hidden tokens here and there, which the encoder has to name (masked language modelling).

    `words` are the ids of tokens that are words: no others are hidden or shown instead.
    """
    text = batch.target_out.numpy()
    order = np.where(batch.judged.numpy() & (text >= words.start), random.random(text.shape), 2.0)
    n_hidden = max(1, round(share * int((order < 1).sum())))
    hidden = order <= min(1.0, np.partition(order.ravel(), n_hidden - 1)[n_hidden - 1])
    fate = random.random(text.shape)
    others = random.integers(words.start, words.stop, text.shape)
    shown = np.select(
        [~hidden, fate < AS_MASK, fate < AS_MASK + AS_ANOTHER], [text, MASK, others], text
    )
    return MaskedBatch(
        indices=batch.indices,
        source=torch.from_numpy(shown),
        target_out=batch.target_out,
        judged=torch.from_numpy(hidden),
    )


def denoising_batch(batch: TextBatch, random: Generator, *, share: float) -> PairBatch:
    """Spans taken out: the encoder reads a mask for each, the decoder writes them (as in T5)."""
    rows = zip(batch.target_out.numpy(), batch.judged.numpy(), strict=True)
    texts = [row[real] for row, real in rows]
    sources, targets = zip(
        *(taken_out(text, spans(len(text), share, random)) for text in texts), strict=True
    )
    return paired(batch.indices, end_to_end(sources), end_to_end(targets))


def spans(length: int, share: float, random: Generator) -> Bool[np.ndarray, " T"]:
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


def taken_out(text: Ints, hidden: Bool[np.ndarray, " T"]) -> tuple[Ints, Ints]:
    """The text with a mask for each hidden span; and the spans, each after a mask."""
    begins = hidden & ~np.concatenate([[False], hidden[:-1]])
    source = np.where(begins, MASK, text)[begins | ~hidden]
    at = np.flatnonzero(begins)
    return source, np.insert(text, at, MASK)[np.insert(hidden, at, True)]


def end_to_end(rows: Sequence[Ints]) -> tuple[Ints, Ints]:
    return np.concatenate(rows), np.array([len(row) for row in rows])
