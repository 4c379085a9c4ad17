"""From gradients to new weights: Adam, AdamW, Muon for the hidden matrices; the learning rate."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from clearhead.config import TrainConfig
from clearhead.errors import ConfigError
from clearhead.training.update import full, placed_like

LAYER = re.compile(r"\.layers\.(\d+)\.")
EMBEDDING = re.compile(r"^(source_)?tokens\.|\.(positions|types|norm_embedding)\.")


def optimizers(model: nn.Module, config: TrainConfig) -> list[Optimizer]:
    """The optimizers that share the parameters that learn between them."""
    learning = {name: each for name, each in model.named_parameters() if each.requires_grad}
    # A hidden matrix maps vectors to vectors inside the stacks; tables and heads do not.
    matrices = {
        name: each for name, each in learning.items() if each.ndim == 2 and ".layers." in name
    }
    others = {name: each for name, each in learning.items() if name not in matrices}
    if not others:
        raise ConfigError(
            f"train.freeze = {config.freeze} leaves nothing to learn.", "Freeze fewer layers."
        )
    shares = rate_shares(model, config.layer_decay)
    rate, plain = config.learning_rate, groups(others, config.learning_rate, shares)
    # Adam as the paper has it: its constants, and no weight decay.
    adam = partial(
        Adam if config.optimizer == "adam" else AdamW,
        lr=rate,
        betas=(0.9, 0.98),
        eps=1e-9,
        fused=True,
    )
    decay = 0.0 if config.optimizer == "adam" else config.weight_decay
    if config.optimizer == "muon" and matrices:
        hidden = groups(matrices, config.muon_learning_rate, shares, decay)
        return [Muon(hidden, config.muon_learning_rate, decay), adam(plain)]
    return [adam([*groups(matrices, rate, shares, decay), *plain])]


def groups(
    parameters: Mapping[str, Tensor], rate: float, shares: Mapping[str, float], decay: float = 0.0
) -> list[dict[str, Any]]:
    """The parameters by their share of the learning rate."""
    alike: dict[float, list[Tensor]] = defaultdict(list)
    for name, parameter in parameters.items():
        alike[shares[name]].append(parameter)
    return [
        {"params": each, "lr": rate * share, "weight_decay": decay} for share, each in alike.items()
    ]


def depths(model: nn.Module) -> dict[str, int]:
    """The layer of each weight: 0 for token vectors and positions; the head is on top."""
    names = [name for name, _ in model.named_parameters()]
    layers = {name: int(found[1]) + 1 for name in names if (found := LAYER.search(name))}
    top = max(layers.values(), default=0) + 1
    return {name: layers.get(name, 0 if EMBEDDING.search(name) else top) for name in names}


def rate_shares(model: nn.Module, layer_decay: float) -> dict[str, float]:
    """Layer-wise decay: the whole learning rate at the top, less of it in each layer below."""
    found = depths(model)
    top = max(found.values())
    return {name: layer_decay ** (top - depth) for name, depth in found.items()}


def freeze(model: nn.Module, n_layers: int) -> None:
    """Let the lowest layers of each stack, and the token vectors below them, stay as they are."""
    for name, depth in depths(model).items():
        model.get_parameter(name).requires_grad_(not n_layers or depth > n_layers)


def rate_factor(config: TrainConfig, d_model: int, step: int, progress: float) -> float:
    """What the peak learning rate is multiplied with, at a step (from 1) and progress (0 to 1).

    stable: up, level, and straight down to zero at the end (warm-up, stable, decay);
    cosine: up, then down half a cosine to zero at the end;
    inverse-sqrt: up, then down with the square root of the step, whatever the end;
    paper: the same as the paper has it, d_model^-0.5 · min(step^-0.5, step · warmup^-1.5).
    """
    rising = progress / config.warmup if config.warmup else 1.0
    match config.schedule:
        case "stable":
            return min(1.0, rising, (1 - progress) / config.decay)
        case "cosine" if progress < config.warmup:
            return rising
        case "cosine":
            turn = math.pi * (progress - config.warmup) / (1 - config.warmup)
            return 0.5 * (1 + math.cos(turn))
        case "inverse-sqrt":
            return min(step / config.warmup_steps, math.sqrt(config.warmup_steps / step))
        case "paper":
            return float(d_model**-0.5 * min(step**-0.5, step * config.warmup_steps**-1.5))


class Muon(Optimizer):
    """Momentum made equally long in every direction, by a Newton–Schulz iteration, before it acts.

    torch.optim.Muon iterates in bfloat16, which CPUs without it emulate a hundred times slower than
    float32, and takes matrices one by one. Here all matrices of one shape go through the iteration
    together, in their own precision, and stacked ones (q, k and v) are taken apart.
    """

    def __init__(
        self,
        matrices: Iterable[Tensor] | list[dict[str, Any]],
        lr: float,
        weight_decay: float,
        momentum: float = 0.95,
    ) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        assert closure is None, "one gradient is enough"
        for group in self.param_groups:
            rate, decay = group["lr"], group["lr"] * group["weight_decay"]
            for alike in self.by_shape(group["params"], group["momentum"]).values():
                steps = orthogonalised(torch.cat([step for _, step in alike]))
                parts = torch.split(steps, [len(step) for _, step in alike])
                for (weight, _), step in zip(alike, parts, strict=True):
                    weight.mul_(1 - decay)
                    scale = math.sqrt(max(1.0, step.size(1) / step.size(2)))
                    weight.add_(placed_like(weight, step.flatten(0, 1)), alpha=-rate * scale)

    def by_shape(
        self, matrices: list[Tensor], momentum: float
    ) -> dict[Any, list[tuple[Tensor, Tensor]]]:
        """Each matrix with its step (Nesterov's momentum), as a stack of one or three, by shape."""
        shapes: dict[Any, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for weight in matrices:
            if weight.grad is None:
                continue
            state = self.state[weight]
            if not state:
                state["momentum"] = torch.zeros_like(weight)
            mean = state["momentum"]
            mean.lerp_(weight.grad, 1 - momentum)
            step = weight.grad.lerp(mean, momentum)
            n_stacked = 3 if weight.size(0) == 3 * weight.size(1) else 1
            step = full(step).reshape(n_stacked, -1, weight.size(1))
            shapes[step.shape[1:]].append((weight, step))
        return shapes


def orthogonalised(x: Float[Tensor, "N R C"], n_iterations: int = 5) -> Float[Tensor, "N R C"]:
    """The nearest matrices whose singular values are about 1 (0.7 to 1.2), without an SVD."""
    if x.size(1) > x.size(2):
        return orthogonalised(x.mT, n_iterations).mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(n_iterations):
        gram = x @ x.mT
        x = torch.baddbmm(
            x, torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), x, beta=3.4445
        )
    return x
