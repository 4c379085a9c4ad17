"""The decoder's step, flat: the arithmetic of `Stack` and `Block` without a module, a tap or a name on the way.

One new token costs so little arithmetic that walking through the modules takes longer. Here their weights are laid out
once, and a step is a plain list of operations; a test holds the two equal for every shape of model.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.model.attention import merge_heads, split_heads
from clearhead.model.block import ACTIVATIONS, Block
from clearhead.model.cache import Cache, LayerCache
from clearhead.model.tap import SILENT
from clearhead.model.transformer import Transformer

Weights = tuple[Tensor, Tensor | None]
"""A matrix, or the scale of a LayerNorm, and its bias."""


class Layer(NamedTuple):
    """The weights of a block."""

    norm_self: Weights
    qkv: Weights
    out: Weights
    norm_ff: Weights
    inner: Weights
    outer: Weights
    cross: tuple[Weights, Weights, Weights] | None  # norm, query and out


class Step:
    """New tokens in, logits out, for a model in eval mode that nobody listens to."""

    def __init__(self, model: Transformer) -> None:
        self.decoder, self.n_heads, self.norm_first = model.decoder, model.config.n_heads, model.config.norm == "pre"
        self.tokens = model.tokens.weight
        self.scale = math.sqrt(model.config.d_model) if model.config.scale_embeddings else 1.0
        self.final = parts(model.decoder.norm) if isinstance(model.decoder.norm, nn.LayerNorm) else None
        self.head = model.head.matrix(self.tokens), model.head.bias
        self.layers = [layer(block) for block in model.decoder.layers if isinstance(block, Block)]
        self.activation = ACTIVATIONS[model.config.activation]
        self.shape, self.eps = (model.config.d_model,), model.config.norm_eps

    def __call__(
        self, tokens: Int[Tensor, "N W"], mask: Bool[Tensor, "N 1 1 S"] | None, cache: Cache
    ) -> Float[Tensor, "N W V"]:
        """The logits after each token; `mask` is the source's, whose keys and values are already in the cache."""
        own_mask = cache.mask(tokens.size(1), tokens.device)
        x = self.decoder.embed(F.embedding(tokens, self.tokens) * self.scale, None, cache, SILENT)
        for weights, kept in zip(self.layers, cache.layers, strict=True):
            x = self.block(x, weights, kept, own_mask, mask)
        cache.advance(tokens.size(1))
        return F.linear(x if self.final is None else self.norm(x, self.final), *self.head)

    def block(
        self,
        x: Float[Tensor, "N W D"],
        weights: Layer,
        cache: LayerCache,
        own_mask: Bool[Tensor, "..."] | None,
        mask: Bool[Tensor, "N 1 1 S"] | None,
    ) -> Float[Tensor, "N W D"]:
        norm_self, qkv, out, norm_ff, inner, outer, cross = weights
        h = self.norm(x, norm_self) if self.norm_first else x
        q, k, v = split_heads(F.linear(h, *qkv), 3 * self.n_heads).chunk(3, dim=1)
        k, v = cache.extend(k, v)
        x = x + F.linear(merge_heads(F.scaled_dot_product_attention(q, k, v, own_mask)), *out)
        x = x if self.norm_first else self.norm(x, norm_self)
        if cross is not None and cache.source is not None:
            norm_cross, query, cross_out = cross
            h = self.norm(x, norm_cross) if self.norm_first else x
            q = split_heads(F.linear(h, *query), self.n_heads)
            x = x + F.linear(merge_heads(F.scaled_dot_product_attention(q, *cache.source, mask)), *cross_out)
            x = x if self.norm_first else self.norm(x, norm_cross)
        h = self.norm(x, norm_ff) if self.norm_first else x
        x = x + F.linear(self.activation(F.linear(h, *inner)), *outer)
        return x if self.norm_first else self.norm(x, norm_ff)

    def norm(self, x: Float[Tensor, "N W D"], weights: Weights) -> Float[Tensor, "N W D"]:
        return torch.layer_norm(x, self.shape, *weights, self.eps)


def layer(block: Block) -> Layer:
    """The weights of a block, in the order in which a step needs them."""
    own, ff, cross = block.self_attention, block.feed_forward, None
    if hasattr(block, "cross_attention"):
        matrix, bias = parts(block.cross_attention.qkv)
        query = matrix[: matrix.size(1)], None if bias is None else bias[: matrix.size(1)]
        cross = parts(block.norm_cross), query, parts(block.cross_attention.out)
    return Layer(
        parts(block.norm_self),
        parts(own.qkv),
        parts(own.out),
        parts(block.norm_ff),
        parts(ff.inner),
        parts(ff.out),
        cross,
    )


def parts(module: nn.Linear | nn.LayerNorm) -> Weights:
    return module.weight, module.bias
