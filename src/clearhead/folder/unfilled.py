"""A model before its weights: all shapes that a config implies, and no memory spent on them."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from clearhead.config import ModelConfig
from clearhead.errors import ModelFileError
from clearhead.model import Transformer, build


class Undrawn(TorchFunctionMode):
    """No random weights are drawn: others will be put in their place."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is nn.init.normal_ or func is nn.init.uniform_:
            return (kwargs or {})["tensor"]
        return (
            args[0] if func in (Tensor.normal_, Tensor.uniform_) else func(*args, **(kwargs or {}))
        )


def unfilled(config: ModelConfig, n_bytes: int, path: Path) -> Transformer:
    """The model of a config, without numbers, if its weights can be in so many bytes at all."""
    if least_bytes(config) > n_bytes:
        raise ModelFileError(
            f"{path}: config.toml asks for weights of at least {least_bytes(config):,} bytes, found {n_bytes:,}.",
            "Take config.toml and the weights from the same run.",
        )
    with torch.device("meta"), Undrawn():
        return build(config)


def least_bytes(config: ModelConfig) -> int:
    """A bound from below that costs nothing: one embedding, and in each layer one attention and one network."""
    encoder = 0 if config.family == "decoder" else config.n_encoder_layers
    decoder = 0 if config.family == "encoder" else config.n_decoder_layers
    layer = 4 * config.d_model**2 + 2 * config.d_model * config.d_ff
    return torch.float32.itemsize * (
        config.vocab_size * config.d_model + (encoder + decoder) * layer
    )
