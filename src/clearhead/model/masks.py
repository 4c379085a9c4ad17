"""Who may look at whom: True is allowed, and no row is ever empty.

A softmax over an empty row is not a number, and fused kernels disagree about what to put there instead.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding(real: Bool[Tensor, "B S"]) -> Bool[Tensor, "B 1 1 S"]:
    """Everyone may look at the real tokens; where a row has none, at its first position."""
    first = torch.arange(real.size(1), device=real.device) == 0
    return (real | (first & ~real.any(dim=1, keepdim=True)))[:, None, None]


def causal(n_new: int, n_past: int = 0, device: torch.device | None = None) -> Bool[Tensor, "T S"]:
    """Row t may look at everything up to and including itself."""
    return torch.ones(n_new, n_past + n_new, dtype=torch.bool, device=device).tril(n_past)


def causal_from(start: Int[Tensor, " B"], n_new: int, n_past: int) -> Bool[Tensor, "B 1 T S"]:
    """Causal, for rows that begin at different slots: what lies before a row's start is not part of it."""
    slots = torch.arange(n_past + n_new, device=start.device)
    here = slots[n_past:, None] == slots
    return ((slots >= start[:, None, None]) & causal(n_new, n_past, start.device) | here)[:, None]
