"""The weights of a run: sealed as they are written, and read into a model without memory."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from clearhead.config import ModelConfig
from clearhead.disk import atomic_file, require_space, size_inside
from clearhead.errors import ModelFileError
from clearhead.model import Transformer, build
from clearhead.tensors import check_same, read_tensors, specs, write_tensors


def read_model(
    folder: Path, name: str, config: ModelConfig, sha256: str | None = None
) -> Transformer:
    """The model of a config with the weights in a file of the folder."""
    model = empty_model(config, size_inside(folder, name), folder / name)
    tensors = read_tensors(folder, name, sha256=sha256, expected=model.state_dict())
    model.load_state_dict(tensors, assign=True)
    return model


def write_model(path: Path, config: ModelConfig, tensors: Mapping[str, Tensor]) -> None:
    """Replace the weights in a file; a process that has loaded the old ones keeps them."""
    needed = sum(tensor.nbytes for tensor in tensors.values())
    check_same(specs(tensors), specs(empty_model(config, needed, path).state_dict()))
    require_space(path, needed)
    with atomic_file(path, needed) as file:
        write_tensors(file, tensors, seal=True)


def empty_model(config: ModelConfig, n_bytes: int, path: Path) -> Transformer:
    """The model of a config, all shapes and no memory, if its weights can be in so many bytes."""
    if least_bytes(config) > n_bytes:
        raise ModelFileError(
            f"{path}: config.toml asks for weights of at least {least_bytes(config):,} bytes, "
            f"found {n_bytes:,}.",
            "Take config.toml and the weights from the same run.",
        )
    with torch.device("meta"), Undrawn():
        return build(config)


class Undrawn(TorchFunctionMode):
    """Draws no random weights, for others take their place.

    Without memory (on the meta device) a draw would cost little, but the first one makes torch
    import its compiler, which takes seconds.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func.__name__ in ("normal_", "uniform_"):
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)


def least_bytes(config: ModelConfig) -> int:
    """A lower bound that costs nothing: one embedding, and each layer's attention and network."""
    encoder = 0 if config.family == "decoder" else config.n_encoder_layers
    decoder = 0 if config.family == "encoder" else config.n_decoder_layers
    layer = 4 * config.d_model**2 + 2 * config.d_model * config.d_ff
    n_numbers = config.vocab_size * config.d_model + (encoder + decoder) * layer
    return n_numbers * torch.float32.itemsize
