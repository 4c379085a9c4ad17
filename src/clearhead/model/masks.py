"""Who may look at whom: True is allowed, and no row is ever empty.

A softmax over an empty row is not a number, and fused kernels disagree about what to put there
instead.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding(real: Bool[Tensor, "B S"]) -> Bool[Tensor, "B 1 1 S"]:
    """Everyone may look at the real tokens; where a row has none, at its first position."""
    first = torch.arange(real.size(1), device=real.device) == 0
    return (real | (first & ~real.any(dim=1, keepdim=True)))[:, None, None]


def causal(n: int, device: torch.device | None = None) -> Bool[Tensor, "T T"]:
    """Row t may look at everything up to and including itself."""
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()


def causal_from(start: Int[Tensor, " B"], n: int) -> Bool[Tensor, "B 1 T T"]:
    """Causal, for texts padded on the left: what lies before a text's start is not part of it."""
    slots = torch.arange(n, device=start.device)
    here = slots[:, None] == slots
    return ((slots >= start[:, None, None]) & causal(n, start.device) | here)[:, None]
