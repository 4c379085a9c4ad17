"""One layer of the paper's figure: attention and a feed-forward network, each in add & norm."""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from clearhead.config import ModelConfig
from clearhead.model.attention import Attention
from clearhead.model.dropout import Dropout
from clearhead.model.tap import SILENT, Tap

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """The same two-layer network at every position: max(0, x W₁ + b₁) W₂ + b₂."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff, bias=config.bias)
        self.out = nn.Linear(config.d_ff, config.d_model, bias=config.bias)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Float[Tensor, "B T D"], tap: Tap = SILENT) -> Float[Tensor, "B T D"]:
        pre = tap("pre", self.inner(x))  # (B, T, F)
        hidden = tap("hidden", self.activation(pre))
        return tap("out", self.out(hidden))


class Block(nn.Module):
    """Self-attention, cross-attention where there is a memory to ask, feed-forward."""

    def __init__(self, config: ModelConfig, cross: bool) -> None:
        super().__init__()
        self.norm_first = config.norm == "pre"
        self.dropout = Dropout(config.dropout)
        self.self_attention = attention(config)
        self.norm_self = norm(config)
        if cross:
            self.cross_attention = attention(config)
            self.norm_cross = norm(config)
        self.feed_forward = FeedForward(config)
        self.norm_ff = norm(config)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "..."] | None = None,
        memory: Float[Tensor, "B S D"] | None = None,
        memory_mask: Bool[Tensor, "#B 1 1 S"] | None = None,
        tap: Tap = SILENT,
    ) -> Float[Tensor, "B T D"]:
        x = tap("resid_pre", x)
        attend_to_itself = partial(self.self_attention, mask=mask)
        x = self.add_norm(x, attend_to_itself, norm=self.norm_self, tap=tap.into("self"))
        if memory is not None:
            attend_to_memory = partial(self.cross_attention, source=memory, mask=memory_mask)
            x = self.add_norm(x, attend_to_memory, norm=self.norm_cross, tap=tap.into("cross"))
        x = tap("resid_mid", x)
        x = self.add_norm(x, self.feed_forward, norm=self.norm_ff, tap=tap.into("ff"))
        return tap("resid_post", x)

    def add_norm(
        self,
        x: Float[Tensor, "B T D"],
        sublayer: Callable[..., Tensor],
        *,
        norm: nn.Module,
        tap: Tap,
    ) -> Float[Tensor, "B T D"]:
        """LayerNorm(x + Sublayer(x)) as in the paper, or x + Sublayer(LayerNorm(x))."""
        if self.norm_first:
            return tap("add", self.dropout(sublayer(tap("norm", norm(x)), tap=tap), plus=x))
        return tap("norm", norm(tap("add", self.dropout(sublayer(x, tap=tap), plus=x))))


def attention(config: ModelConfig) -> Attention:
    return Attention(config.d_model, config.n_heads, config.attention_dropout, config.bias)


def norm(config: ModelConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.d_model, eps=config.norm_eps, bias=config.bias)
