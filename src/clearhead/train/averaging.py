"""Weights averaged over time, which are often better than the last ones."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class MovingAverage:
    """An exponential moving average of a model's weights; young averages forget faster, so that the start fades."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.n_updates = 0
        self.tensors = {
            name: tensor.detach().clone() for name, tensor in model.state_dict().items()
        }

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.n_updates += 1
        past = min(self.decay, (1 + self.n_updates) / (10 + self.n_updates))
        current = model.state_dict()
        torch._foreach_lerp_(
            [*self.tensors.values()], [current[name] for name in self.tensors], 1 - past
        )


def mean_weights(several: Iterable[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights, added in float64 so that their order does not matter."""
    sets = list(several)
    return {
        name: torch.stack([weights[name].double() for weights in sets]).mean(dim=0).float()
        for name in sets[0]
    }
