"""The Transformer for decoding, flat: the arithmetic of the model without its modules and its tap.

One new token costs so little arithmetic that walking through the modules takes longer. Here their
weights are laid out once as the processor likes them, and a step is a plain list of operations on
rows. A test holds the two equal, step by step, for every shape of model.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.decode.cache import KeysValues, TreeCache
from clearhead.errors import ModelError, shown
from clearhead.model import Transformer
from clearhead.model.block import ACTIVATIONS, Block
from clearhead.model.stack import Stack

MANY_HEADS = 64
"""Heads of all sentences from which on the products of attention are computed together."""
LEAST_PRODUCT = 400
"""Multiplications in one product of many; torch computes smaller ones without a library."""

Map = Callable[[Float[Tensor, "R X"]], Float[Tensor, "R Y"]]
"""Rows to rows: a product with a matrix, or a LayerNorm."""

Add = Callable[[Float[Tensor, "R Y"], Float[Tensor, "R X"]], Float[Tensor, "R Y"]]
"""Such a product, added to the residual stream in its place."""


def nothing(*_: Tensor) -> Tensor:
    """Stands where a decoder has no encoder to ask."""
    raise AssertionError("there is no source")


class FlatLayer(NamedTuple):
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


class FlatTransformer:
    """A model's weights, laid out for decoding; square matrices stay views, so changes show.

    With `int8`, matrices are rounded to 8 bits (quantized), which is faster and less exact.
    """

    def __init__(self, model: Transformer, int8: bool = False) -> None:
        self.model, self.int8, self.config = model, int8, model.config
        self.norm_first = model.config.norm == "pre"
        self.activation = ACTIVATIONS[model.config.activation]
        self.tokens = model.tokens.weight.detach()
        self.source_tokens = getattr(model, "source_tokens", model.tokens).weight.detach()
        self.scale = math.sqrt(model.config.d_model) if model.config.scale_embeddings else 1.0

    @cached_property
    def encoder(self) -> list[FlatLayer]:
        return self.layers(self.model.encoder)

    @cached_property
    def decoder(self) -> list[FlatLayer]:
        return self.layers(self.model.decoder)

    @cached_property
    def norm(self) -> Map:
        return flat_norm(self.model.decoder.norm)

    @cached_property
    def head(self) -> Map:
        bias = self.model.head.bias
        matrix = self.model.head.matrix(self.tokens)
        return product(matrix.detach(), None if bias is None else bias.detach(), self.int8)

    def new_cache(self, lengths: list[int], capacity: int) -> TreeCache:
        n_heads, d_head = self.config.n_heads, self.config.d_model // self.config.n_heads
        shape = (self.config.n_decoder_layers, 2, len(lengths), n_heads, capacity, d_head)
        return TreeCache(lengths, self.tokens.new_empty(shape))

    def read(
        self, source: Int[Tensor, "N S"], mask: Bool[Tensor, "N 1 1 S"] | None, cache: TreeCache
    ) -> None:
        """Encodes the sources; the cache keeps what every layer of the decoder makes of them.

        Padding has no rows: it would cost as much as real tokens, and only attention needs it.
        """
        positions = torch.arange(source.size(1), device=source.device)[None]
        vectors = F.embedding(source, self.source_tokens)
        x = self.embedded(self.model.encoder, vectors, positions, source.size(1))
        real = None if mask is None else mask.flatten().nonzero()[:, 0]
        x = x if real is None else x[real]
        for layer in self.encoder:
            rows = layer.qkv(layer.norm_self(x) if self.norm_first else x)
            q, k, v = self.heads(spread(rows, real, source.numel()), source.shape, 3).unbind()
            z = in_rows(F.scaled_dot_product_attention(q, k, v, mask))
            x = self.after(layer, x, z if real is None else z[real])
        x = flat_norm(self.model.encoder.norm)(x)
        cache.source_mask = mask
        for layer in self.decoder:
            rows = spread(layer.keys_values(x), real, source.numel())
            k, v = self.heads(rows, source.shape, 2).unbind()
            cache.source.append((k.contiguous(), v.contiguous()))

    def __call__(
        self, tokens: Int[Tensor, "N W"], cache: TreeCache, n_last: int | None = None
    ) -> Float[Tensor, "N L V"]:
        """The logits after each token, or after the last few; the cache has room for them."""
        n_rows, n_new = shape = tokens.shape
        begin, end = cache.n_slots - n_new, cache.n_slots
        vectors = F.embedding(tokens, self.tokens)
        x = self.embedded(self.model.decoder, vectors, cache.positions, cache.reach)
        sources: Sequence[KeysValues | None] = cache.source or [None] * len(self.decoder)
        mask, source_mask = added(cache.mask, x.dtype), added(cache.source_mask, x.dtype)
        for layer, own, source in zip(self.decoder, cache.own.unbind(), sources, strict=True):
            heads = self.heads(layer.qkv(layer.norm_self(x) if self.norm_first else x), shape, 3)
            own.narrow(3, begin, n_new).copy_(heads.narrow(0, 1, 2))
            k, v = own.narrow(3, 0, end).unbind()
            z = attended(heads.select(0, 0), k, v, mask)
            x = self.after(layer, x, in_rows(z), shape, source=source, mask=source_mask)
        x = self.norm(x)
        if n_last is not None:
            x = x.view(*shape, -1)[:, -n_last:].flatten(0, 1)
        return self.head(x).view(n_rows, -1, self.tokens.size(0))

    def after(
        self,
        layer: FlatLayer,
        x: Float[Tensor, "R D"],
        z: Float[Tensor, "R D"],
        shape: tuple[int, ...] = (),
        source: KeysValues | None = None,
        mask: Float[Tensor, "N 1 1 S"] | None = None,
    ) -> Float[Tensor, "R D"]:
        """The rest of a block, after its self-attention; the residual stream is written over."""
        x = layer.add_out(x, z)
        x = x if self.norm_first else layer.norm_self(x)
        if source is not None:
            rows = layer.query(layer.norm_cross(x) if self.norm_first else x)
            q = self.heads(rows, shape, 1).select(0, 0)
            x = layer.add_cross_out(x, in_rows(attended(q, *source, mask)))
            x = x if self.norm_first else layer.norm_cross(x)
        hidden = layer.inner(layer.norm_ff(x) if self.norm_first else x)
        in_place = self.activation is F.relu
        x = layer.add_outer(x, hidden.relu_() if in_place else self.activation(hidden))
        return x if self.norm_first else layer.norm_ff(x)

    def embedded(
        self,
        stack: Stack,
        vectors: Float[Tensor, "N T D"],
        positions: Int[Tensor, "#N T"],
        end: int,
    ) -> Float[Tensor, "R D"]:
        x = torch.add(stack.positions(positions, end).detach(), vectors, alpha=self.scale)
        if stack.types is not None:
            x = x + stack.types.weight[0].detach()
        if self.config.embedding_norm:
            x = flat_norm(stack.norm_embedding)(x)
        return x.view(-1, vectors.size(2))

    def heads(
        self, rows: Float[Tensor, "R X"], shape: tuple[int, ...], n_parts: int
    ) -> Float[Tensor, "P N H T K"]:
        """Rows cut into queries, keys or values, and each of these into heads."""
        return rows.view(*shape, n_parts, self.config.n_heads, -1).permute(2, 0, 3, 1, 4)

    def layers(self, stack: Stack) -> list[FlatLayer]:
        return [self.layer(block) for block in stack.layers if isinstance(block, Block)]

    def layer(self, block: Block) -> FlatLayer:
        """The weights of a block, in the order in which a step needs them."""
        own, ff = block.self_attention, block.feed_forward
        layer = FlatLayer(
            norm_self=flat_norm(block.norm_self),
            qkv=product(*weights(own.qkv), self.int8),
            add_out=self.addition(*weights(own.out)),
            norm_ff=flat_norm(block.norm_ff),
            inner=product(*weights(ff.inner), self.int8),
            add_outer=self.addition(*weights(ff.out)),
        )
        if not hasattr(block, "cross_attention"):
            return layer
        cross, d_model = block.cross_attention, self.config.d_model
        return layer._replace(
            norm_cross=flat_norm(block.norm_cross),
            query=product(*weights(cross.qkv, slice(d_model)), self.int8),
            keys_values=product(*weights(cross.qkv, slice(d_model, None)), self.int8),
            add_cross_out=self.addition(*weights(cross.out)),
        )

    def addition(self, matrix: Float[Tensor, "Y X"], bias: Float[Tensor, " Y"] | None) -> Add:
        """x + z Wᵀ + b, in the place of x."""
        if self.int8:
            rounded = int8_product(matrix, bias)
            return lambda x, z: x.add_(rounded(z))
        columns = in_columns(matrix)
        if bias is None:
            return lambda x, z: x.addmm_(z, columns)
        return lambda x, z: x.add_(bias).addmm_(z, columns)


def product(matrix: Float[Tensor, "Y X"], bias: Float[Tensor, " Y"] | None, int8: bool) -> Map:
    """x Wᵀ + b."""
    if int8:
        return int8_product(matrix, bias)
    columns = in_columns(matrix)
    if bias is None:
        return partial(torch.mm, mat2=columns)
    return lambda x: torch.addmm(bias, x, columns)


def added(mask: Bool[Tensor, "..."] | None, dtype: torch.dtype) -> Float[Tensor, "..."] | None:
    """A mask as what is added to the scores, once for all layers."""
    if mask is None:
        return None
    nothing = torch.zeros((), dtype=dtype, device=mask.device)
    return nothing.where(mask, torch.finfo(dtype).min)


def attended(
    q: Float[Tensor, "N H W K"],
    k: Float[Tensor, "N H S K"],
    v: Float[Tensor, "N H S K"],
    mask: Float[Tensor, "..."] | None,
) -> Float[Tensor, "N H W K"]:
    """softmax(q kᵀ ÷ √d_k + mask) v; for many sentences two products are the fastest way."""
    n_rows, n_heads, width, d_head = q.shape
    n_slots = k.size(2)
    if n_rows * n_heads < MANY_HEADS or width * n_slots * d_head < LEAST_PRODUCT:
        return F.scaled_dot_product_attention(q, k, v, mask)
    scores = torch.matmul(q.mul(1 / math.sqrt(d_head)), k.transpose(2, 3))
    pattern = (scores if mask is None else scores.add_(mask)).softmax(dim=-1)
    return torch.matmul(pattern, v)


def in_rows(z: Float[Tensor, "N H T K"]) -> Float[Tensor, "R D"]:
    """What the heads found, side by side again, a row for each token."""
    return z.transpose(1, 2).reshape(z.size(0) * z.size(2), -1)


def spread(
    rows: Float[Tensor, "R X"], places: Int[Tensor, " R"] | None, n_places: int
) -> Float[Tensor, "P X"]:
    """The rows of real tokens at their places, with zeros where padding stands."""
    if places is None:
        return rows
    return rows.new_zeros(n_places, rows.size(1)).index_copy_(0, places, rows)


def in_columns(matrix: Float[Tensor, "Y X"]) -> Float[Tensor, "X Y"]:
    """The matrix transposed, its longer side in one piece: products are up to twice as fast."""
    return matrix.t().contiguous() if matrix.size(0) > matrix.size(1) else matrix.t()


def weights(linear: nn.Linear, rows: slice = slice(None)) -> tuple[Tensor, Tensor | None]:
    bias = None if linear.bias is None else linear.bias.detach()[rows]
    return linear.weight.detach()[rows], bias


def flat_norm(module: nn.Module) -> Map:
    """A LayerNorm; where the model has none, nothing."""
    if not isinstance(module, nn.LayerNorm):
        return lambda x: x
    shape, eps, weight = module.normalized_shape, module.eps, module.weight.detach()
    bias = None if module.bias is None else module.bias.detach()
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


def int8_product(matrix: Float[Tensor, "Y X"], bias: Float[Tensor, " Y"] | None) -> Map:
    """x Wᵀ + b in 8 bits: the matrix is rounded once, row by row; the vectors as they come.

    Seven bits are used of the eight for the vectors: processors without VNNI add pairs of products
    in 16 bits, which full eight bits would overflow without a word. The operations are announced
    for removal; nothing else stands on them.
    """
    scales = (matrix.abs().amax(dim=1).double() / 127).clamp_min(1e-12)
    zeros = torch.zeros_like(scales).long()
    try:
        with warnings.catch_warnings():
            # The type that the packed product takes is to be replaced one day.
            warnings.simplefilter("ignore", UserWarning)
            rounded = torch.quantize_per_channel(matrix, scales, zeros, 0, torch.qint8)
        packed = torch.ops.quantized.linear_prepack(rounded, bias)
        multiply = torch.ops.quantized.linear_dynamic
    except (AttributeError, NotImplementedError, RuntimeError) as error:
        raise ModelError(
            f"torch {torch.__version__} cannot multiply in 8 bits here: {shown(str(error), 80)}",
            "Decode with --engine ctranslate2, which has 8 bits of its own, or without --int8.",
        ) from error
    return lambda x: multiply(x, packed, True)
