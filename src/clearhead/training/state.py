"""All that a run is between two updates, for a checkpoint to hold, and what it reports on its way.

Resuming is bit-exact: the place in the data is a number, the learning rate is a function of the
step, and each update draws its random numbers from a seed made of (seed, step, rank), so there is
nothing else to keep. The reports are drawn by the display, written by the log, counted by tests.
"""

import math
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from clearhead.errors import FolderError
from clearhead.training.update import full, placed_like

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Report:
    """Something that happened after an update; `str()` is a line for people."""

    step: int
    """Updates of the weights so far."""

    def line(self) -> dict[str, Any]:
        """The report as a line of the log; what is not finite is null, as JSON has no word for it."""
        kind = type(self).__name__.removesuffix("Report").lower()
        return {"kind": kind} | {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True, kw_only=True)
class StepReport(Report):
    """One update of the weights."""

    steps: int
    epoch: float
    """How often the training data was seen."""
    loss: float
    """Mean loss of the batch, label smoothing included."""
    learning_rate: float
    gradient: float
    """The gradient's length before clipping."""
    tokens: int
    """Predictions judged in this update."""
    seconds: float
    """Time spent so far."""

    def __str__(self) -> str:
        return (
            f"step {self.step:,} of {self.steps:,}, epoch {self.epoch:.1f}: loss {self.loss:.3f}, "
            f"learning rate {self.learning_rate:.2g}"
        )


@dataclass(frozen=True, kw_only=True)
class Validation(Report):
    """A look at examples that are not trained on."""

    loss: float
    perplexity: float
    score: float | None
    """The task's own measure (higher is better), where there is one."""
    score_name: str
    best: bool
    """Whether none before was better."""
    samples: tuple[tuple[str, str], ...]
    """A few fixed inputs with what the model answers now."""
    seconds: float

    def __str__(self) -> str:
        score = "" if self.score is None else f", {self.score_name} {self.score:.1f}"
        best = " (best so far)" if self.best else ""
        return f"step {self.step:,}: validation loss {self.loss:.3f}{score}{best}"


@dataclass(frozen=True)
class Correction(Report):
    """The machine's pace changed, and with it the number of updates that fit the time."""

    progress: float
    """How far the schedule had come, from 0 to 1."""
    steps: int
    """Updates there will be, from now on."""

    def __str__(self) -> str:
        return f"step {self.step:,}: {self.steps:,} steps fit the time"


@dataclass(frozen=True)
class Saved(Report):
    """A checkpoint is on disk."""

    seconds: float

    def __str__(self) -> str:
        return f"step {self.step:,}: checkpoint saved in {self.seconds:.1f} s"


@dataclass(frozen=True)
class Note(Report):
    """Something that a person should know."""

    text: str

    def __str__(self) -> str:
        return f"step {self.step:,}: {self.text}" if self.step else self.text


@dataclass(frozen=True)
class Chosen(Report):
    """Which weights are used, and what each candidate reached on the validation set."""

    weights: str
    scores: dict[str, float]
    name: str = "loss"
    """What the scores are called; a loss counts as negative, so that higher is better."""
    n_examples: int = 0
    """Validation examples that they were measured on."""
    per_byte: float = 0.0
    """Predictions for each byte of these, where a loss can be told in bits per byte."""

    def worded(self, weights: str) -> str:
        rating = self.scores[weights]
        bits = f" ({-rating * self.per_byte / math.log(2):.3f} bits per byte)"
        return worded(self.name, rating) + (bits if self.per_byte else "")


def worded(name: str, rating: float) -> str:
    """A rating of weights as people read it."""
    return f"loss {-rating:.4f}" if name == "loss" else f"{name} {rating:.2f}"


@dataclass(frozen=True)
class Stopped(Report):
    """Training ended before its last update."""

    reason: str
    signal: int | None = None

    def __str__(self) -> str:
        return f"step {self.step:,}: stopped early, {self.reason}"


class StoredCheckpoint(Protocol):
    """A saved moment, as the folder gives it back."""

    step: int
    state: dict[str, Any]
    warnings: tuple[str, ...]
    """Why newer ones were passed over."""

    def tensors(self, name: str) -> Tensors: ...


class Keeper(Protocol):
    """The checkpoint store; the loop does not know about files."""

    def save(self, step: int, tensors: dict[str, Tensors], state: dict[str, Any]) -> object: ...
    def newest(self) -> StoredCheckpoint | None: ...
    def at(self, step: int) -> StoredCheckpoint | None: ...
    def steps(self) -> list[int]: ...
    def prune(self, keep_last: int, best: int | None) -> object: ...


@dataclass(frozen=True)
class Course:
    """A number of updates, and where it was corrected; progress is a pure function of the step."""

    steps: int
    corrections: tuple[Correction, ...] = ()

    @property
    def total(self) -> int:
        return self.corrections[-1].steps if self.corrections else self.steps

    def progress(self, step: int) -> float:
        """From 0 before the first update to 1 after the last, without jumps at corrections."""
        made = [each for each in self.corrections if each.step <= step]
        last = made[-1] if made else Correction(0, 0.0, self.steps)
        gained = (1 - last.progress) * (step - last.step) / max(1, last.steps - last.step)
        return min(1.0, last.progress + gained)

    def corrected(self, step: int, steps: int) -> "Course":
        made = Correction(step, self.progress(step), max(steps, step))
        return replace(self, corrections=(*self.corrections, made))

    def fitting_steps(self, step: int, seconds_left: float, seconds_per_step: float) -> int:
        """How many updates fit the time that is left; the present number, if it is near enough."""
        fits = step + max(1, int(seconds_left / seconds_per_step))
        near = max(2, 0.02 * (self.total - step))
        return fits if abs(fits - self.total) > near else self.total


class Stopwatch:
    """How long updates and validations take on this machine, now."""

    def __init__(self, seconds: float) -> None:
        self.last = time.monotonic()
        self.begin = self.last - seconds
        self.spent, self.updates, self.validation = 0.0, 0, 0.0
        self.update = 0.0
        """Seconds of the last update."""

    def note_update(self) -> float:
        """An update has ended; the answer is all the time spent on the run so far."""
        now = time.monotonic()
        self.update, self.last = now - self.last, now
        self.spent, self.updates = self.spent + self.update, self.updates + 1
        return now - self.begin

    def note_validation(self) -> None:
        now = time.monotonic()
        self.validation, self.last = now - self.last, now

    def take_pace(self) -> float:
        """Seconds per update since the last time somebody asked."""
        pace = self.spent / max(1, self.updates)
        self.spent, self.updates = 0.0, 0
        return pace


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


class MovingAverage:
    """An exponential moving average (EMA) of the weights; while it is young it forgets faster."""

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
        torch._foreach_lerp_([*self.tensors.values()], [*model.state_dict().values()], 1 - past)


def mean_weights(several: Iterable[Tensors]) -> Tensors:
    """Checkpoint averaging: the mean of several sets of weights, in float64: any order will do."""
    sets = list(several)
    return {
        name: torch.stack([weights[name].double() for weights in sets]).mean(dim=0).float()
        for name in sets[0]
    }


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
            "weights": self.model.state_dict(),
            "optimizer": {
                f"{name}/{key}": value
                for name, parameter in self.model.named_parameters()
                for optimizer in self.optimizers
                for key, value in optimizer.state.get(parameter, {}).items()
            },
        }
        if self.average is not None:
            files["average"] = self.average.tensors
        return {name: gathered(tensors) for name, tensors in files.items()}

    def numbers(self) -> dict[str, Any]:
        """All the rest of a checkpoint, as JSON."""
        return {
            "counters": asdict(self.counters),
            "steps": self.course.steps,
            "corrections": [asdict(correction) for correction in self.course.corrections],
            "average_updates": 0 if self.average is None else self.average.n_updates,
        }

    def restore(self, checkpoint: StoredCheckpoint) -> None:
        load_tensors(self.model.state_dict(), checkpoint.tensors("weights"))
        owner = {
            parameter: optimizer
            for optimizer in self.optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        saved = checkpoint.tensors("optimizer")
        for name, parameter in self.model.named_parameters():
            if parameter in owner:  # it is not frozen
                owner[parameter].state[parameter] = {
                    key.rpartition("/")[2]: placed_like(parameter, tensor)
                    for key, tensor in saved.items()
                    if key.rpartition("/")[0] == name
                }
        numbers = checkpoint.state
        if self.average is not None:
            load_tensors(self.average.tensors, checkpoint.tensors("average"))
            self.average.n_updates = numbers["average_updates"]
        self.counters = Counters(**numbers["counters"])
        self.course = Course(
            numbers["steps"], tuple(Correction(**each) for each in numbers["corrections"])
        )


def gathered(tensors: Tensors) -> Tensors:
    """The tensors on the CPU, all of each, also where they are sharded over processes."""
    return {name: full(tensor).detach().cpu() for name, tensor in tensors.items()}


@torch.no_grad()
def load_tensors(into: Tensors, saved: Tensors) -> None:
    """Copy tensors by name; each must be there."""
    if into.keys() != saved.keys():
        odd = ", ".join(sorted(into.keys() ^ saved.keys())[:3])
        raise FolderError(
            f"The checkpoint is of another model: {odd} is only on one side.",
            "Use another --into.",
        )
    for name, tensor in into.items():
        if tensor.shape != saved[name].shape:
            raise FolderError(
                f"The checkpoint is of another model: {name} has the shape "
                f"{[*saved[name].shape]} instead of {[*tensor.shape]}.",
                "Put config.toml back as it was, or use another --into.",
            )
        tensor.copy_(placed_like(tensor, saved[name]))
