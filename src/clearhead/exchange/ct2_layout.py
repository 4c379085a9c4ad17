"""Where CTranslate2 keeps each weight of ours: one table, read in both directions."""

from collections.abc import Iterator
from typing import NamedTuple

from clearhead.config import ModelConfig

ACTIVATIONS = ("relu", "gelu_tanh", "silu", "gelu")
"""The feed-forward network's non-linearities, in the order of CTranslate2's numbers."""


class Place(NamedTuple):
    """A variable of CTranslate2 and the rows of our parameter that it holds."""

    theirs: str
    ours: str
    rows: slice = slice(None)


def places(config: ModelConfig) -> Iterator[Place]:
    """Every weight of a model that writes, once for each variable that holds it."""
    has_own_source = config.reads and config.tie != "all"
    output = "head.tokens.weight" if config.tie == "none" else "tokens.weight"
    if config.reads:
        source = "source_tokens.weight" if has_own_source else "tokens.weight"
        yield Place("encoder/embeddings_0/weight", source)
        yield from stack_places(config, "encoder", config.n_encoder_layers)
    yield Place("decoder/embeddings/weight", "tokens.weight")
    yield Place("decoder/projection/weight", output)
    if config.logit_bias:
        yield Place("decoder/projection/bias", "head.bias")
    yield from stack_places(config, "decoder", config.n_decoder_layers)


def stack_places(config: ModelConfig, side: str, n_layers: int) -> Iterator[Place]:
    yield Place(f"{side}/position_encodings/encodings", f"{side}.positions.table")
    if config.embedding_norm:
        yield from norm_places(f"{side}/layernorm_embedding", f"{side}.norm_embedding")
    if config.norm == "pre":
        yield from norm_places(f"{side}/layer_norm", f"{side}.norm")
    thirds = [slice(config.d_model), slice(config.d_model, None)]
    for layer in range(n_layers):
        theirs, ours = f"{side}/layer_{layer}", f"{side}.layers.{layer}"
        sublayers = [("self_attention", "self_attention", "norm_self", [slice(None)])]
        if side == "decoder" and config.reads:
            sublayers.append(("attention", "cross_attention", "norm_cross", thirds))
        for name, attention, norm, parts in sublayers:
            yield from norm_places(f"{theirs}/{name}/layer_norm", f"{ours}.{norm}")
            for number, rows in enumerate(parts):
                linear = f"{theirs}/{name}/linear_{number}"
                yield from linear_places(config, linear, f"{ours}.{attention}.qkv", rows)
            out = f"{theirs}/{name}/linear_{len(parts)}"
            yield from linear_places(config, out, f"{ours}.{attention}.out")
        yield from norm_places(f"{theirs}/ffn/layer_norm", f"{ours}.norm_ff")
        for number, linear in enumerate(("inner", "out")):
            network = f"{theirs}/ffn/linear_{number}"
            yield from linear_places(config, network, f"{ours}.feed_forward.{linear}")


def linear_places(
    config: ModelConfig, theirs: str, ours: str, rows: slice = slice(None)
) -> Iterator[Place]:
    for name in ("weight", "bias") if config.bias else ("weight",):
        yield Place(f"{theirs}/{name}", f"{ours}.{name}", rows)


def norm_places(theirs: str, ours: str) -> Iterator[Place]:
    """CTranslate2's have a shift always; without biases ours have none, and it is zero."""
    yield Place(f"{theirs}/gamma", f"{ours}.weight")
    yield Place(f"{theirs}/beta", f"{ours}.bias")
