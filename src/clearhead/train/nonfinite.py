"""Where a number that is not finite came from: the question everyone asks when a loss is NaN."""

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from clearhead.data.batches import Batch
from clearhead.errors import NotFiniteError
from clearhead.model import Transformer
from clearhead.model.tap import Tap
from clearhead.train.loss import Loss


def not_finite(
    model: Transformer, loss: Loss, batches: Sequence[Batch], step: int
) -> NotFiniteError:
    """The error to raise: the update, its examples, and the first place that is not finite."""
    place = first_place(model, loss, batches)
    examples = [int(index) for batch in batches for index in batch.indices]
    return NotFiniteError(
        f"Update {step} is not finite: {place}. The weights are as they were before it.\n"
        f"Its examples: {', '.join(map(str, examples[:8]))}{' …' if len(examples) > 8 else ''}.",
        "Try a lower train.learning_rate, or let some updates be left out with "
        "train.skip_nonfinite.",
    )


@torch.no_grad()
def first_place(model: Transformer, loss: Loss, batches: Sequence[Batch]) -> str:
    """A weight, a tensor on its way or a weight's gradient, in the order in which they are made."""
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            return f"the weight {name} itself"
    tap = NotFiniteTap([])
    for batch in batches:
        loss(model, batch.to(model.device), tap)
    if tap.found:
        return f"first in the tensor {tap.found[0]}"
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            return f"first in the gradient of {name}"
    return "in the loss alone"


class NotFiniteTap(Tap):
    """Notes the path of every tensor that is not finite; what a mask hides is -inf on purpose."""

    listening = True

    def __init__(self, found: list[str], path: str = "") -> None:
        self.found, self.path = found, path

    def __call__(self, name: str, x: Tensor) -> Tensor:
        if name != "masked" and not x.isfinite().all():
            self.found.append(self.path + name)
        return x

    def into(self, name: str) -> Self:
        return type(self)(self.found, f"{self.path}{name}.")
