"""Attention: every position asks all others a question and takes a mixture of their answers."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from clearhead.model.batched import Attended, Parts, pays_off
from clearhead.model.tap import SILENT, Tap


def split_heads(x: Float[Tensor, "B T D"], n_heads: int) -> Float[Tensor, "B H T K"]:
    return x.view(*x.shape[:-1], n_heads, -1).transpose(1, 2)


def part_heads(
    x: Float[Tensor, "B T _"], n_parts: int, n_heads: int
) -> tuple[Float[Tensor, "B H T K"], ...]:
    """The parts of one product (q, k and v) by heads."""
    if pays_off(x, x.size(1)):
        return Parts.apply(x, n_parts, n_heads)  # type: ignore[no-untyped-call, no-any-return]
    return split_heads(x, n_parts * n_heads).chunk(n_parts, dim=1)


def merge_heads(z: Float[Tensor, "B H T K"]) -> Float[Tensor, "B T D"]:
    return z.transpose(1, 2).flatten(-2)


def attend(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    mask: Bool[Tensor, "..."] | None,
    dropout: float = 0.0,
    tap: Tap = SILENT,
) -> Float[Tensor, "B H T K"]:
    """softmax(q kᵀ / √d_k) v: fused when nobody listens, else spelled out, with the same result."""
    if not tap.listening:
        if not dropout and pays_off(q, max(q.size(2), k.size(2))):
            return Attended.apply(q, k, v, mask)  # type: ignore[no-untyped-call, no-any-return]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    scores = tap("scores", q @ k.mT)  # (B, H, T, S)
    scaled = tap("scaled", scores / math.sqrt(q.size(-1)))
    masked = tap("masked", scaled if mask is None else scaled.masked_fill(~mask, -torch.inf))
    pattern = tap("pattern", masked.softmax(dim=-1))
    return F.dropout(pattern, dropout) @ v


class Attention(nn.Module):
    """Multi-head attention; Wq, Wk, Wv are thirds of one matrix: self-attention is one product."""

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.dropout = dropout
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.out = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        source: Float[Tensor, "B S D"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        tap: Tap = SILENT,
    ) -> Float[Tensor, "B T D"]:
        """Self-attention, or cross-attention where there is a source."""
        if source is None:
            q, k, v = part_heads(self.qkv(x), 3, self.n_heads)
        else:
            q, (k, v) = self.queries(x), self.keys_and_values(source)
        q, k, v = tap("q", q), tap("k", k), tap("v", v)
        z = tap("z", attend(q, k, v, mask, self.dropout if self.training else 0.0, tap))
        out: Tensor = self.out(tap("concat", merge_heads(z)))
        return tap("out", out)

    @property
    def of_z(self) -> Float[Tensor, "D D"]:
        """The matrix that z goes through on its way out, W_O."""
        return self.out.weight

    def queries(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T K"]:
        d_model = x.size(-1)
        bias = None if self.qkv.bias is None else self.qkv.bias[:d_model]
        return split_heads(F.linear(x, self.qkv.weight[:d_model], bias), self.n_heads)

    def keys_and_values(
        self, source: Float[Tensor, "B S D"]
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H S K"]]:
        d_model = source.size(-1)
        bias = None if self.qkv.bias is None else self.qkv.bias[d_model:]
        both = F.linear(source, self.qkv.weight[d_model:], bias)
        k, v = part_heads(both, 2, self.n_heads)
        return k, v
