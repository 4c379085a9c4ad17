"""All that a run is, between two updates: what a checkpoint holds so that going on equals not having stopped.

The place in the data is a number, the learning rate is a function of the step, and each update draws its random
numbers from a seed made of (seed, step, rank): there is nothing else to keep.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from clearhead.errors import FolderError
from clearhead.train.averaging import MovingAverage
from clearhead.train.course import Course
from clearhead.train.report import Correction
from clearhead.train.sharded import like, put_together

Tensors = dict[str, Tensor]


class Checkpoint(Protocol):
    """A saved moment, as the folder gives it back."""

    step: int
    state: dict[str, Any]
    warnings: tuple[str, ...]
    """Why newer ones were passed over."""

    def tensors(self, name: str) -> Tensors: ...


class Keeper(Protocol):
    """Where checkpoints go; the loop does not know about files."""

    def save(self, step: int, tensors: dict[str, Tensors], state: dict[str, Any]) -> object: ...
    def newest(self) -> Checkpoint | None: ...
    def at(self, step: int) -> Checkpoint | None: ...
    def steps(self) -> list[int]: ...
    def prune(self, keep_last: int, best: int | None) -> object: ...


@dataclass
class Counters:
    """What the loop counts; all of it is in the checkpoint."""

    step: int = 0
    tokens: int = 0
    batches: int = 0
    """The place in the data: batches that all processes together have taken."""
    seconds: float = 0.0
    best: float | None = None
    best_step: int | None = None
    waited: int = 0
    """Validations since the best."""
    validated: int = 0
    """The step of the last validation."""
    splits: int = 1
    """Pieces that each batch is cut into, because it does not fit the memory in one."""
    skipped: int = 0
    """Updates left out because they were not finite."""


@dataclass
class State:
    """The model, what trains it, and what was counted."""

    model: nn.Module
    optimizers: list[Optimizer]
    course: Course
    average: MovingAverage | None = None
    counters: Counters = field(default_factory=Counters)

    def tensors(self) -> dict[str, Tensors]:
        """The tensors of a checkpoint, by file."""
        files = {
            "weights": whole(self.model.state_dict()),
            "optimizer": whole(dict(self.optimizer_tensors())),
        }
        return files if self.average is None else files | {"average": whole(self.average.tensors)}

    def optimizer_tensors(self) -> Iterable[tuple[str, Tensor]]:
        """Each parameter's optimizer state as `name/key`."""
        for name, parameter in self.model.named_parameters():
            for optimizer in self.optimizers:
                for key, value in optimizer.state.get(parameter, {}).items():
                    yield f"{name}/{key}", value

    def numbers(self) -> dict[str, Any]:
        """All the rest of a checkpoint, as JSON."""
        return {
            "counters": asdict(self.counters),
            "steps": self.course.steps,
            "corrections": [asdict(correction) for correction in self.course.corrections],
            "average_updates": 0 if self.average is None else self.average.n_updates,
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Become what was saved."""
        load(self.model.state_dict(), checkpoint.tensors("weights"))
        saved = checkpoint.tensors("optimizer")
        owner = {
            p: optimizer
            for optimizer in self.optimizers
            for g in optimizer.param_groups
            for p in g["params"]
        }
        for name, parameter in self.model.named_parameters():
            if parameter not in owner:  # it is frozen
                continue
            keys = [key for key in saved if key.rpartition("/")[0] == name]
            state = {key.rpartition("/")[2]: like(parameter, saved[key]) for key in keys}
            owner[parameter].state[parameter] = state
        numbers = checkpoint.state
        if self.average is not None:
            load(self.average.tensors, checkpoint.tensors("average"))
            self.average.n_updates = numbers["average_updates"]
        self.counters = Counters(**numbers["counters"])
        corrections = tuple(Correction(**correction) for correction in numbers["corrections"])
        self.course = Course(numbers["steps"], corrections)


def whole(tensors: Tensors) -> Tensors:
    """The tensors on the CPU, put together where they are split over processes."""
    return {name: put_together(tensor).detach().cpu() for name, tensor in tensors.items()}


@torch.no_grad()
def load(into: Tensors, saved: Tensors) -> None:
    """Copy tensors by name; each must be there."""
    if into.keys() != saved.keys():
        odd = ", ".join(sorted(into.keys() ^ saved.keys())[:3])
        raise FolderError(
            f"The checkpoint is of another model: {odd} is only on one side.",
            "Use another --into.",
        )
    for name, tensor in into.items():
        tensor.copy_(like(tensor, saved[name]))
