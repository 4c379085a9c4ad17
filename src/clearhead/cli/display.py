"""Training as one watches it, on stderr: a live picture on a terminal, plain lines in a pipe."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from clearhead.config import Given
from clearhead.tasks import TASKS
from clearhead.tasks.fit import fit
from clearhead.tasks.inherit import Inherited
from clearhead.train import (
    Chosen,
    Correction,
    Note,
    Report,
    Samples,
    StepReport,
    Stopped,
    Validation,
)
from clearhead.train.plan import Plan

LEVELS = " ▁▂▃▄▅▆▇█"
HEIGHT, WIDTH = 6, 64
SMOOTHING = 0.95


class Display:
    """What the reports have told so far; both displays draw from it."""

    def __init__(self, folder: Path, console: Console) -> None:
        self.folder, self.console = folder, console
        self.step: StepReport | None = None
        self.validation: Validation | None = None
        self.best: Validation | None = None
        self.losses: list[float] = []
        self.speed = 0.0
        self.stopped_by: int | None = None

    def take_in(self, report: Plan | Report) -> None:
        """Remember what a report tells."""
        if isinstance(report, StepReport):
            if self.step is not None and report.seconds > self.step.seconds:
                speed = report.tokens / (report.seconds - self.step.seconds)
                self.speed += (1 - SMOOTHING if self.speed else 1) * (speed - self.speed)
            self.step = report
            self.losses.append(report.loss)
        elif isinstance(report, Validation):
            self.validation = report
            self.best = report if report.best else self.best
        elif isinstance(report, Stopped):
            self.stopped_by = report.signal

    def sentence(self, report: Plan | Report) -> str | None:
        """The sentence for a report that deserves one."""
        match report:
            case Plan():
                return "\n".join(f"- {reason}" for reason in report.reasons)
            case Validation():
                score = "" if report.score is None else f", {report.score_name} {report.score:.1f}"
                best = " (best so far)" if report.best else ""
                return f"update {report.step:,}: validation loss {report.loss:.3f}{score}{best}"
            case Correction():
                return (
                    f"update {report.step:,}: the pace changed; "
                    f"there will be {report.steps:,} updates in all"
                )
            case Inherited():
                return str(report)
            case Note():
                return f"update {report.step:,}: {report.text}" if report.step else report.text
            case Stopped(signal=None):
                return f"update {report.step:,}: stopped, {report.reason}"
            case Stopped():
                return (
                    f"Stopped after update {report.step:,}. "
                    f"Go on with: clearhead train {self.folder}"
                )
            case Chosen():
                by_loss = self.validation is not None and self.validation.score is None
                shown = {
                    name: f"loss {-score:.3f}" if by_loss else f"{score:.2f}"
                    for name, score in report.scores.items()
                }
                scores = ", ".join(f"{name} {score}" for name, score in shown.items())
                return f"Weights in use: {report.weights} ({scores}). The run is in {self.folder}"
        return None


class PlainDisplay(Display):
    """Plain lines, for logs and pipes."""

    every = 20.0
    """Seconds between two lines about updates."""
    told = 0.0

    def progress(self, what: str, done: int, total: int | None) -> None:
        if time.monotonic() - self.told > self.every or not done:
            self.told = time.monotonic()
            self.console.print(doing(what, done, total))

    def show(self, report: Plan | Report) -> None:
        self.take_in(report)
        if isinstance(report, StepReport) and (
            time.monotonic() - self.told > self.every or report.step == 1
        ):
            self.told = time.monotonic()
            self.console.print(
                f"update {report.step:,} of {report.steps:,}, pass {report.epoch:.1f}: "
                f"loss {report.loss:.3f}, {self.speed:,.0f} tokens/s, "
                f"learning rate {report.learning_rate:.2g}, {time_left(report)} left"
            )
        elif sentence := self.sentence(report):
            self.console.print(sentence)
        if isinstance(report, Validation):
            for source, answer in report.samples:
                self.console.print(f"    {source}\n  → {answer}")


class LiveDisplay(Display):
    """A picture that is drawn anew a few times a second."""

    live: Live
    doing = "starting"

    def progress(self, what: str, done: int, total: int | None) -> None:
        self.doing = doing(what, done, total)
        self.live.update(self.drawn())

    def show(self, report: Plan | Report) -> None:
        self.take_in(report)
        if not isinstance(report, Validation) and (sentence := self.sentence(report)):
            self.live.console.print(sentence)
        self.live.update(self.drawn())

    def drawn(self) -> RenderableType:
        if self.step is None:
            return Text(self.doing)
        parts: list[RenderableType] = [
            self.bar(self.step),
            self.numbers(self.step),
            Padding(self.curve(), (1, 2, 0, 2)),
        ]
        if self.validation is not None and self.validation.samples:
            parts.append(drawn_samples(self.validation.samples))
        return Group(*parts)

    def bar(self, report: StepReport) -> RenderableType:
        row = Table.grid(padding=(0, 2))
        row.add_row(
            f"update {report.step:,} of {report.steps:,}",
            ProgressBar(report.steps, report.step, width=30),
            f"{time_left(report)} left",
        )
        return row

    def numbers(self, report: StepReport) -> RenderableType:
        row = Table.grid(padding=(0, 2))
        score = best = ""
        if self.validation is not None:
            shown = self.validation
            score = f"validation loss {shown.loss:.3f}, perplexity {shown.perplexity:.1f}"
            if shown.score is not None and self.best is not None and self.best.score is not None:
                best = f"{shown.score_name} {shown.score:.1f}, best {self.best.score:.1f}"
        row.add_row(
            f"pass {report.epoch:.1f}",
            f"loss {mean(self.losses[-20:]):.3f}",
            f"{self.speed:,.0f} tokens/s",
            f"learning rate {report.learning_rate:.2g}",
        )
        return Group(row, Text("  ".join(filter(None, [score, best])), style="bold"))

    def curve(self) -> RenderableType:
        values = self.losses[3:] or self.losses
        labels = {0: f"{max(values):.2f}", HEIGHT - 1: f"{min(values):.2f}"}
        table = Table.grid(padding=(0, 1))
        for number, line in enumerate(plot(values, WIDTH, HEIGHT)):
            label = Text(labels.get(number, ""), style="dim")
            table.add_row(label, Text(line, style="cyan"))
        return table


def drawn_samples(samples: Samples) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    for source, answer in samples:
        table.add_row(Text("  "), Text(source, style="dim", overflow="ellipsis", no_wrap=True))
        table.add_row(Text("→ "), Text(answer, overflow="ellipsis", no_wrap=True))
    return Padding(table, (1, 0, 0, 0))


@contextmanager
def watch(folder: Path) -> Iterator[PlainDisplay | LiveDisplay]:
    """The display that fits where stderr goes."""
    console = Console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:
        console.soft_wrap = True
        yield PlainDisplay(folder, console)
        return
    display = LiveDisplay(folder, console)
    with Live(console=console, refresh_per_second=4, transient=False) as display.live:
        yield display


def train_and_watch(task: str, given: Given, folder: Path, tensorboard: bool = False) -> None:
    """Train with somebody watching; a signal that stops it is told by the exit code."""
    with watch(folder) as display:
        reports = fit(TASKS[task], given, folder, display.progress)
        for report in with_tensorboard(reports, folder) if tensorboard else reports:
            display.show(report)
    if display.stopped_by is not None:
        raise typer.Exit(128 + display.stopped_by)


def with_tensorboard(reports: Iterator[Plan | Report], folder: Path) -> Iterator[Plan | Report]:
    """The reports as they are, their numbers also written for TensorBoard."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder / "tensorboard")) as writer:
        for report in reports:
            if isinstance(report, StepReport | Validation):
                for name, value in report.line().items():
                    if isinstance(value, float):
                        writer.add_scalar(f"{report.line()['kind']}/{name}", value, report.step)
            yield report


def plot(values: list[float], width: int, height: int) -> list[str]:
    """The values as columns of blocks, from their least at the bottom to their most."""
    n, width = len(values), min(width, len(values))
    columns = [mean(values[n * i // width : n * (i + 1) // width]) for i in range(width)]
    low, high = min(columns), max(columns)
    levels = [
        1 + round((value - low) / ((high - low) or 1) * (8 * height - 1)) for value in columns
    ]
    return [
        "".join(LEVELS[min(8, max(0, level - 8 * row))] for level in levels)
        for row in reversed(range(height))
    ]


def doing(what: str, done: int, total: int | None) -> str:
    return f"{what}{f' {done:,}' if done else ''}{f' of {total:,}' if total else ''} …"


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def time_left(step: StepReport) -> str:
    """How long the rest takes at the pace so far."""
    seconds = round(step.seconds / step.step * (step.steps - step.step))
    minutes, hours = seconds // 60, seconds // 3600
    if hours:
        return f"{hours} h {minutes % 60:02} min"
    return f"{minutes} min {seconds % 60:02} s" if minutes else f"{seconds} s"
