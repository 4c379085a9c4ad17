"""Products in 8 bits: the matrix is rounded once, row by row; the vectors as they come.

Seven bits are used of the eight for the vectors: processors without VNNI add pairs of products in 16 bits, which full
eight bits would overflow without a word.
"""

import warnings
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor


def int8_product(
    matrix: Float[Tensor, "Y X"], bias: Float[Tensor, " Y"] | None
) -> Callable[[Float[Tensor, "R X"]], Float[Tensor, "R Y"]]:
    """x Wᵀ + b."""
    matrix = matrix.detach()
    scales = (matrix.abs().amax(dim=1).double() / 127).clamp_min(1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # the type that the packed product takes is to be replaced one day
        rounded = torch.quantize_per_channel(
            matrix, scales, torch.zeros_like(scales).long(), 0, torch.qint8
        )
    packed = torch.ops.quantized.linear_prepack(rounded, None if bias is None else bias.detach())
    return lambda x: torch.ops.quantized.linear_dynamic(x, packed, True)
