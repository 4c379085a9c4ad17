"""From the data, the machine and the time there is to a size, a batch and a number of updates, each with its reason."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clearhead.config import Config, ModelConfig, TrainConfig
from clearhead.data.batches import Batches
from clearhead.model import build
from clearhead.train.loss import Loss
from clearhead.train.optimizer import optimizers
from clearhead.train.parallel import Ranks
from clearhead.train.update import Objective, update

PART = r"([\d.]+)\s*(step|epoch|[smhd])"
UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
SIZES = ("tiny", "small", "base")
"""Sizes to choose from, smallest first."""
PASSES = 40
"""Passes over the data that a larger model must get in the time to be worth its price: short of them, it is worse than
a smaller one that gets more."""
ENOUGH_UPDATES = 100_000
"""As many as the paper's base model took: with them, passes no longer matter."""
UPDATES = 2_000
"""Updates to aim for before batches grow."""
MOST_UPDATES = 1_000_000
"""As many as `train.max_steps` may be; a time that holds more is filled by corrections on the way."""
BATCH_TOKENS = (1_024, 2_048, 4_096, 8_192)
PROBE_SECONDS, PROBE_SHARE = 4.0, 0.02
"""How long a size is tried out, at most, and of the time there is."""
OTHER_THAN_SIZE = {
    "family", "vocab_size", "source_vocab_size", "n_classes", "tie", "norm", "init", "dropout", "attention_dropout",
}  # fmt: skip
"""Settings of the model that do not fix its size."""


@dataclass(frozen=True)
class Budget:
    """How long to train: seconds, updates or passes over the data; all None: as the data deserves."""

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


@dataclass(frozen=True)
class Plan:
    """What was chosen, and why."""

    config: Config
    steps: int
    seconds: float | None
    reasons: tuple[str, ...]


def planned(
    config: Config,
    budget: Budget,
    n_tokens: int,
    loss: Loss,
    batches: Callable[[int], Batches[Any]],
    world: int = 1,
) -> Plan:
    """Settings with all that was left open chosen; `n_tokens` are predicted in a pass, `batches` makes them by size.

    A number of updates that was given stands, whatever the time; `world` processes see as many batches in an update.
    """
    reasons: list[str] = []
    if budget.seconds is not None:
        config, speed, reasons = sized(config, budget.seconds, n_tokens, loss, batches)
        total = speed * budget.seconds * world
    else:
        total = n_tokens * (budget.epochs or default_epochs(n_tokens))
    if "batch_tokens" not in config.data.model_fields_set:
        largest = max(
            [size for size in BATCH_TOKENS if total / size >= UPDATES], default=BATCH_TOKENS[0]
        )
        config = config.but(data=config.data.but(batch_tokens=largest))
        reasons.append(f"batches of {largest:,} tokens: about {total / largest:,.0f} updates")
    n_batches = len(batches(config.data.batch_tokens)) / config.train.accumulate / world
    steps = (
        config.train.max_steps
        or budget.steps
        or min(MOST_UPDATES, max(1, round(total / n_tokens * n_batches)))
    )
    reasons.append(
        f"{steps:,} updates: {steps / n_batches:.1f} passes of {n_tokens:,} predictions each"
    )
    seconds = None if config.train.max_steps else budget.seconds
    return Plan(config.but(train=config.train.but(max_steps=steps)), steps, seconds, tuple(reasons))


def default_epochs(n_tokens: int) -> float:
    """Passes for an amount of data when no budget is given: many for little, few for much."""
    return min(60.0, max(3.0, 3e7 / n_tokens))


def sized(
    config: Config,
    seconds: float,
    n_tokens: int,
    loss: Loss,
    batches: Callable[[int], Batches[Any]],
) -> tuple[Config, float, list[str]]:
    """The largest size that gets through the data often enough in the time, its speed in tokens/s, and the reasons."""
    given = config.model.model_dump(exclude_unset=True)
    if not given.keys() <= OTHER_THAN_SIZE:
        speed = probed(config.model, config.train, loss, batches(config.data.batch_tokens), seconds)
        return config, speed, [f"the model as given: {speed:,.0f} tokens/s on this machine"]
    speed = 0.0
    reasons: list[str] = []
    for name in SIZES:
        model = ModelConfig.preset(name, **given)
        measured = probed(model, config.train, loss, batches(config.data.batch_tokens), seconds)
        passes = measured * seconds / n_tokens
        about = f"{measured:,.0f} tokens/s on this machine would see the data {passes:.1f} times"
        if (
            speed
            and passes < PASSES
            and measured * seconds / config.data.batch_tokens < ENOUGH_UPDATES
        ):
            return config, speed, [*reasons, f"not {name}: {about}, which is too few for its size"]
        config, speed, reasons = config.but(model=model), measured, [f"{name}: {about}"]
    return config, speed, reasons


def probed(
    model: ModelConfig, train: TrainConfig, loss: Loss, batches: Batches[Any], budget: float
) -> float:
    """Tokens per second that a model of this shape learns from on this machine."""
    enough = min(PROBE_SECONDS, PROBE_SHARE * budget)
    transformer = build(model)
    objective, optimizer = Objective(transformer, loss, train), optimizers(transformer, train)
    n_tokens, begin, place = 0, 0.0, 0
    while place < 2 or time.monotonic() - begin < enough:
        if place == 1:  # the first update also warms up
            n_tokens, begin = 0, time.monotonic()
        n_tokens += update(objective, [batches.batch(place)], place, train.clip, 1, Ranks()).tokens
        for each in optimizer:
            each.step()
        place += 1
    return n_tokens / (time.monotonic() - begin)
