"""The KV cache: keys and values already computed, so that a new token costs one row, not a matrix.

All hypotheses of a sentence stand in one row of it: a tree of tokens, each of which sees its
ancestors. The hypotheses of a beam differ in their last few tokens and share the rest. When they
change parents, nothing is copied: keys and values stay in their slots, and a mask says who descends
from whom. The source's keys are projected once per sentence and never copied per beam.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.model import masks

KeysValues = tuple[Float[Tensor, "N H S K"], Float[Tensor, "N H S K"]]


class TreeCache:
    """Keys and values of every decoder layer, in one tensor that doubles when it is full.

    All sentences write to the same slots at the same time. One that came in later, or has a shorter
    prompt, does not see the slots before its own.
    """

    def __init__(self, lengths: Sequence[int], own: Float[Tensor, "L 2 N H C K"]) -> None:
        """Begins with prompts of these lengths, which end in the same slot; `own` is the memory."""
        self.own = own
        self.source: list[KeysValues] = []  # of each layer; none where there is no encoder
        self.source_mask: Bool[Tensor, "N 1 1 S"] | None = None
        self.n_slots = self.reach = max(lengths)
        self.depth: Int[Tensor, " N"] = torch.tensor(lengths, device=own.device)
        self.seen: Bool[Tensor, "N W S"] | None = None  # None: one hypothesis each, which sees all
        slots = torch.arange(self.n_slots, device=own.device)
        self.positions: Int[Tensor, "#N W"] = slots[None]
        self.mask: Bool[Tensor, "..."] | None = None
        if min(lengths) < self.n_slots:
            start = self.n_slots - self.depth
            self.seen = (slots >= start[:, None])[:, None]
            self.positions = (slots - start[:, None]).clamp_min(0)
            self.mask = masks.causal_from(start, self.n_slots)
        elif self.n_slots > 1:
            self.mask = masks.causal(self.n_slots, own.device)

    def grow(self, parents: Int[Tensor, "N W"]) -> None:
        """Makes room for new tokens, children of these hypotheses of the step before."""
        width = parents.size(1)
        if width > 1 or self.seen is not None:
            seen = self.all_seen().gather(1, parents[..., None].expand(-1, -1, self.n_slots))
            itself = torch.eye(width, dtype=torch.bool, device=seen.device)
            self.seen = torch.cat([seen, itself.expand(len(seen), -1, -1)], dim=2)
        self.mask = None if self.seen is None else self.seen[:, None]
        self.positions = self.depth[:, None].expand(-1, width)
        self.depth = self.depth + 1
        self.n_slots += width
        self.reach += 1
        if self.n_slots > self.own.size(4):
            self.own = F.pad(self.own, (0, 0, 0, max(width, self.own.size(4))))

    def keep(self, sentences: Int[Tensor, " R"]) -> None:
        self.depth = self.depth[sentences]
        self.reach = int(self.depth.max())
        self.seen = None if self.seen is None else self.seen[sentences]
        here = torch.arange(len(sentences), device=sentences.device)
        moved = sentences, (sentences != here).nonzero()[:, 0]
        self.own = taken(self.own, 2, *moved)
        self.source = [(taken(k, 0, *moved), taken(v, 0, *moved)) for k, v in self.source]
        self.source_mask = None if self.source_mask is None else self.source_mask[sentences]

    def join(self, other: "TreeCache") -> None:
        """Other sentences come in below, their tokens moved to end in the slot where these end."""
        self.forget()
        caches = (self, other)
        n_slots = max(cache.n_slots for cache in caches)
        width = max(cache.all_seen().size(1) for cache in caches)
        # Slots are padded at their beginning, sources at their end.
        own = [
            F.pad(cache.own[..., : cache.n_slots, :], (0, 0, n_slots - cache.n_slots, 0))
            for cache in caches
        ]
        self.seen = torch.cat([cache.all_seen(n_slots, width) for cache in caches])
        self.own = torch.cat(own, dim=2)
        if self.source:
            n_source = max(cache.source[0][0].size(2) for cache in caches)
            self.source_mask = torch.cat(
                [wider_mask(cache.source_mask, cache.source[0][0], n_source) for cache in caches]
            )
            self.source = [
                (joined(mine[0], theirs[0], n_source), joined(mine[1], theirs[1], n_source))
                for mine, theirs in zip(self.source, other.source, strict=True)
            ]
        self.depth = torch.cat([self.depth, other.depth])
        self.n_slots, self.reach = n_slots, max(self.reach, other.reach)

    def forget(self) -> int:
        """Gives up the first slots, which nobody here sees any more; answers with their number."""
        if self.seen is None:
            return 0
        n_unseen = int(self.seen.any(dim=1).any(dim=0).int().argmax())
        self.seen, self.own = self.seen[..., n_unseen:], self.own[..., n_unseen:, :]
        self.n_slots -= n_unseen
        return n_unseen

    def all_seen(self, n_slots: int = 0, width: int = 0) -> Bool[Tensor, "N W S"]:
        """Who sees which slots, for at least so many slots and hypotheses."""
        seen = self.seen
        if seen is None:
            seen = self.depth.new_ones(len(self.depth), 1, self.n_slots, dtype=torch.bool)
        before, below = max(0, n_slots - self.n_slots), max(0, width - seen.size(1))
        return F.pad(seen, (before, 0, 0, below)) if before or below else seen


def wider_mask(
    mask: Bool[Tensor, "N 1 1 S"] | None, k: Float[Tensor, "N H S K"], n_source: int
) -> Bool[Tensor, "N 1 1 T"]:
    """What may be looked at when the sources, which have these keys, are padded to a width."""
    if mask is None:
        mask = masks.padding(k.new_ones(k.size(0), k.size(2), dtype=torch.bool))
    return F.pad(mask, (0, n_source - k.size(2)))


def taken(
    x: Float[Tensor, "..."], dim: int, rows: Int[Tensor, " R"], places: Int[Tensor, " M"]
) -> Float[Tensor, "..."]:
    """These rows of x, in its own memory: only those that come to other places are copied."""
    kept = x.narrow(dim, 0, len(rows))
    return kept.index_copy_(dim, places, x.index_select(dim, rows[places])) if len(places) else kept


def joined(
    upper: Float[Tensor, "N H R K"], lower: Float[Tensor, "M H S K"], n_source: int
) -> Float[Tensor, "B H T K"]:
    """The keys or values of two sets of sources, the shorter ones padded at their end."""
    return torch.cat([F.pad(x, (0, 0, 0, n_source - x.size(2))) for x in (upper, lower)])
