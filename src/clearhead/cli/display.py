"""Training as one watches it, on stderr: a live picture on a terminal, plain lines in a pipe."""

import math
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Column, Table
from rich.text import Text

from clearhead.cli.options import USES
from clearhead.config import Given
from clearhead.errors import ConfigError
from clearhead.machine import told_by_torchrun
from clearhead.tasks import TASKS
from clearhead.tasks.fit import fit
from clearhead.tasks.runs import Ended
from clearhead.training import (
    Correction,
    Note,
    Report,
    Samples,
    StepReport,
    Stopped,
    ThreadChange,
    Validation,
)
from clearhead.training.plan import Plan, duration

HEIGHT = 6
"""Lines of the loss curve."""
WARM_UP = 3
"""Steps that the curve leaves out where there are more: the first losses dwarf all others."""
SMOOTHING = 0.95
BRAILLE = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bits of the dots in a Braille character (from U+2800), column by column, top to bottom."""


class Display:
    """What the reports have told so far; both displays draw from it."""

    def __init__(self, folder: Path, console: Console) -> None:
        self.folder, self.console = folder, console
        self.plan: Plan | None = None
        self.step: StepReport | None = None
        self.validations: list[Validation] = []
        self.losses: list[tuple[int, float]] = []
        """Training losses, smoothed, each after its step."""
        self.speed = 0.0
        self.steps_told = 0
        self.stopped_by: int | None = None
        self.tells_next = True
        self.begin, self.setup = time.monotonic(), 0.0

    def take_in(self, report: Plan | Report) -> str:
        """Remember what a report tells; the sentence for one that deserves it."""
        match report:
            case Plan():
                self.plan, self.steps_told = report, report.steps
            case StepReport():
                self.measure(report)
                return ""
            case Validation():
                self.validations.append(report)
            case Correction() if not 1 / 2 < report.steps / max(1, self.steps_told) < 2:
                pace = "faster" if report.steps > self.steps_told else "slower"
                self.steps_told = report.steps
                return f"{report}; this machine is {pace} now than when it was measured"
            case Ended():
                return f"\n{report}{self.what_next(report) if self.tells_next else ''}"
            case Stopped() if report.signal is not None:
                self.stopped_by = report.signal
                return f"Stopped after step {report.step:,}. Resume with: clearhead train {self.folder}"
            case Note() | Stopped() | ThreadChange(is_faster=True):
                pass
            case _:
                return ""
        return str(report)

    def measure(self, report: StepReport) -> None:
        """The speed and the loss, each smoothed (an exponential moving average)."""
        if self.step is None:  # reading and measuring are a part of the budget
            own = report.seconds if report.step == 1 else 0.0
            self.setup = max(0.0, time.monotonic() - self.begin - own)
        elif report.seconds > self.step.seconds:
            speed = report.tokens / (report.seconds - self.step.seconds)
            self.speed += (1 - SMOOTHING if self.speed else 1) * (speed - self.speed)
        self.step = report
        before = self.losses[-1][1] if self.losses else 0.0
        weight = max(2 * (1 - SMOOTHING), 1 / (len(self.losses) + 1))
        self.losses.append((report.step, before + weight * (report.loss - before)))

    @property
    def unit(self) -> str:
        """What the model is asked to predict, in the plural."""
        return TASKS[self.plan.config.task].predicted if self.plan else "tokens"

    @property
    def samples(self) -> Samples:
        """What the model answered at the last validation."""
        return self.validations[-1].samples if self.validations else ()

    def what_next(self, ended: Ended) -> str:
        """Where the run is, and commands to type next."""
        task = self.plan.config.task if self.plan else "translation"
        text = shlex.quote(self.samples[0][0] if self.samples else "…")
        commands = [USES[task].format(run=self.folder, text=text)]
        if task != "pretraining":
            commands += [
                f"clearhead look {self.folder} {text} -o look.html",
                f"clearhead evaluate {self.folder} TEST-FILES",
            ]
        if ended.is_learning and self.plan and self.plan.seconds:
            more = f"{max(1, round(3 * self.plan.seconds / 60))}m"
            commands.append(f"clearhead train {self.folder} --budget {more}")
        return "\n  ".join([f"\n\nThe run is in {self.folder}. Try:", *commands])

    def time_left(self, report: StepReport) -> str:
        """How long the rest takes: what is left of the budget, or at the pace so far."""
        budget = self.plan.seconds if self.plan else None
        n_left = report.steps - report.step
        if budget is None or not n_left:
            return duration(report.seconds / report.step * n_left)
        return duration(max(0.0, budget - self.setup - report.seconds))


class PlainDisplay(Display):
    """Plain lines, for logs and pipes."""

    every = 20.0
    """Seconds between two lines about steps."""
    told = 0.0

    def progress(self, what: str, done: int, total: int | None) -> None:
        if time.monotonic() - self.told > self.every or not done:
            self.told = time.monotonic()
            self.console.print(f"{doing(what, done, total)} …")

    def show(self, report: Plan | Report) -> None:
        sentence = self.take_in(report)
        is_due = time.monotonic() - self.told > self.every
        if isinstance(report, StepReport) and (is_due or report.step == 1):
            self.told = time.monotonic()
            speed = f", {self.speed:,.0f} {self.unit}/s" if self.speed else ""
            sentence = f"{report}{speed}, {self.time_left(report)} left"
        if sentence:
            self.console.print(sentence)
        for source, answer in report.samples if isinstance(report, Validation) else ():
            self.console.print(f"    {source}\n  → {answer}")


class LiveDisplay(Display):
    """A picture that is drawn anew a few times a second."""

    def __init__(self, folder: Path, console: Console) -> None:
        super().__init__(folder, console)
        self.doing, self.since = "starting", time.monotonic()
        self.spinner = Spinner("dots", style="cyan")
        self.live = Live(console=console, refresh_per_second=4, get_renderable=self.drawn)

    def progress(self, what: str, done: int, total: int | None) -> None:
        if not done:
            self.since = time.monotonic()
        self.doing = doing(what, done, total)

    def show(self, report: Plan | Report) -> None:
        sentence = self.take_in(report)
        if isinstance(report, Ended):  # what is left to say stands below the picture
            self.live.stop()
        if sentence and not isinstance(report, Validation):
            self.console.print(sentence)

    def drawn(self) -> RenderableType:
        if self.step is None:
            self.spinner.text = Text(f"{self.doing}, {duration(time.monotonic() - self.since)}")
            return self.spinner
        parts: list[RenderableType] = ["", self.bar(self.step), self.numbers(self.step)]
        width = self.console.width - 8
        if width > 20 and len(self.losses) > 1:
            parts.append(Padding(self.curve(width), (1, 0, 0, 0)))
        if self.samples:
            parts.append(drawn_samples(self.samples))
        return Group(*parts)

    def bar(self, report: StepReport) -> RenderableType:
        columns = Column(no_wrap=True), Column(ratio=1), Column(no_wrap=True, justify="right")
        row = Table.grid(*columns, padding=(0, 2), expand=True)
        row.add_row(
            f"step {report.step:,} of {report.steps:,}",
            ProgressBar(report.steps, report.step, complete_style="cyan", finished_style="green"),
            f"{self.time_left(report)} left",
        )
        return row

    def numbers(self, report: StepReport) -> RenderableType:
        learning = [
            f"epoch {report.epoch:.1f}",
            f"loss {self.losses[-1][1]:.3f}",
            f"{self.speed:,.0f} {self.unit}/s" if self.speed else "",
            f"learning rate {report.learning_rate:.2g}",
        ]
        judged = []
        if self.validations:
            now = self.validations[-1]
            judged.append(f"validation loss {now.loss:.3f}")
            best = [each.score for each in self.validations if each.best and each.score is not None]
            if now.score is not None and best:
                judged += [f"{now.score_name} {now.score:.1f}", f"best {best[-1]:.1f}"]
            elif self.unit == "tokens":
                judged.append(f"perplexity {now.perplexity:.1f}")
        rows = [Text(" · ".join(filter(None, learning))), Text(" · ".join(judged), style="bold")]
        return Group(*rows)

    def curve(self, width: int) -> RenderableType:
        assert self.step is not None
        losses = self.losses[WARM_UP:] if len(self.losses) > 2 * WARM_UP else self.losses
        validations = [(each.step, each.loss) for each in self.validations]
        rows, low, high = plot(losses, validations, self.step.steps, width=width)
        table = Table.grid(padding=(0, 1))
        for number, row in enumerate(rows):
            label = {0: f"{high:.2f}", HEIGHT - 1: f"{low:.2f}"}.get(number, "")
            line = Text(row, style="cyan")
            line.highlight_regex("●", "bold magenta")
            table.add_row(Text(label.rjust(6), style="dim"), line)
        axis = f"loss, logarithmic{'; ● validation' if self.validations else ''}"
        table.add_row("", Text(axis, style="dim"))
        return table


def drawn_samples(samples: Samples) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    for source, answer in samples:
        table.add_row(Text(" "), Text(source, style="dim", overflow="ellipsis", no_wrap=True))
        table.add_row(Text("→"), Text(answer, overflow="ellipsis", no_wrap=True))
    return Padding(table, (1, 0, 0, 0))


@contextmanager
def begun_display(folder: Path, quiet: bool) -> Iterator[PlainDisplay | LiveDisplay]:
    """The display that fits where stderr goes."""
    console = Console(stderr=True, highlight=False, markup=False, quiet=quiet)
    if quiet or not console.is_terminal:
        console.soft_wrap = True
        yield PlainDisplay(folder, console)
        return
    display = LiveDisplay(folder, console)
    with display.live:
        yield display


def train_and_watch(
    task: str,
    given: Given,
    folder: Path,
    *,
    tensorboard: bool = False,
    quiet: bool = False,
    tells_next: bool = True,
) -> None:
    """Train with somebody watching; a signal that stops it is told by the exit code.

    Of the processes that torchrun starts, the first speaks for all.
    """
    is_first = told_by_torchrun("RANK", 0) == 0
    with begun_display(folder, quiet or not is_first) as display:
        display.tells_next = tells_next
        reports = fit(TASKS[task], given, folder, display.progress)
        for report in with_tensorboard(reports, folder) if tensorboard and is_first else reports:
            display.show(report)
    if display.stopped_by is not None:
        raise typer.Exit(128 + display.stopped_by)


def with_tensorboard(reports: Iterator[Plan | Report], folder: Path) -> Iterator[Plan | Report]:
    """The reports as they are, their numbers also written for TensorBoard."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError(
            "--tensorboard needs the package tensorboard, which is not installed.",
            "Install it with: pip install tensorboard",
        ) from None
    with SummaryWriter(str(folder / "tensorboard")) as writer:
        for report in reports:
            if isinstance(report, StepReport | Validation):
                for name, value in report.line().items():
                    if isinstance(value, float):
                        writer.add_scalar(f"{report.line()['kind']}/{name}", value, report.step)
            yield report


def plot(
    losses: Sequence[tuple[int, float]],
    validations: Sequence[tuple[int, float]],
    steps: int,
    *,
    width: int,
) -> tuple[list[str], float, float]:
    """Losses, each after its step, on a logarithmic scale, as rows of Braille dots.

    There is room for all steps that are planned. Validations are shown as ●. The other values are
    the least and the greatest loss.
    """
    both = [max(loss, 1e-9) for _, loss in (*losses, *validations)]
    low, high = min(both), max(both)
    first, n_columns, n_rows = losses[0][0], 2 * width, 4 * HEIGHT

    def place(step: int, loss: float) -> tuple[int, int]:
        share = math.log(high / max(loss, 1e-9)) / (math.log(high / low) or 1.0)
        along = (step - first) / max(1, steps - first)
        return round(min(1.0, max(0.0, along)) * (n_columns - 1)), round(share * (n_rows - 1))

    cells = [[0] * width for _ in range(HEIGHT)]
    places = [place(*each) for each in losses]
    for (x, y), (next_x, next_y) in zip(places, [*places[1:], places[-1]], strict=True):
        for column in range(x, next_x + 1):
            to = next_y if column == next_x else y + (next_y - y) // (next_x - column)
            for row in range(min(y, to), max(y, to) + 1):
                cells[row // 4][column // 2] |= BRAILLE[column % 2][row % 4]
            y = to  # the line goes on from here
    rows = [[chr(0x2800 + bits) if bits else " " for bits in row] for row in cells]
    for x, y in (place(*each) for each in validations):
        rows[y // 4][x // 2] = "●"
    return ["".join(row) for row in rows], low, high


def doing(what: str, done: int, total: int | None) -> str:
    return f"{what}{f' {done:,}' if done else ''}{f' of {total:,}' if total else ''}"
