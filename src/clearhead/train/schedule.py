"""The learning rate's course, as pure functions: nothing to save, and nothing to lose on resuming."""

import math
from collections.abc import Callable

from clearhead.config import TrainConfig


def stable(progress: float, warmup: float, decay: float) -> float:
    """Up, level, and straight down to zero at the end."""
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


def learning_rate_factor(config: TrainConfig, d_model: int) -> Callable[[int, float], float]:
    """What the peak learning rate is multiplied with, from the step (the first is 1) and the progress (0 to 1)."""
    schedules: dict[str, Callable[[int, float], float]] = {
        "stable": lambda _, progress: stable(progress, config.warmup, config.decay),
        "cosine": lambda _, progress: cosine(progress, config.warmup),
        "inverse-sqrt": lambda step, _: inverse_sqrt(step, config.warmup_steps),
        "paper": lambda step, _: paper(step, config.warmup_steps, d_model),
    }
    return schedules[config.schedule]
