"""From gradients to new weights: Adam, AdamW, and Muon for the hidden matrices."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from clearhead.config import TrainConfig
from clearhead.errors import ConfigError
from clearhead.train.depth import rate_shares
from clearhead.train.sharded import like, put_together

PAPER_BETAS = (0.9, 0.98)
PAPER_EPS = 1e-9


def optimizers(model: nn.Module, config: TrainConfig) -> list[Optimizer]:
    """The optimizers that share the parameters that learn between them."""
    learning = {
        name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
    }
    matrices = {
        name: parameter for name, parameter in learning.items() if is_hidden_matrix(name, parameter)
    }
    others = {name: parameter for name, parameter in learning.items() if name not in matrices}
    if not others:
        raise ConfigError(
            f"train.freeze = {config.freeze} leaves nothing to learn.", "Freeze fewer layers."
        )
    rate, decay, shares = (
        config.learning_rate,
        config.weight_decay,
        rate_shares(model, config.layer_decay),
    )
    if config.optimizer == "adam":
        return [
            Adam(groups(matrices | others, rate, shares), rate, PAPER_BETAS, PAPER_EPS, fused=True)
        ]
    if config.optimizer == "adamw":
        both = [*groups(matrices, rate, shares, decay), *groups(others, rate, shares)]
        return [AdamW(both, rate, PAPER_BETAS, PAPER_EPS, fused=True)]
    hidden = groups(matrices, config.muon_learning_rate, shares, decay)
    return [
        *([Muon(hidden, config.muon_learning_rate, decay)] if hidden else []),
        AdamW(groups(others, rate, shares), rate, PAPER_BETAS, PAPER_EPS, fused=True),
    ]


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


def is_hidden_matrix(name: str, parameter: Tensor) -> bool:
    """Whether the parameter maps vectors to vectors inside the stacks; look-up tables and heads do not."""
    return parameter.ndim == 2 and ".layers." in name


class Muon(Optimizer):
    """Momentum whose every direction is made equally long, by a Newton–Schulz iteration, before it is applied.

    torch.optim.Muon iterates in bfloat16, which CPUs without it emulate a hundred times slower than float32, and takes
    matrices one by one. Here all matrices of one shape go through the iteration together, in their own precision, and
    stacked ones (q, k and v) are taken apart.
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
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        assert closure is None, "one gradient is enough"
        for group in self.param_groups:
            rate, decay = group["lr"], group["lr"] * group["weight_decay"]
            for alike in self.by_shape(group["params"], group["momentum"]).values():
                steps = orthogonalised(torch.cat([step for _, step in alike]))
                for (weight, _), step in zip(
                    alike, torch.split(steps, [len(step) for _, step in alike]), strict=True
                ):
                    weight.mul_(1 - decay)
                    scale = math.sqrt(max(1.0, step.size(1) / step.size(2)))
                    weight.add_(like(weight, step.flatten(0, 1)), alpha=-rate * scale)
        return None

    def by_shape(
        self, matrices: list[Tensor], momentum: float
    ) -> dict[Any, list[tuple[Tensor, Tensor]]]:
        """Each matrix with the step it would take (Nesterov's momentum), as a stack of one or three, by shape."""
        shapes: dict[Any, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for weight in matrices:
            if weight.grad is None:
                continue
            state = self.state[weight]
            mean = state.setdefault("momentum", torch.zeros_like(weight))
            mean.lerp_(weight.grad, 1 - momentum)
            step = weight.grad.lerp(mean, momentum)
            n_stacked = 3 if weight.size(0) == 3 * weight.size(1) else 1
            step = put_together(step).reshape(n_stacked, -1, weight.size(1))
            shapes[step.shape[1:]].append((weight, step))
        return shapes


def orthogonalised(x: Float[Tensor, "N R C"], n_iterations: int = 5) -> Float[Tensor, "N R C"]:
    """The nearest matrices whose singular values are all about 1 (0.7 to 1.2), without a decomposition."""
    if x.size(1) > x.size(2):
        return orthogonalised(x.mT, n_iterations).mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(n_iterations):
        gram = x @ x.mT
        x = torch.baddbmm(
            x, torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), x, beta=3.4445
        )
    return x
