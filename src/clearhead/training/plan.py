"""From data, speed and budget to a size, a batch and a number of updates, each with its reason."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from clearhead.config import Config, Given, ModelConfig, TrainConfig
from clearhead.data.batches import Batches
from clearhead.machine import wait_for
from clearhead.model import build
from clearhead.training.loss import Loss
from clearhead.training.optimizer import optimizers
from clearhead.training.update import Objective, Ranks, update

PART = r"([\d.]+)\s*(step|epoch|[smhd])"
UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
SIZES = ("tiny", "small", "base")
"""Sizes to choose from, smallest first."""
PASSES = 40
"""Passes over the data that a larger model must get in the time to be worth its price: short of
them, it is worse than a smaller one that gets more."""
ENOUGH_UPDATES = 100_000
"""As many as the paper's base model took: with them, passes no longer matter."""
UPDATES_TO_FIT = 1_000
"""Updates from which on a run is long enough to pay for fitting how it decodes."""
MOST_UPDATES = 1_000_000
"""As many as `train.max_steps` may be; a time that holds more is filled by corrections on the
way."""
DROPOUT = ((400.0, 0.3), (80.0, 0.2))
"""From how many passes over the data, times the weights that there are for each prediction in one,
which dropout: docs/LOG.md has the runs behind it."""
BATCH_TOKENS = (1_024, 2_048, 4_096, 8_192)
PROBE_SECONDS, PROBE_SHARE = 4.0, 0.02
"""How long a size is tried out, at most, and of the time there is."""


@dataclass(frozen=True)
class Budget:
    """How long to train: seconds, updates or passes over the data; all None: as the data
    deserves."""

    seconds: float | None = None
    steps: int | None = None
    epochs: float | None = None


def parse_budget(text: str) -> Budget:
    """What "45m", "1h 30m", "8000 steps" or "20 epochs" means."""
    parts = [
        (float(number), unit) for number, unit in re.findall(PART, TrainConfig(budget=text).budget)
    ]
    match parts:
        case []:
            return Budget()
        case [(number, "step")]:
            return Budget(steps=max(1, int(number)))
        case [(number, "epoch")]:
            return Budget(epochs=number)
    return Budget(seconds=sum(number * UNITS[unit] for number, unit in parts))


def duration(seconds: float) -> str:
    """A time as people say it, in the units that matter."""
    whole = round(seconds)
    minutes, hours = whole // 60, whole // 3600
    if hours:
        return f"{hours} h {minutes % 60:02} min"
    return f"{minutes} min {whole % 60:02} s" if minutes else f"{whole} s"


@dataclass(frozen=True)
class Plan:
    """What was chosen, and why."""

    config: Config
    steps: int
    seconds: float | None
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(f"- {reason}" for reason in self.reasons)


def planned(
    config: Config,
    decided: Given,
    *,
    n_tokens: int,
    n_batches: Callable[[int], int],
    speed: Callable[[ModelConfig], float],
    world: int = 1,
) -> Plan:
    """The settings with the size, the batch and the updates chosen, where they are not decided.

    It is a pure function: `n_tokens` are predicted in a pass, `n_batches` says how many batches of
    a size that makes, `speed` how many tokens a second a model of a shape learns from. A number of
    updates that was given stands, whatever the time; `world` processes see as many batches in one.
    """
    reasons: list[str] = []
    budget = parse_budget(config.train.budget)
    if budget.seconds is not None:
        config, fast, reasons = sized(config, decided, budget.seconds, n_tokens, speed)
        total = fast * budget.seconds * world
    else:
        # Without a budget, little data is seen many times and much of it a few times.
        total = n_tokens * (budget.epochs or min(60.0, max(3.0, 3e7 / n_tokens)))
    if "batch_tokens" not in decided.get("data", {}):
        # Batches grow as the square root of what is to be seen, and so do the updates.
        fitting = (size for size in BATCH_TOKENS if total / size >= size)
        largest = max(fitting, default=BATCH_TOKENS[0])
        config = config.but(data=config.data.but(batch_tokens=largest))
        reasons.append(f"batches of {largest:,} tokens: about {total / largest:,.0f} steps")
    per_pass = n_batches(config.data.batch_tokens) / config.train.accumulate / world
    steps = (
        config.train.max_steps
        or budget.steps
        or min(MOST_UPDATES, max(1, round(total / n_tokens * per_pass)))
    )
    seconds = None if config.train.max_steps else budget.seconds
    config, why = regularised(config, decided, steps / per_pass, n_tokens)
    passes = f"{steps / per_pass:.1f} epochs of {n_tokens:,} predictions each"
    fits = config.train.fit_decoding or may_fit(config, decided, steps)
    config = config.but(train=config.train.but(max_steps=steps, fit_decoding=fits))
    return Plan(config, steps, seconds, (*reasons, *why, f"{steps:,} steps: {passes}"))


def may_fit(config: Config, decided: Given, steps: int) -> bool:
    """Whether the length penalty is left to validation, and the run long enough to pay for it."""
    is_open = not {"length_penalty", "penalty", "temperature"} & decided.get("decode", {}).keys()
    is_open &= "fit_decoding" not in decided.get("train", {})
    return config.task == "translation" and is_open and steps >= UPDATES_TO_FIT


def regularised(
    config: Config, decided: Given, passes: float, n_tokens: int
) -> tuple[Config, list[str]]:
    """What keeps a model from learning by heart what it sees again and again, and the reason.

    A model has room for it if it has many weights for each token that it is to predict. Weights
    that begin with another run's have seen more than this data, and are left alone.
    """
    room = config.model.least_weights / n_tokens
    dropout = next((share for least, share in DROPOUT if passes * room >= least), None)
    if dropout is None or config.train.start or "dropout" in decided.get("model", {}):
        return config, []
    reason = (
        f"model.dropout = {dropout}: the data will be seen {passes:.0f} times by a model with "
        f"{room:.1f} weights for each prediction"
    )
    return config.but(model=config.model.but(dropout=dropout)), [reason]


def sized(
    config: Config,
    decided: Given,
    seconds: float,
    n_tokens: int,
    speed: Callable[[ModelConfig], float],
) -> tuple[Config, float, list[str]]:
    """The largest size that gets through the data often enough in the time, its speed, the
    reasons."""
    unit = "texts" if config.task == "classification" else "tokens"
    if config.model.size().keys() & decided.get("model", {}).keys():
        fast = speed(config.model)
        why = f"d_model = {config.model.d_model}: {fast:,.0f} {unit}/s on this machine"
        return config, fast, [why]
    best, reasons = 0.0, list[str]()
    for name in SIZES:
        model = config.model.but(
            **ModelConfig.preset(name, architecture=config.model.architecture).size()
        )
        fast = speed(model)
        passes = fast * seconds / n_tokens
        about = f"{fast:,.0f} {unit}/s on this machine would see the data {passes:.1f} times"
        enough = passes >= PASSES or fast * seconds / config.data.batch_tokens >= ENOUGH_UPDATES
        if best and not enough:
            return config, best, [*reasons, f"not {name}: {about}, which is too few for its size"]
        config, best, reasons = config.but(model=model), fast, [f"{name}: {about}"]
    return config, best, reasons


def measured_speed(
    model: ModelConfig,
    train: TrainConfig,
    *,
    loss: Loss,
    batches: Batches[Any],
    device: torch.device,
) -> float:
    """Tokens per second that a model of this shape learns from on the device, as a trial shows."""
    seconds = parse_budget(train.budget).seconds or PROBE_SECONDS
    enough = min(PROBE_SECONDS, PROBE_SHARE * seconds)
    transformer = build(model).to(device)
    objective, optimizer = Objective(transformer, loss, train), optimizers(transformer, train)
    n_tokens, begin, place = 0, 0.0, 0
    while place < 2 or time.monotonic() - begin < enough:
        if place == 1:  # the first update also warms up
            wait_for(device)
            n_tokens, begin = 0, time.monotonic()
        n_tokens += update(objective, [batches.batch(place)], place, train.clip, 1, Ranks()).tokens
        for each in optimizer:
            each.step()
        place += 1
    wait_for(device)
    return n_tokens / (time.monotonic() - begin)
