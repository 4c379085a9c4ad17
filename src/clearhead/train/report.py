"""What training tells while it goes on: the display draws it, the log writes it, tests count it."""

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Report:
    """Something that happened after an update."""

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
    """Updates there will be."""
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


@dataclass(frozen=True)
class Correction(Report):
    """The machine's pace changed, and with it the number of updates that fit the time."""

    progress: float
    """How far the schedule had come, from 0 to 1."""
    steps: int
    """Updates there will be, from now on."""


@dataclass(frozen=True)
class Saved(Report):
    """A checkpoint is on disk."""

    seconds: float


@dataclass(frozen=True)
class Note(Report):
    """Something that a person should know."""

    text: str


@dataclass(frozen=True)
class Chosen(Report):
    """Which weights are used, and what each candidate reached on the validation set."""

    weights: str
    scores: dict[str, float]


@dataclass(frozen=True)
class Stopped(Report):
    """Training ended before its last update."""

    reason: str
    signal: int | None = None
