"""Attention by batched products, for training on a CPU: its gradient is written out by hand.

torch's fused attention takes the sequences one by one, in blocks that short ones do not fill. Here
those of a batch go through each product together, and q, k and v are laid out for it at once.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

LONGEST = 128
"""Tokens of the longest sequences that this is for; of longer ones the pattern, which the fused
kernel never holds, takes more time than is gained."""
VECTOR = 16
"""Numbers that a processor takes at once: of shorter rows torch takes the softmax one by one, ten
times as slowly, so that they are made as long."""


def pays_off(x: Tensor, n_tokens: int) -> bool:
    """Whether sequences so long are taken this way: in training, on a CPU, in full precision."""
    return (
        n_tokens <= LONGEST
        and x.device.type == "cpu"
        and x.requires_grad
        and x.dtype in (torch.float32, torch.float64)
        and not torch.compiler.is_compiling()  # which makes its own of what is spelled out
    )


class Parts(torch.autograd.Function):
    """q, k and v out of one product, each laid out by heads: one copy, and one back."""

    @staticmethod
    def forward(
        _ctx: Any, x: Float[Tensor, "B T _"], n_parts: int, n_heads: int
    ) -> tuple[Float[Tensor, "B H T K"], ...]:
        parts = x.view(*x.shape[:2], n_parts, n_heads, -1).permute(2, 0, 3, 1, 4)
        return parts.contiguous().unbind()

    @staticmethod
    @once_differentiable
    def backward(_ctx: Any, *grads: Float[Tensor, "B H T K"]) -> tuple[Tensor | None, ...]:
        return torch.stack([each.transpose(1, 2) for each in grads], dim=2).flatten(2), None, None


class Attended(torch.autograd.Function):
    """softmax(q kᵀ / √d_k) v; of all on the way, the pattern alone is kept."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H S K"],
        v: Float[Tensor, "B H S K"],
        mask: Bool[Tensor, "..."] | None,
    ) -> Float[Tensor, "B H T K"]:
        ctx.scale, ctx.heads, ctx.n_slots = 1 / math.sqrt(q.size(-1)), q.shape[:2], k.size(2)
        allowed = q.new_ones(k.size(2), dtype=torch.bool)
        bias = torch.where(allowed if mask is None else mask & allowed, 0.0, -torch.inf)
        if (n_missing := VECTOR - k.size(2)) > 0:
            bias = F.pad(bias, (0, n_missing), value=-torch.inf)
            k, v = (F.pad(each, (0, 0, 0, n_missing)) for each in (k, v))
        scores = q.new_empty(*q.shape[:3], k.size(2)).copy_(bias).flatten(0, 1)  # (B*H, T, S)
        q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
        pattern = scores.baddbmm_(q, k.mT, alpha=ctx.scale).softmax(dim=-1)
        ctx.save_for_backward(q, k, v, pattern)
        z = pattern @ v
        return z.view(*ctx.heads, *z.shape[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Float[Tensor, "B H T K"]) -> tuple[Tensor | None, ...]:
        q, k, v, pattern = ctx.saved_tensors
        z_grad = grads[0].flatten(0, 1)
        pattern_grad = z_grad @ v.mT
        scores_grad = torch._softmax_backward_data(pattern_grad, pattern, -1, pattern.dtype)
        q_grad = torch.empty_like(q).baddbmm_(scores_grad, k, beta=0, alpha=ctx.scale)
        k_grad = torch.empty_like(k).baddbmm_(scores_grad.mT, q, beta=0, alpha=ctx.scale)
        v_grad = pattern.mT @ z_grad
        parts = (q_grad, k_grad[:, : ctx.n_slots], v_grad[:, : ctx.n_slots])
        return *(each.view(*ctx.heads, *each.shape[1:]) for each in parts), None
