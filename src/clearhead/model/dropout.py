"""Dropout that does not cost more than the layer it follows."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """Zeroes a share of the entries in training and scales up the rest: the expectation stays.

    On a CPU torch draws one random float per entry, serially, which takes longer than most layers
    do. There, one random byte decides: the rate is rounded to 256ths (0.1 becomes 26/256) and the
    scale follows the rounded rate.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor, plus: Tensor | None = None) -> Tensor:
        """What is left of x; with `plus`, the sum of both, as a residual connection has it."""
        if not self.training or self.rate == 0:
            return x if plus is None else plus + x
        if x.device.type != "cpu":
            dropped = F.dropout(x, self.rate)
            return dropped if plus is None else plus + dropped
        n_zeroed = min(max(round(256 * self.rate), 1), 255)
        # A byte is kept from `n_zeroed` on; comparing would take several times as long.
        kept = random_bytes(x.numel()).view(x.shape).clamp_(n_zeroed - 1, n_zeroed)
        scale = kept.sub_(n_zeroed - 1).to(x.dtype).mul_(256 / (256 - n_zeroed))
        return x * scale if plus is None else torch.addcmul(plus, x, scale)


def random_bytes(n: int) -> Tensor:
    """Fresh uniform bytes, drawn eight at a time."""
    words = torch.randint(-(2**63), 2**63 - 1, ((n + 7) // 8,), dtype=torch.int64)
    return words.view(torch.uint8)[:n]
