"""All hypotheses of a sentence in one row of the cache: a tree of tokens, each of which sees its ancestors.

The hypotheses of a beam differ in their last few tokens and share the rest. When they change parents, nothing is
copied: the keys and values stay in their slots, and a mask says who descends from whom.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.model import Cache, masks


class Tree:
    """Who may look at which slots, and at which position of its sequence each new token stands."""

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        """Begins with prompts of these lengths, which end in the same slot."""
        self.n_slots = self.reach = max(lengths)
        self.depth: Int[Tensor, " N"] = torch.tensor(lengths, device=device)
        self.seen: Bool[Tensor, "N W S"] | None = None  # None: one hypothesis each, which sees all
        slots = torch.arange(self.n_slots, device=device)
        self.positions: Int[Tensor, "#N W"] = slots[None]
        self.mask: Bool[Tensor, "..."] | None = None
        if min(lengths) < self.n_slots:
            start = self.n_slots - self.depth
            self.seen = (slots >= start[:, None])[:, None]
            self.positions = (slots - start[:, None]).clamp_min(0)
            self.mask = masks.causal_from(start, self.n_slots, 0)
        elif self.n_slots > 1:
            self.mask = masks.causal(self.n_slots, device=device)

    def grow(self, parents: Int[Tensor, "N W"] | None) -> None:
        """Every sentence gets new tokens, children of these hypotheses; None: one token after the one before."""
        width = 1 if parents is None else parents.size(1)
        if width > 1 or self.seen is not None:
            seen = self.all_seen()
            if parents is not None:
                seen = seen.gather(1, parents[..., None].expand(-1, -1, self.n_slots))
            itself = torch.eye(width, dtype=torch.bool, device=seen.device).expand(
                len(seen), -1, -1
            )
            self.seen = torch.cat([seen, itself], dim=2)
        self.mask = None if self.seen is None else self.seen[:, None]
        self.positions = self.depth[:, None].expand(-1, width)
        self.depth = self.depth + 1
        self.n_slots += width
        self.reach += 1

    def keep(self, sentences: Int[Tensor, " R"]) -> None:
        """The other sentences leave."""
        self.depth = self.depth[sentences]
        self.reach = int(self.depth.max())
        if self.seen is not None:
            self.seen = self.seen[sentences]

    def forget(self) -> int:
        """Gives up the first slots, which belonged to sentences that have left; answers with how many they were."""
        if self.seen is None:
            return 0
        n_slots = int(self.seen.any(dim=1).any(dim=0).int().argmax())
        self.seen = self.seen[..., n_slots:]
        self.n_slots -= n_slots
        return n_slots

    def join(self, other: "Tree") -> None:
        """Other sentences come in below, their slots moved to end where these end."""
        trees = (self, other)
        n_slots, width = (
            max(tree.n_slots for tree in trees),
            max(tree.all_seen().size(1) for tree in trees),
        )
        self.seen = torch.cat([tree.padded(n_slots, width) for tree in trees])
        self.depth = torch.cat([self.depth, other.depth])
        self.n_slots, self.reach = n_slots, max(self.reach, other.reach)

    def all_seen(self) -> Bool[Tensor, "N W S"]:
        if self.seen is not None:
            return self.seen
        return torch.ones(
            len(self.depth), 1, self.n_slots, dtype=torch.bool, device=self.depth.device
        )

    def padded(self, n_slots: int, width: int) -> Bool[Tensor, "N W S"]:
        seen = self.all_seen()
        return F.pad(seen, (n_slots - self.n_slots, 0, 0, width - seen.size(1)))


class TreeCache(Cache):
    """Keys and values whose slots are the nodes of a tree."""

    def __init__(self, tree: Tree, n_layers: int, capacity: int) -> None:
        super().__init__(n_layers, capacity)
        self.tree = tree

    def positions(self, n_new: int, device: torch.device) -> Int[Tensor, "#N W"]:  # noqa: ARG002
        return self.tree.positions

    def mask(self, n_new: int, device: torch.device) -> Bool[Tensor, "..."] | None:  # noqa: ARG002
        return self.tree.mask

    def reach(self, n_new: int) -> int:  # noqa: ARG002
        return self.tree.reach
