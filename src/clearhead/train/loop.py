"""The training loop: a generator of reports. Who draws, writes or counts them is not its business."""

import math
import signal
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from clearhead.config import Config, TrainConfig
from clearhead.data.batches import Batch, Batches
from clearhead.data.order import mix
from clearhead.model import Transformer, build
from clearhead.train.averaging import MovingAverage, mean_weights
from clearhead.train.course import Course, fitting_steps
from clearhead.train.depth import freeze
from clearhead.train.loss import Loss
from clearhead.train.nonfinite import not_finite
from clearhead.train.optimizer import optimizers
from clearhead.train.ranks import Ranks
from clearhead.train.report import (
    Chosen,
    Correction,
    Note,
    Report,
    Saved,
    Step,
    Stopped,
    Validation,
)
from clearhead.train.schedule import learning_rate_factor
from clearhead.train.signals import StopFlag
from clearhead.train.state import Keeper, State, Tensors, load, whole
from clearhead.train.update import Objective, Outcome, shared, update

VALIDATIONS = 12
"""Looks at the validation set in a run, when nothing else is asked."""
MOST_PIECES = 64
"""Pieces a batch is cut into at most before a shortage of memory counts as an error."""


Samples = tuple[tuple[str, str], ...]
"""A few inputs, each with what the model answers."""


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Validation: what training is measured by, on examples that it does not see."""

    loss: Callable[[Transformer], float]
    """The mean loss over all validation examples."""
    name: str = "loss"
    """What the score is called."""
    score: Callable[[Transformer], float] | None = None
    """The task's own measure (higher is better) on a sample; without one, the lowest loss is best."""
    full_score: Callable[[Transformer], float] | None = None
    """The same on all validation examples: what the weights to use are chosen by."""
    effort: float = 1.0
    """How many times longer the full score takes than that of the sample."""
    samples: Callable[[Transformer], Samples] = lambda _: ()
    calibrated: Callable[[Transformer, Config], Config] | None = None
    """The settings with what only validation can tell, such as a temperature."""


@dataclass(frozen=True)
class Job:
    """What to train, on what, judged by what, and how long."""

    model: Transformer
    batches: Batches[Any]
    loss: Loss
    config: TrainConfig
    steps: int
    judge: Judge
    keeper: Keeper
    seconds: float | None = None
    """Time there is: the number of steps is corrected to fit it."""
    corrections: tuple[Correction, ...] = ()
    """Corrections that an interrupted run has made, to be made again at the same steps."""
    ranks: Ranks = field(default_factory=Ranks)
    stop: StopFlag = field(default_factory=StopFlag)

    @property
    def validate_every(self) -> int:
        return self.config.validate_every or max(1, self.steps // VALIDATIONS)

    @property
    def save_every(self) -> int:
        return self.config.save_every or self.validate_every


def train(job: Job) -> Iterator[Report]:
    """Train to the end of the course, from the newest checkpoint if there is one, and choose the weights to use."""
    freeze(job.model, job.config.freeze)
    objective = shared(Objective(job.model, job.loss, job.config), job.config, job.ranks)
    state = yield from started(job)
    watch = Watch(state.counters.seconds)
    yield from looked_at(job, state, watch)
    while not ended(job, state):
        outcome = yield from advanced(job, state, objective)
        state.counters.seconds = watch.update_done()
        yield step_report(job, state, outcome)
        if outcome.stop:
            yield saved(job, state)
            yield Stopped(
                state.counters.step, "a signal asked for it", job.stop.signal or signal.SIGTERM
            )
            return
        yield from corrected(job, state, watch)
        yield from looked_at(job, state, watch)
        if is_due(state, job.save_every):
            yield saved(job, state)
    if state.counters.step < state.course.total:
        yield Stopped(
            state.counters.step, f"no better score in {state.counters.waited} validations"
        )
    yield from chosen(job, state)


def started(job: Job) -> Generator[Report, None, State]:
    """A fresh state, or that of the newest checkpoint."""
    average = MovingAverage(job.model, job.config.ema) if job.config.ema else None
    state = State(job.model, optimizers(job.model, job.config), Course(job.steps), average)
    newest = job.keeper.newest()
    if newest is not None:
        state.restore(newest)
        yield from (Note(newest.step, warning) for warning in newest.warnings)
        for what, now in circumstances(job).items():
            if (before := newest.state["circumstances"].get(what)) != now:
                yield Note(
                    newest.step,
                    f"{what} was {before} and is {now}: the same examples, but not the same bits.",
                )
    return state


def circumstances(job: Job) -> dict[str, Any]:
    """What else the last bits of the weights depend on."""
    return {
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
        "processes": job.ranks.world,
    }


def ended(job: Job, state: State) -> bool:
    """Whether the course is run, or nothing was gained for as long as the patience lasts."""
    out_of_patience = 0 < job.config.patience <= state.counters.waited
    return state.counters.step >= state.course.total or out_of_patience


def is_due(state: State, every: int) -> bool:
    """Whether now is the time for what happens every so many updates, and at the end."""
    return state.counters.step % every == 0 or state.counters.step >= state.course.total


def looked_at(job: Job, state: State, watch: "Watch") -> Iterator[Validation]:
    """Validate where it is time; also after a stop that came before it could be done."""
    if is_due(state, job.validate_every) and state.counters.step > state.counters.validated:
        yield validated(job, state)
        watch.validation_done()


def advanced(job: Job, state: State, objective: nn.Module) -> Generator[Report, None, Outcome]:
    """One update; tried again in smaller pieces when the memory is short, left out when it is not finite."""
    counters = state.counters
    batches = batches_of(job, counters.batches)
    while True:
        try:
            outcome = update(
                objective,
                batches,
                seed_of(job, counters.step),
                job.config.clip,
                counters.splits,
                job.ranks,
                stop=lambda: job.stop.signal is not None,
            )
            break
        except RuntimeError as error:
            if not out_of_memory(error) or job.ranks.world > 1 or counters.splits >= MOST_PIECES:
                raise
        counters.splits *= 2
        yield Note(
            counters.step,
            f"Out of memory: batches are cut into {counters.splits} pieces from here on.",
        )
    if outcome.finite:
        apply(job, state)
    else:
        counters.skipped += 1
        if counters.skipped > job.config.skip_nonfinite:
            raise not_finite(job.model, job.loss, batches, counters.step + 1)
        yield Note(counters.step, f"Update {counters.step + 1} is not finite and is left out.")
    counters.step += 1
    counters.batches += len(batches) * job.ranks.world
    counters.tokens += outcome.tokens
    return outcome


def batches_of(job: Job, place: int) -> list[Batch]:
    """This process's batches for an update: a pure function of the place that all have come to together."""
    ranks = job.ranks
    return [
        job.batches.batch(place + i * ranks.world + ranks.rank)
        for i in range(job.config.accumulate)
    ]


def seed_of(job: Job, step: int) -> int:
    """Where this process's random numbers for an update begin, so that no generator's state has to be kept."""
    return int(mix(job.config.seed, step, job.ranks.rank)[0] >> 1)


def apply(job: Job, state: State) -> None:
    """Let the optimizers act on the gradients, at the learning rate of this point of the course."""
    factor = rate_factor(job, state)
    for optimizer in state.optimizers:
        for group in optimizer.param_groups:
            group.setdefault("peak", group["lr"])
            group["lr"] = group["peak"] * factor
        optimizer.step()
    if state.average is not None:
        state.average.update(job.model)


def rate_factor(job: Job, state: State) -> float:
    """The learning rate's factor in the middle of the coming update, so that neither the first nor the last is idle."""
    step, course = state.counters.step, state.course
    middle = (course.progress(step) + course.progress(step + 1)) / 2
    return learning_rate_factor(job.config, job.model.config.d_model)(step + 1, middle)


def out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def step_report(job: Job, state: State, outcome: Outcome) -> Step:
    counters = state.counters
    return Step(
        step=counters.step,
        steps=state.course.total,
        epoch=counters.batches / len(job.batches),
        loss=outcome.loss,
        learning_rate=state.optimizers[-1].param_groups[-1]["lr"],
        gradient=outcome.gradient,
        tokens=outcome.tokens,
        seconds=counters.seconds,
    )


def validated(job: Job, state: State) -> Validation:
    """Measure, and remember whether it was the best so far; without a score, the lowest loss is best."""
    counters = state.counters
    counters.validated = counters.step
    model = whole_model(job)
    loss = job.judge.loss(model)
    score = None if job.judge.score is None else job.judge.score(model)
    merit = job.ranks.from_first(-loss if score is None else score)
    best = counters.best is None or merit > counters.best
    if best:
        counters.best, counters.best_step, counters.waited = merit, counters.step, 0
    else:
        counters.waited += 1
    samples = job.judge.samples(model)
    return Validation(
        counters.step,
        loss,
        math.exp(min(loss, 700)),
        score,
        job.judge.name,
        best,
        samples,
        counters.seconds,
    )


def whole_model(job: Job) -> Transformer:
    """The model as it is measured: put together for the time, where its weights are split over processes."""
    model = job.model
    if job.config.shard and job.ranks.world > 1:
        model = build(job.model.config).to(next(job.model.parameters()).device)
        load(model.state_dict(), whole(job.model.state_dict()))
    return model.eval()


def saved(job: Job, state: State) -> Saved:
    """Put a checkpoint on disk and clear older ones away; only the first process writes."""
    begin = time.monotonic()
    tensors, step = state.tensors(), state.counters.step
    if job.ranks.first and step not in job.keeper.steps():
        job.keeper.save(step, tensors, state.numbers() | {"circumstances": circumstances(job)})
        job.keeper.prune(
            max(job.config.keep_checkpoints, job.config.average_last), state.counters.best_step
        )
    job.ranks.wait()
    return Saved(step, time.monotonic() - begin)


def corrected(job: Job, state: State, watch: "Watch") -> Iterator[Correction]:
    """Repeat the corrections that were made before; after the last of them, look at the clock from time to time."""
    step, course = state.counters.step, state.course
    known = [correction for correction in job.corrections if correction.step >= step]
    steps = course.total
    if known:
        steps = known[0].steps if known[0].step == step else steps
    elif job.seconds is not None and step % max(5, job.steps // 50) == 0 and step < course.total:
        left = job.seconds - state.counters.seconds - watch.reserve(job, course, step)
        steps = int(job.ranks.from_first(float(fitting_steps(course, step, left, watch.pace()))))
    if steps != course.total:
        state.course = course.corrected(step, steps)
        yield state.course.corrections[-1]


def chosen(job: Job, state: State) -> Iterator[Report]:
    """Load the weights that do best on the whole validation set: the last, the best on the sample, or an average."""
    scores: dict[str, float] = {}
    candidates = dict(weights_to_try(job, state))
    for name, weights in candidates.items():
        load(job.model.state_dict(), weights)
        model = whole_model(job)
        full = job.judge.full_score
        merit = -job.judge.loss(model) if full is None else full(model)
        scores[name] = job.ranks.from_first(merit)
    best = max(scores, key=scores.__getitem__)
    load(job.model.state_dict(), candidates[best])
    yield Chosen(state.counters.step, best, scores)


def weights_to_try(job: Job, state: State) -> Iterator[tuple[str, Tensors]]:
    """The candidates that there are."""
    yield "last", {name: tensor.clone() for name, tensor in job.model.state_dict().items()}
    best = state.counters.best_step
    if best is not None and best != state.counters.step and (checkpoint := job.keeper.at(best)):
        yield f"best, of update {best}", checkpoint.tensors("weights")
    if state.average is not None:
        yield "moving average", state.average.tensors
    steps = job.keeper.steps()[-job.config.average_last :] if job.config.average_last else []
    several = [
        checkpoint.tensors("weights") for step in steps if (checkpoint := job.keeper.at(step))
    ]
    if len(several) > 1:
        yield f"average of {len(several)} checkpoints", mean_weights(several)


class Watch:
    """How long updates and validations take on this machine, now."""

    def __init__(self, seconds: float) -> None:
        self.begin = time.monotonic() - seconds
        self.last = time.monotonic()
        self.spent, self.updates, self.validation = 0.0, 0, 0.0

    def update_done(self) -> float:
        """Note an update; the answer is all the time spent on the run so far."""
        now = time.monotonic()
        self.spent, self.updates, self.last = self.spent + now - self.last, self.updates + 1, now
        return now - self.begin

    def validation_done(self) -> None:
        now = time.monotonic()
        self.validation, self.last = now - self.last, now

    def pace(self) -> float:
        """Seconds per update since the last time somebody asked."""
        pace = self.spent / max(1, self.updates)
        self.spent, self.updates = 0.0, 0
        return pace

    def reserve(self, job: Job, course: Course, step: int) -> float:
        """Time that validations will still take: those on the way, and the choice of weights at the end."""
        n_left = (course.total - step) // job.validate_every
        n_candidates = 2 + (job.config.ema > 0) + (job.config.average_last > 0)
        return self.validation * (n_left + n_candidates * job.judge.effort)
