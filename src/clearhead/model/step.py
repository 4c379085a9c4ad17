"""The model for decoding, flat: the arithmetic of `Stack` and `Block` without a module, a tap or a name on the way.

One new token costs so little arithmetic that walking through the modules takes longer. Here their weights are laid out
once as the processor likes them, and a step is a plain list of operations on rows; a test holds the two equal for every
shape of model.
"""

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.model.block import ACTIVATIONS, Block
from clearhead.model.cache import Cache
from clearhead.model.int8 import int8_product
from clearhead.model.stack import Stack
from clearhead.model.transformer import Transformer

Map = Callable[[Float[Tensor, "R X"]], Float[Tensor, "R Y"]]
"""Rows to rows: a product with a matrix, or a LayerNorm."""


Add = Callable[[Float[Tensor, "R Y"], Float[Tensor, "R X"]], Float[Tensor, "R Y"]]
"""Such a product, added to the residual stream in its place."""


def nothing(*_: Tensor) -> Tensor:
    """Stands where a decoder has no encoder to ask."""
    raise AssertionError("there is no source")


class Layer(NamedTuple):
    """What a block does, in order."""

    norm_self: Map
    qkv: Map
    add_out: Add
    norm_ff: Map
    inner: Map
    add_outer: Add
    norm_cross: Map = nothing
    query: Map = nothing
    keys_values: Map = nothing
    add_cross_out: Add = nothing


class Step:
    """Sources in, memory out; new tokens in, logits out; for a model in eval mode that nobody listens to."""

    def __init__(self, model: Transformer, int8: bool = False) -> None:
        self.model, self.int8, self.n_heads = model, int8, model.config.n_heads
        self.norm_first, self.activation = (
            model.config.norm == "pre",
            ACTIVATIONS[model.config.activation],
        )
        self.tokens = model.tokens.weight.detach()
        self.source_tokens = (
            model.source_tokens.weight.detach() if hasattr(model, "source_tokens") else self.tokens
        )
        self.scale = math.sqrt(model.config.d_model) if model.config.scale_embeddings else 1.0

    @cached_property
    def encoder(self) -> list[Layer]:
        return self.layers(self.model.encoder)

    @cached_property
    def decoder(self) -> list[Layer]:
        return self.layers(self.model.decoder)

    @cached_property
    def norm(self) -> Map:
        assert isinstance(self.model.decoder.norm, nn.LayerNorm), (
            "the last norm of a pre-norm stack"
        )
        return norm(self.model.decoder.norm)

    @cached_property
    def head(self) -> Map:
        bias = self.model.head.bias
        return self.product(
            self.model.head.matrix(self.tokens).detach(), None if bias is None else bias.detach()
        )

    @torch.no_grad()
    def read(
        self, source: Int[Tensor, "N S"], mask: Bool[Tensor, "N 1 1 S"] | None, cache: Cache
    ) -> None:
        """Encodes the sources; the cache keeps the keys and values that every layer of the decoder makes of them.

        Padding has no rows: it would cost as much as real tokens, and only attention needs it to be there.
        """
        positions = torch.arange(source.size(1), device=source.device)[None]
        x = self.embedded(self.model.encoder, self.source_tokens, source, positions, source.size(1))
        real = None if mask is None else mask.flatten().nonzero()[:, 0]
        x = x if real is None else x[real]
        for layer in self.encoder:
            rows = layer.qkv(layer.norm_self(x) if self.norm_first else x)
            q, k, v = self.heads(spread(rows, real, source.numel()), source.shape, 3).unbind()
            z = in_rows(F.scaled_dot_product_attention(q, k, v, mask))
            x = self.after(layer, x, z if real is None else z[real])
        x = self.model.encoder.norm(x)
        for layer, kept in zip(self.decoder, cache.layers, strict=True):
            k, v = self.heads(
                spread(layer.keys_values(x), real, source.numel()), source.shape, 2
            ).unbind()
            kept.source = k.contiguous(), v.contiguous()

    @torch.no_grad()
    def __call__(
        self,
        tokens: Int[Tensor, "N W"],
        mask: Bool[Tensor, "N 1 1 S"] | None,
        cache: Cache,
        n_last: int | None = None,
    ) -> Float[Tensor, "N L V"]:
        """The logits after each token, or the last few; `mask` is the source's, which the cache has read."""
        n_rows, n_new = shape = tokens.shape
        begin, end = cache.length, cache.length + n_new
        own_mask = cache.mask(n_new, tokens.device)
        x = self.embedded(
            self.model.decoder,
            self.tokens,
            tokens,
            cache.positions(n_new, tokens.device),
            cache.reach(n_new),
        )
        slots = cache.room(x, n_rows, self.n_heads, n_new)
        for layer, kept, own in zip(self.decoder, cache.layers, slots.unbind(), strict=True):
            heads = self.heads(layer.qkv(layer.norm_self(x) if self.norm_first else x), shape, 3)
            own.narrow(3, begin, n_new).copy_(heads.narrow(0, 1, 2))
            k, v = own.narrow(3, 0, end).unbind()
            z = F.scaled_dot_product_attention(heads.select(0, 0), k, v, own_mask)
            x = self.after(layer, x, in_rows(z), shape, kept.source, mask)
        cache.advance(n_new)
        x = self.norm(x) if self.norm_first else x
        if n_last is not None:
            x = x.view(*shape, -1)[:, -n_last:].flatten(0, 1)
        return self.head(x).view(n_rows, -1, self.tokens.size(0))

    def after(
        self,
        layer: Layer,
        x: Float[Tensor, "R D"],
        z: Float[Tensor, "R D"],
        shape: tuple[int, ...] = (),
        source: tuple[Tensor, Tensor] | None = None,
        mask: Bool[Tensor, "N 1 1 S"] | None = None,
    ) -> Float[Tensor, "R D"]:
        """The rest of a block, after its self-attention; the residual stream is written over."""
        x = layer.add_out(x, z)
        x = x if self.norm_first else layer.norm_self(x)
        if source is not None:
            q = self.heads(
                layer.query(layer.norm_cross(x) if self.norm_first else x), shape, 1
            ).select(0, 0)
            x = layer.add_cross_out(x, in_rows(F.scaled_dot_product_attention(q, *source, mask)))
            x = x if self.norm_first else layer.norm_cross(x)
        hidden = layer.inner(layer.norm_ff(x) if self.norm_first else x)
        x = layer.add_outer(
            x, hidden.relu_() if self.activation is F.relu else self.activation(hidden)
        )
        return x if self.norm_first else layer.norm_ff(x)

    def embedded(
        self,
        stack: Stack,
        vectors: Float[Tensor, "V D"],
        ids: Int[Tensor, "N T"],
        positions: Int[Tensor, "#N T"],
        end: int,
    ) -> Float[Tensor, "R D"]:
        x = torch.add(stack.positions(positions, end), F.embedding(ids, vectors), alpha=self.scale)
        if stack.types is not None:
            x = x + stack.types.weight[0]
        normed: Tensor = stack.norm_embedding(x)
        return normed.view(ids.numel(), -1)

    def heads(
        self, rows: Float[Tensor, "R X"], shape: tuple[int, ...], n_parts: int
    ) -> Float[Tensor, "P N H T K"]:
        """Rows cut into queries, keys or values, and each of these into heads."""
        return rows.view(*shape, n_parts, self.n_heads, -1).permute(2, 0, 3, 1, 4)

    def layers(self, stack: Stack) -> list[Layer]:
        return [self.layer(block) for block in stack.layers if isinstance(block, Block)]

    def layer(self, block: Block) -> Layer:
        """The weights of a block, in the order in which a step needs them."""
        own, ff, d_model = block.self_attention, block.feed_forward, self.tokens.size(1)
        layer = Layer(
            norm(block.norm_self),
            self.product(*parts(own.qkv)),
            self.addition(*parts(own.out)),
            norm(block.norm_ff),
            self.product(*parts(ff.inner)),
            self.addition(*parts(ff.out)),
        )
        if not hasattr(block, "cross_attention"):
            return layer
        matrix, bias = parts(block.cross_attention.qkv)
        return layer._replace(
            norm_cross=norm(block.norm_cross),
            query=self.product(matrix[:d_model], None if bias is None else bias[:d_model]),
            keys_values=self.product(matrix[d_model:], None if bias is None else bias[d_model:]),
            add_cross_out=self.addition(*parts(block.cross_attention.out)),
        )

    def product(self, matrix: Float[Tensor, "Y X"], bias: Float[Tensor, " Y"] | None) -> Map:
        """x Wᵀ + b."""
        if self.int8:
            return int8_product(matrix, bias)
        columns = laid_out(matrix)
        return (
            partial(torch.mm, mat2=columns)
            if bias is None
            else lambda x: torch.addmm(bias, x, columns)
        )

    def addition(self, matrix: Float[Tensor, "Y X"], bias: Float[Tensor, " Y"] | None) -> Add:
        """x + z Wᵀ + b, in the place of x."""
        if self.int8:
            product = int8_product(matrix, bias)
            return lambda x, z: x.add_(product(z))
        columns = laid_out(matrix)
        if bias is None:
            return lambda x, z: x.addmm_(z, columns)
        return lambda x, z: x.add_(bias).addmm_(z, columns)


def in_rows(z: Float[Tensor, "N H T K"]) -> Float[Tensor, "R D"]:
    """What the heads found, side by side again, a row for each token."""
    return z.transpose(1, 2).reshape(z.size(0) * z.size(2), -1)


def spread(
    rows: Float[Tensor, "R X"], places: Int[Tensor, " R"] | None, n_places: int
) -> Float[Tensor, "P X"]:
    """The rows of real tokens at their places, with zeros where padding stands."""
    return (
        rows
        if places is None
        else rows.new_zeros(n_places, rows.size(1)).index_copy_(0, places, rows)
    )


def laid_out(matrix: Float[Tensor, "Y X"]) -> Float[Tensor, "X Y"]:
    """The matrix transposed, with its longer side in one piece: a row is multiplied with it up to twice as fast."""
    return matrix.t().contiguous() if matrix.size(0) > matrix.size(1) else matrix.t()


def parts(linear: nn.Linear) -> tuple[Tensor, Tensor | None]:
    return linear.weight.detach(), None if linear.bias is None else linear.bias.detach()


def norm(module: nn.LayerNorm) -> Map:
    shape, weight, bias, eps = (
        module.normalized_shape,
        module.weight.detach(),
        module.bias,
        module.eps,
    )
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
