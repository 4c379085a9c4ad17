"""The training loop: a generator of reports. Who draws, writes or counts them is not its business."""

import math
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from clearhead.config import TrainConfig
from clearhead.data.batches import Batch, Batches
from clearhead.data.order import mix
from clearhead.machine import n_processors
from clearhead.model import Model, build
from clearhead.training.loss import Judge, Loss
from clearhead.training.optimizer import freeze, optimizers, rate_factor
from clearhead.training.pace import Pace, ThreadChange
from clearhead.training.state import (
    Chosen,
    Correction,
    Course,
    Keeper,
    MovingAverage,
    Note,
    Report,
    Saved,
    State,
    StepReport,
    Stopped,
    Stopwatch,
    Tensors,
    Validation,
    gathered,
    load_tensors,
    mean_weights,
)
from clearhead.training.update import Objective, Outcome, Ranks, distribute, not_finite, update

VALIDATIONS = 12
"""Validations in a run, when nothing else is asked."""
FITTING = 25
"""Validations that take as long as to choose how to decode: some beams, each on more examples."""
MOST_PIECES = 64
"""Pieces a batch is cut into at most before a shortage of memory counts as an error."""


@dataclass
class StopFlag:
    """The signal that asked for a stop, if any did: the loop ends after the update it is in."""

    signal: int | None = None

    def note(self, number: int, _frame: object) -> None:
        """A signal handler: remember the first signal; leave at once on a second Ctrl-C."""
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def stop_on_signals() -> Iterator[StopFlag]:
    """While inside, Ctrl-C and SIGTERM only raise a flag; in a thread no signal arrives."""
    flag = StopFlag()
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    before = {number: signal.signal(number, flag.note) for number in numbers}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to train, on what, judged by what, and how long."""

    model: Model
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
    thread_changes: tuple[ThreadChange, ...] = ()
    """Likewise the changes of the number of threads."""
    ranks: Ranks = field(default_factory=Ranks)
    share: Callable[[], None] = lambda: None
    """Shows all processes the checkpoints of the first, where they do not see its disk."""
    stop: StopFlag = field(default_factory=StopFlag)

    @property
    def validate_every(self) -> int:
        return self.config.validate_every or max(1, self.steps // VALIDATIONS)

    def batches_at(self, place: int) -> list[Batch]:
        """This process's batches for an update: a pure function of the place all have come to."""
        first, stride = place + self.ranks.rank, self.ranks.world
        return [self.batches.batch(first + i * stride) for i in range(self.config.accumulate)]

    def seed_at(self, step: int) -> int:
        """The seed of this process's random numbers in an update: deterministic, nothing to keep."""
        return int(mix(self.config.seed, step, self.ranks.rank)[0] >> 1)

    def circumstances(self) -> dict[str, Any]:
        """What else the last bits of the weights depend on."""
        return {
            "torch": str(torch.__version__),
            "threads": torch.get_num_threads(),
            "processes": self.ranks.world,
        }


def train(job: Job) -> Iterator[Report]:
    """Train from the newest checkpoint, if there is one, to the end; choose the weights to use."""
    run = Run(job)
    yield from run.resume()
    yield from run.validate_if_due()
    while not run.is_over():
        outcome = yield from run.advance()
        if outcome.stop:
            yield run.save()
            yield Stopped(run.step, "a signal asked for it", job.stop.signal or signal.SIGTERM)
            return
        yield from run.choose_threads(outcome.tokens)
        yield from run.correct_course()
        yield from run.validate_if_due()
        if run.is_due(job.config.save_every or job.validate_every):
            yield run.save()
    if run.step < run.state.course.total:
        yield Stopped(run.step, f"no better score in {run.state.counters.waited} validations")
    yield run.choose_weights()


class Run:
    """A job on its way: its state, and the time it takes."""

    def __init__(self, job: Job) -> None:
        self.job = job
        freeze(job.model, job.config.freeze)
        self.objective = distribute(
            Objective(job.model, job.loss, job.config), job.config, job.ranks
        )
        self.state = State(
            job.model,
            optimizers(job.model, job.config),
            Course(job.steps),
            MovingAverage(job.model, job.config.ema) if job.config.ema else None,
        )
        self.watch = Stopwatch(0.0)
        self.pace: Pace | None = None

    @property
    def step(self) -> int:
        return self.state.counters.step

    def resume(self) -> Iterator[Note]:
        if (newest := self.job.keeper.newest()) is None:
            return
        self.state.restore(newest)
        if made := [each for each in self.job.thread_changes if each.step <= newest.step]:
            torch.set_num_threads(made[-1].threads)
        yield from (Note(newest.step, warning) for warning in newest.warnings)
        for what, now in self.job.circumstances().items():
            if (before := newest.state["circumstances"].get(what)) != now:
                yield Note(
                    newest.step,
                    f"{what} was {before} and is {now}: the same examples, but not the same bits.",
                )
        self.watch = Stopwatch(self.state.counters.seconds)
        # A run that had ended may have been given another course since it was saved.
        corrected = tuple(each for each in self.job.corrections if each.step <= self.step)
        if len(corrected) > len(self.state.course.corrections):
            self.state.course = replace(self.state.course, corrections=corrected)
            self.state.counters.waited = 0

    def is_over(self) -> bool:
        """Whether the course is run, or nothing was gained for too long (early stopping)."""
        state, patience = self.state, self.job.config.patience
        return self.step >= state.course.total or 0 < patience <= state.counters.waited

    def is_due(self, every: int) -> bool:
        """Whether now is the time for what happens every so many updates, and at the end."""
        return self.step % every == 0 or self.step >= self.state.course.total

    def advance(self) -> Generator[Report, None, Outcome]:
        """One update, reported; in smaller pieces when memory is short, left out when not finite."""
        job, counters = self.job, self.state.counters
        batches = job.batches_at(counters.batches)
        while (outcome := self.try_update(batches)) is None:
            counters.splits *= 2
            yield Note(
                counters.step,
                f"Out of memory: batches are cut into {counters.splits} pieces from here on.",
            )
        if math.isfinite(outcome.loss) and math.isfinite(outcome.gradient):
            self.apply()
        else:
            counters.skipped += 1
            if counters.skipped > job.config.skip_nonfinite:
                raise not_finite(job.model, job.loss, batches, counters.step + 1)
            yield Note(counters.step, f"Step {counters.step + 1} is not finite and is left out.")
        counters.step += 1
        counters.batches += len(batches) * job.ranks.world
        counters.tokens += outcome.tokens
        counters.seconds = self.watch.note_update()
        yield StepReport(
            counters.step,
            steps=self.state.course.total,
            epoch=counters.batches / len(job.batches),
            loss=outcome.loss,
            learning_rate=self.state.optimizers[-1].param_groups[-1]["lr"],
            gradient=outcome.gradient,
            tokens=outcome.tokens,
            seconds=counters.seconds,
        )
        return outcome

    def try_update(self, batches: list[Batch]) -> Outcome | None:
        """What an update found, its gradients being on the parameters; None if memory was short."""
        job, counters = self.job, self.state.counters
        try:
            return update(
                self.objective,
                batches,
                seed=job.seed_at(counters.step),
                clip=job.config.clip,
                splits=counters.splits,
                ranks=job.ranks,
                stop=lambda: job.stop.signal is not None,
            )
        except RuntimeError as error:
            is_short = isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(
                error
            )
            if not is_short or job.ranks.world > 1 or counters.splits >= MOST_PIECES:
                raise
            return None

    def apply(self) -> None:
        """Let the optimizers act on the gradients, at the learning rate of this point."""
        job, course = self.job, self.state.course
        # The middle of the coming update, so that neither the first nor the last is idle.
        middle = (course.progress(self.step) + course.progress(self.step + 1)) / 2
        factor = rate_factor(job.config, job.model.config.d_model, self.step + 1, middle)
        for optimizer in self.state.optimizers:
            for group in optimizer.param_groups:
                group.setdefault("peak", group["lr"])
                group["lr"] = group["peak"] * factor
            optimizer.step()
        if self.state.average is not None:
            self.state.average.update(job.model)

    def validate_if_due(self) -> Iterator[Validation]:
        """Measure where it is time, and remember whether it was the best so far.

        It may also be time after a stop that came before the validation could be done.
        """
        judge, counters = self.job.judge, self.state.counters
        if not self.is_due(self.job.validate_every) or counters.validated >= self.step:
            return
        counters.validated = counters.step
        model = self.model_to_judge()
        loss = judge.loss(model)
        score = None if judge.score is None else judge.score(model)
        merit = self.job.ranks.from_first(-loss if score is None else score)
        best = counters.best is None or merit > counters.best
        if best:
            counters.best, counters.best_step, counters.waited = merit, counters.step, 0
        else:
            counters.waited += 1
        yield Validation(
            counters.step,
            loss=loss,
            perplexity=math.exp(min(loss, 700)),
            score=score,
            score_name=judge.name,
            best=best,
            samples=judge.samples(model),
            seconds=counters.seconds,
        )
        self.watch.note_validation()

    def model_to_judge(self) -> Model:
        """The model in evaluation mode: a gathered copy, where its weights are sharded (FSDP)."""
        model = self.job.model
        if self.job.config.shard and self.job.ranks.world > 1:
            model = build(model.config).to(model.device)
            load_tensors(model.state_dict(), gathered(self.job.model.state_dict()))
        return model.eval()

    def save(self) -> Saved:
        """Put a checkpoint on disk and clear older ones away; only the first process writes."""
        begin = time.monotonic()
        job, tensors = self.job, self.state.tensors()
        if job.ranks.first and self.step not in job.keeper.steps():
            numbers = self.state.numbers() | {"circumstances": job.circumstances()}
            job.keeper.save(self.step, tensors, numbers)
            job.keeper.prune(
                max(job.config.keep_checkpoints, job.config.average_last),
                self.state.counters.best_step,
            )
        job.ranks.wait()
        return Saved(self.step, time.monotonic() - begin)

    def choose_threads(self, tokens: int) -> Iterator[ThreadChange]:
        """Repeat the changes made before an interruption; after them, try what is faster."""
        job, known = self.job, [c for c in self.job.thread_changes if c.step >= self.step]
        change = next((each for each in known if each.step == self.step), None)
        may_choose = not job.config.threads and job.ranks.world == 1
        if not known and may_choose and job.model.device.type == "cpu":
            now = self.state.counters.seconds
            self.pace = self.pace or Pace(torch.get_num_threads(), n_processors(), now)
            change = self.pace.note(self.step, self.watch.update, tokens, now)
        if change and change.threads != torch.get_num_threads():
            torch.set_num_threads(change.threads)
        if change:
            yield change

    def correct_course(self) -> Iterator[Correction]:
        """Repeat the corrections made before an interruption; after them, go by the clock."""
        job, step, course = self.job, self.step, self.state.course
        known = [correction for correction in job.corrections if correction.step >= step]
        is_time = step % max(5, job.steps // 50) == 0 and step < course.total
        steps = course.total
        if known:
            steps = known[0].steps if known[0].step == step else steps
        elif job.seconds is not None and is_time:
            left = job.seconds - self.state.counters.seconds - self.seconds_to_validate()
            fitting = course.fitting_steps(step, left, self.watch.take_pace())
            steps = int(job.ranks.from_first(float(fitting)))
        if steps != course.total:
            self.state.course = course.corrected(step, steps)
            yield self.state.course.corrections[-1]

    def seconds_to_validate(self) -> float:
        """Time that validations will still take: on the way, and to choose the weights at the end."""
        config = self.job.config
        n_validations = (self.state.course.total - self.step) // self.job.validate_every
        n_candidates = 2 + (config.ema > 0) + (config.average_last > 0)
        n_fitting = FITTING if config.fit_decoding else 0
        return self.watch.validation * (
            n_validations + n_candidates * self.job.judge.effort + n_fitting
        )

    def choose_weights(self) -> Chosen:
        """Load the weights that do best on all validation examples."""
        job, scores = self.job, {}
        job.share()
        candidates = dict(self.candidates())
        for name, weights in candidates.items():
            load_tensors(job.model.state_dict(), weights)
            scores[name] = job.ranks.from_first(job.judge.rating(self.model_to_judge()))
        best = max(scores, key=scores.__getitem__)
        load_tensors(job.model.state_dict(), candidates[best])
        judge = job.judge
        return Chosen(
            self.step,
            best,
            scores,
            name=judge.name,
            n_examples=judge.n_examples,
            per_byte=judge.per_byte,
        )

    def candidates(self) -> Iterator[tuple[str, Tensors]]:
        """The weights to choose from: the last, the best on the sample, and averages."""
        job, best = self.job, self.state.counters.best_step
        yield "last", {name: tensor.clone() for name, tensor in job.model.state_dict().items()}
        if best is not None and best != self.step and (checkpoint := job.keeper.at(best)):
            yield f"best, of step {best}", checkpoint.tensors("weights")
        if self.state.average is not None:
            yield "moving average", self.state.average.tensors
        steps = job.keeper.steps()[-job.config.average_last :] if job.config.average_last else []
        several = [kept.tensors("weights") for step in steps if (kept := job.keeper.at(step))]
        if len(several) > 1:
            yield f"average of {len(several)} checkpoints", mean_weights(several)
