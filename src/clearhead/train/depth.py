"""How deep a weight lies: what was learned before stays as it is, or changes less, the lower it is."""

import re

from torch import nn

LAYER = re.compile(r"\.layers\.(\d+)\.")
EMBEDDING = re.compile(r"^(source_)?tokens\.|\.(positions|types|norm_embedding)\.")


def depths(model: nn.Module) -> dict[str, int]:
    """The floor of each weight: 0 for token vectors and positions, then the layers of its stack, the head on top."""
    names = [name for name, _ in model.named_parameters()]
    layers = {name: int(found[1]) + 1 for name in names if (found := LAYER.search(name))}
    top = max(layers.values(), default=0) + 1
    return {name: layers.get(name, 0 if EMBEDDING.search(name) else top) for name in names}


def rate_shares(model: nn.Module, layer_decay: float) -> dict[str, float]:
    """What share of the learning rate each weight has: all of it at the top, and less on each floor below."""
    found = depths(model)
    top = max(found.values())
    return {name: layer_decay ** (top - depth) for name, depth in found.items()}


def freeze(model: nn.Module, n_layers: int) -> None:
    """Let the lowest layers of each stack, and the token vectors below them, stay as they are."""
    for name, depth in depths(model).items():
        model.get_parameter(name).requires_grad_(not n_layers or depth > n_layers)
