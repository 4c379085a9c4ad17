"""How far a run has come, and the learning rate there: pure functions, nothing to save."""

import math
import time
from dataclasses import dataclass, replace

from clearhead.config import TrainConfig
from clearhead.train.report import Correction


@dataclass(frozen=True)
class Course:
    """A number of updates, and where it was corrected; progress is a pure function of the step."""

    steps: int
    corrections: tuple[Correction, ...] = ()

    @property
    def total(self) -> int:
        """Updates there will be, as far as is known."""
        return self.corrections[-1].steps if self.corrections else self.steps

    def progress(self, step: int) -> float:
        """From 0 before the first update to 1 after the last, without jumps at corrections."""
        since, done, total = 0, 0.0, self.steps
        for correction in self.corrections:
            if correction.step <= step:
                since, done, total = correction.step, correction.progress, correction.steps
        return min(1.0, done + (1 - done) * (step - since) / max(1, total - since))

    def corrected(self, step: int, steps: int) -> "Course":
        """The course from here on with another number of updates."""
        correction = Correction(step, self.progress(step), max(steps, step))
        return replace(self, corrections=(*self.corrections, correction))

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

    def note_update(self) -> float:
        """An update has ended; the answer is all the time spent on the run so far."""
        now = time.monotonic()
        self.spent, self.updates, self.last = self.spent + now - self.last, self.updates + 1, now
        return now - self.begin

    def note_validation(self) -> None:
        """A validation has ended; the next update begins."""
        now = time.monotonic()
        self.validation, self.last = now - self.last, now

    def take_pace(self) -> float:
        """Seconds per update since the last time somebody asked."""
        pace = self.spent / max(1, self.updates)
        self.spent, self.updates = 0.0, 0
        return pace


def stable(progress: float, warmup: float, decay: float) -> float:
    """Up, level, and straight down to zero at the end (warm-up, stable, decay)."""
    return min(1.0, progress / warmup if warmup else 1.0, (1 - progress) / decay)


def cosine(progress: float, warmup: float) -> float:
    """Up, then down half a cosine to zero at the end."""
    if progress < warmup:
        return progress / warmup
    return 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))


def inverse_sqrt(step: int, warmup_steps: int) -> float:
    """Up, then down with the square root of the step; the end does not matter to it."""
    return min(step / warmup_steps, math.sqrt(warmup_steps / step))


def paper(step: int, warmup_steps: int, d_model: int) -> float:
    """d_model^-0.5 · min(step^-0.5, step · warmup^-1.5)."""
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


def rate_factor(config: TrainConfig, d_model: int, step: int, progress: float) -> float:
    """What the peak learning rate is multiplied with, at a step (from 1) and progress (0 to 1)."""
    match config.schedule:
        case "stable":
            return stable(progress, config.warmup, config.decay)
        case "cosine":
            return cosine(progress, config.warmup)
        case "inverse-sqrt":
            return inverse_sqrt(step, config.warmup_steps)
        case "paper":
            return paper(step, config.warmup_steps, d_model)
