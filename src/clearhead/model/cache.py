"""Keys and values already computed, so that a new token costs one row and not a whole matrix.

The rows of a cache are hypotheses. Those of one sentence share its source: their cross-attention asks one set of keys,
which is projected once and never copied per beam. A cache is for decoding: no gradient passes through it.
"""

import weakref
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.model import masks

KeysValues = tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H S K"]]
OtherKeysValues = tuple[Float[Tensor, "N H R K"], Float[Tensor, "N H R K"]]


@runtime_checkable
class Memory(Protocol):
    """What an attention layer needs of a cache."""

    def extend(self, k: Float[Tensor, "B H T K"], v: Float[Tensor, "B H T K"]) -> KeysValues:
        """The keys and values so far, these new ones included."""

    def recall(self, project: Callable[[], KeysValues]) -> KeysValues:
        """The source's keys and values, projected at most once."""


class NoCache:
    """Remembers nothing: every call projects keys and values anew, as in training."""

    length = 0

    def layer(self, index: int) -> "NoCache":  # noqa: ARG002 - all layers are alike
        return self

    def extend(self, k: Float[Tensor, "B H T K"], v: Float[Tensor, "B H T K"]) -> KeysValues:
        return k, v

    def recall(self, project: Callable[[], KeysValues]) -> KeysValues:
        return project()

    def positions(self, n_new: int, device: torch.device) -> Int[Tensor, "1 T"]:
        return torch.arange(n_new, device=device)[None]

    def reach(self, n_new: int) -> int:
        return n_new

    def mask(self, n_new: int, device: torch.device) -> Bool[Tensor, "T S"] | None:
        return masks.causal(n_new, device=device)

    def advance(self, n_new: int) -> None:
        pass


NO_CACHE = NoCache()


class Cache:
    """The keys and values of every decoder layer, in one preallocated tensor that doubles when it is full.

    All rows write to the same slot at the same time. A row that came in later has a `start`: what lies in the slots
    before it is not its own, and its positions are counted from there.
    """

    def __init__(self, n_layers: int, capacity: int = 32) -> None:
        self.length = 0
        self.start: Int[Tensor, " B"] | None = None
        self.capacity = capacity
        self.own: Float[Tensor, "L 2 B H C K"] | None = None
        self.layers = [LayerCache(self, index) for index in range(n_layers)]

    def layer(self, index: int) -> "LayerCache":
        return self.layers[index]

    def positions(self, n_new: int, device: torch.device) -> Int[Tensor, "#B T"]:
        slots = torch.arange(self.length, self.length + n_new, device=device)[None]
        return slots if self.start is None else (slots - self.start[:, None]).clamp_min(0)

    def reach(self, n_new: int) -> int:
        """How far the positions of new rows go: all lie before it."""
        return self.length + n_new

    def mask(self, n_new: int, device: torch.device) -> Bool[Tensor, "..."] | None:
        """What new rows may look at; one new token that stands behind all others needs no mask."""
        if self.start is not None:
            return masks.causal_from(self.start, n_new, self.length)
        return None if n_new == 1 else masks.causal(n_new, self.length, device)

    def advance(self, n_new: int) -> None:
        self.length += n_new

    def room(
        self, like: Float[Tensor, "..."], n_rows: int, n_heads: int, n_new: int
    ) -> Float[Tensor, "L 2 B H C K"]:
        """The tensor that holds all keys and values, with place for new tokens."""
        needed = self.length + n_new
        if self.own is None or needed > self.capacity:
            while self.capacity < needed:
                self.capacity *= 2
            d_head = like.numel() // (n_rows * n_heads * n_new)
            grown = like.new_empty(len(self.layers), 2, n_rows, n_heads, self.capacity, d_head)
            if self.own is not None:
                grown[..., : self.length, :] = self.own[..., : self.length, :]
            self.own = grown
        return self.own

    def reorder(self, rows: Int[Tensor, " R"]) -> None:
        """Rows become copies of other rows: hypotheses that go on, several from one parent or none."""
        if self.own is not None:
            self.own = taken(self.own, 2, rows)
        if self.start is not None:
            self.start = self.start[rows]

    def keep_sources(self, sentences: Int[Tensor, " N"]) -> None:
        """Sentences that are finished leave; their source's keys and values go with them."""
        for layer in self.layers:
            if layer.source is not None:
                k, v = layer.source
                layer.source = taken(k, 0, sentences), taken(v, 0, sentences)

    def join(self, other: "Cache") -> None:
        """Rows of another cache come in below: their tokens are moved to end where these end."""
        length = max(self.length, other.length)
        self.start = torch.cat([cache.starts() + length - cache.length for cache in (self, other)])
        self.own = torch.cat([aligned(cache.tokens(), length) for cache in (self, other)], dim=2)
        self.length = self.capacity = length
        for layer, new in zip(self.layers, other.layers, strict=True):
            layer.source = joined(layer.source, new.source)

    def forget(self, n_slots: int) -> None:
        """The first slots, which no row looks at any more, are given up."""
        self.own = self.tokens()[..., n_slots:, :]
        self.length = self.capacity = self.length - n_slots
        if self.start is not None:
            self.start = (self.start - n_slots).clamp_min(0)

    def tokens(self) -> Float[Tensor, "L 2 B H S K"]:
        """The keys and values of the tokens so far."""
        assert self.own is not None, "nothing was decoded yet"
        return self.own[..., : self.length, :]

    def starts(self) -> Int[Tensor, " B"]:
        """The slot each row begins at."""
        if self.start is not None:
            return self.start
        return torch.zeros(self.tokens().size(2), dtype=torch.long, device=self.tokens().device)


class LayerCache:
    """One layer's part of the cache: its own tokens' keys and values, and the source's."""

    def __init__(self, whole: Cache, index: int) -> None:
        self.whole: Cache = weakref.proxy(
            whole
        )  # in a circle, hundreds of megabytes would wait for the collector
        self.index = index
        self.source: KeysValues | None = None

    def extend(self, k: Float[Tensor, "B H T K"], v: Float[Tensor, "B H T K"]) -> KeysValues:
        begin, n_new = self.whole.length, k.size(2)
        own = self.whole.room(k, k.size(0), k.size(1), n_new)[self.index]
        own.narrow(3, begin, n_new).copy_(torch.stack([k, v]).detach())
        k, v = own.narrow(3, 0, begin + n_new).unbind()
        return k, v

    def recall(self, project: Callable[[], KeysValues]) -> KeysValues:
        if self.source is None:
            k, v = project()
            self.source = k.detach().contiguous(), v.detach().contiguous()
        return self.source


def taken(x: Float[Tensor, "..."], dim: int, rows: Int[Tensor, " R"]) -> Float[Tensor, "..."]:
    """These rows of x, in its own memory where they fit: only those that change places are copied."""
    if len(rows) > x.size(dim):
        return x.index_select(dim, rows)
    places = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
    kept = x.narrow(dim, 0, len(rows))
    return kept.index_copy_(dim, places, x.index_select(dim, rows[places])) if len(places) else kept


def aligned(tokens: Float[Tensor, "L 2 B H N K"], end: int) -> Float[Tensor, "L 2 B H S K"]:
    """The same tokens, moved up so that the last stands before slot `end`."""
    return F.pad(tokens, (0, 0, end - tokens.size(-2), 0))


def joined(
    mine: KeysValues | None, theirs: OtherKeysValues | None
) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]] | None:
    """Two sets of source keys and values, the shorter sources padded at their end."""
    if mine is None or theirs is None:
        return None
    n_slots = max(mine[0].size(2), theirs[0].size(2))
    k, v = (
        torch.cat([F.pad(x, (0, 0, 0, n_slots - x.size(2))) for x in pair])
        for pair in zip(mine, theirs, strict=True)
    )
    return k, v
