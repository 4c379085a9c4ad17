"""Watching a training: what is told, once, in words and in a picture of any width."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from clearhead.cli.display import HEIGHT, LiveDisplay, PlainDisplay, duration, plot, train_and_watch
from clearhead.config import Config
from clearhead.tasks.runs import Ended
from clearhead.training import Correction, StepReport, Stopped, Validation
from clearhead.training.plan import Plan


def step(number: int, seconds: float, steps: int = 100) -> StepReport:
    return StepReport(
        step=number, steps=steps, loss=2.0, tokens=500, seconds=seconds, epoch=0.5,
        learning_rate=0.001, gradient=1.0,
    )  # fmt: skip


def validation(number: int, loss: float, best: bool) -> Validation:
    return Validation(
        step=number, loss=loss, perplexity=2.0, score_name="BLEU", score=7.0, best=best,
        samples=(("a cat", "eine Katze"),), seconds=1.0,
    )  # fmt: skip


REPORTS = [
    Plan(Config(), steps=100, seconds=None, reasons=("tiny: fast enough",)),
    step(1, 1.0),
    step(2, 2.0),
    validation(2, 1.5, True),
    Stopped(3, "a signal", 15),
]


def shown(kind: type[PlainDisplay], reports: list, width: int = 100) -> tuple[PlainDisplay, str]:
    """A display that has seen the reports, and all that it printed."""
    console = Console(file=io.StringIO(), width=width, soft_wrap=kind is PlainDisplay)
    display = kind(Path("runs/a"), console)
    for report in reports:
        display.show(report)
    if isinstance(display, LiveDisplay):
        console.print(display.drawn())
    return display, console.file.getvalue()


@pytest.mark.parametrize("kind", [PlainDisplay, LiveDisplay])
def test_each_report_that_deserves_a_sentence_is_told(kind: type[PlainDisplay]) -> None:
    display, told = shown(kind, REPORTS)
    assert "- tiny: fast enough" in told
    assert "Resume with: clearhead train runs/a" in told
    assert display.stopped_by == 15
    assert display.speed == 500
    assert "validation loss 1.500" in told
    assert "BLEU 7.0" in told
    assert "→ eine Katze" in told


@pytest.mark.parametrize("rank", ["0", "1"])
def test_of_processes_that_train_together_the_first_speaks_for_all(
    rank: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr("clearhead.cli.display.fit", lambda *given: iter(REPORTS[:-1]))
    train_and_watch("translation", {}, tmp_path)
    assert ("validation loss 1.500" in capsys.readouterr().err) is (rank == "0")


@pytest.mark.parametrize("kind", [PlainDisplay, LiveDisplay])
def test_a_new_number_of_steps_is_a_sentence_only_when_it_halves_or_doubles(kind) -> None:
    few = [Correction(n, 0.1, steps) for n, steps in enumerate((110, 80, 130, 199, 201, 110, 90))]
    _, told = shown(kind, [REPORTS[0], *few])
    assert told.count("fit the time") == 2
    assert "201 steps fit the time; this machine is faster now" in told
    assert "90 steps fit the time; this machine is slower now" in told


@pytest.mark.parametrize("kind", [PlainDisplay, LiveDisplay])
def test_under_a_budget_the_time_left_is_what_is_left_of_it(kind) -> None:
    plan = Plan(Config(), steps=100, seconds=180.0, reasons=())
    assert "1 min 00 s left" in shown(kind, [plan, step(1, 120.0)])[1]


def test_what_was_spent_before_the_first_step_is_part_of_the_budget() -> None:
    plan = Plan(Config(), steps=100, seconds=180.0, reasons=())
    display, _ = shown(LiveDisplay, [plan])
    display.begin -= 60.0
    for report in (step(1, 0.0), step(2, 20.0)):
        display.show(report)
    assert display.time_left(step(2, 20.0)) == "1 min 40 s"
    assert display.time_left(step(100, 90.0)) == "0 s", "the last step is the end"


def test_the_end_is_told_below_the_picture() -> None:
    end = Ended(
        3, weights="last", scores={"last": 7.0}, name="BLEU", n_examples=9, unit="pairs", epochs=1.0,
        seconds=3.0, validations=((2, 2.0),),
    )  # fmt: skip
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    display = LiveDisplay(Path("runs/a"), console)
    with display.live:
        for report in (*REPORTS[:-1], end):
            display.show(report)
    told = console.file.getvalue()
    assert told.rindex("clearhead evaluate runs/a") > told.rindex("→ eine Katze")


def test_the_speed_of_a_classifier_is_told_in_texts() -> None:
    plan = Plan(Config(task="classification"), steps=100, seconds=None, reasons=())
    assert "500 texts/s" in shown(LiveDisplay, [plan, step(1, 1.0), step(2, 2.0)])[1]


@pytest.mark.parametrize("width", [20, 60, 80, 120, 200])
def test_the_picture_keeps_within_the_terminal(width: int) -> None:
    steps = [step(number, number / 7) for number in range(1, 60)]
    _, told = shown(LiveDisplay, [REPORTS[0], *steps, validation(59, 1.5, True)], width)
    drawn = told.splitlines()[1:]
    assert max(map(len, drawn)) <= width


losses = st.lists(st.floats(0, 100), min_size=1, max_size=300)


@given(losses, st.lists(st.tuples(st.integers(0, 400), st.floats(0, 100))), st.integers(1, 80))
def test_a_curve_has_dots_in_every_column_up_to_the_last_step_and_none_beyond(
    values: list[float], validations: list[tuple[int, float]], width: int
) -> None:
    rows, low, high = plot(list(enumerate(values)), validations, 2 * len(values) - 2, width=width)
    assert [len(row) for row in rows] == [width] * HEIGHT
    assert low <= max(1e-9, min(values)) <= high
    if not validations and len(values) > 1:
        dotted = [any(row[column] != " " for row in rows) for column in range(width)]
        assert dotted == sorted(dotted, reverse=True)
        assert abs(2 * sum(dotted) - width) <= 2


@pytest.mark.parametrize(
    ("seconds", "told"), [(49.7, "50 s"), (120.0, "2 min 00 s"), (7500.4, "2 h 05 min")]
)
def test_a_time_is_told_in_the_units_that_matter(seconds: float, told: str) -> None:
    assert duration(seconds) == told
