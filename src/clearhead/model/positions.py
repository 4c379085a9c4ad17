"""Where a token stands, as a vector added to its own: attention sees a set, not a sequence."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.errors import ModelError


def sinusoids(
    positions: Int[Tensor, "..."], d_model: int, halves: bool = False
) -> Float[Tensor, "... D"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same.

    In halves, all sines come first and then all cosines, as in Marian.
    """
    i = torch.arange(d_model // 2, dtype=torch.float64, device="cpu")
    angle = positions.to("cpu", torch.float64)[..., None] * 10_000 ** (-2 * i / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-2 if halves else -1).flatten(-2).float()


class SinusoidalPositions(nn.Module):
    """The paper's sines and cosines, which reach any length; the first ones are kept in a table."""

    table: Float[Tensor, "N D"]

    def __init__(self, d_model: int, n_kept: int = 1024, halves: bool = False) -> None:
        super().__init__()
        self.halves = halves
        first = sinusoids(torch.arange(n_kept, device="cpu"), d_model, halves)
        self.register_buffer("table", first, persistent=False)

    def forward(self, positions: Int[Tensor, "#B T"], end: int) -> Float[Tensor, "#B T D"]:
        """The vectors of these positions, all of which lie before `end`."""
        if end <= len(self.table):
            return self.table[positions]
        return sinusoids(positions, self.table.size(1), self.halves).to(self.table)


class LearnedPositions(nn.Module):
    """One learned vector per position, up to a longest."""

    def __init__(self, d_model: int, n_positions: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(n_positions, d_model))

    def forward(self, positions: Int[Tensor, "#B T"], end: int) -> Float[Tensor, "#B T D"]:
        """The vectors of these positions, all of which lie before `end`."""
        if end > len(self.table):
            raise ModelError(
                f"A sequence of {end} tokens is longer than model.max_positions = "
                f"{len(self.table)}, as far as its learned positions go.",
                'Shorten it, or train with model.positions = "sinusoidal".',
            )
        return self.table[positions]
