"""Where a number that is not finite came from: the question everyone asks when a loss is NaN."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from clearhead.data.batches import Batch
from clearhead.errors import NotFiniteError
from clearhead.train.loss import Loss


def not_finite(model: nn.Module, loss: Loss, batches: Sequence[Batch], step: int) -> NotFiniteError:
    """The error to raise: the update, the examples in it, and the first place that is not finite."""
    place = first_place(model, loss, batches)
    examples = [int(index) for batch in batches for index in batch.indices]
    return NotFiniteError(
        f"Update {step} is not finite: {place}. The weights are as they were before it.\n"
        f"Its examples: {', '.join(map(str, examples[:8]))}{' …' if len(examples) > 8 else ''}.",
        "Try a lower train.learning_rate, or let some updates be left out with train.skip_nonfinite.",
    )


def first_place(model: nn.Module, loss: Loss, batches: Sequence[Batch]) -> str:
    """A weight, a layer's output or a weight's gradient, in the order in which they are made."""
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            return f"the weight {name} itself"
    found: list[str] = []
    hooks = [
        module.register_forward_hook(noting(name, found)) for name, module in model.named_modules()
    ]
    device = next(model.parameters()).device
    with torch.no_grad():
        for batch in batches:
            loss(model, batch.to(device))  # type: ignore[arg-type]
    for hook in hooks:
        hook.remove()
    if found:
        return f"first in the output of {found[0]}"
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            return f"first in the gradient of {name}"
    return "in the loss alone"


def noting(name: str, found: list[str]) -> Callable[[nn.Module, object, object], None]:
    """A hook that notes the module if its output is not finite."""

    def hook(module: nn.Module, inputs: object, output: object) -> None:  # noqa: ARG001
        if isinstance(output, Tensor) and not output.isfinite().all():
            found.append(name)

    return hook
