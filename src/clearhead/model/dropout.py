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

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.rate)
        n_zeroed = min(max(round(256 * self.rate), 1), 255)
        # A byte is kept from `n_zeroed` on; comparing would take several times as long.
        kept = random_bytes(x.numel()).view(x.shape).to(x.dtype).sub_(n_zeroed - 1).clamp_(0, 1)
        return x * kept.mul_(256 / (256 - n_zeroed))


def random_bytes(n: int) -> Tensor:
    """Fresh uniform bytes, drawn eight at a time."""
    words = torch.randint(-(2**63), 2**63 - 1, ((n + 7) // 8,), dtype=torch.int64)
    return words.view(torch.uint8)[:n]
