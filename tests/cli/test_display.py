"""Watching a training: what is told, once, in words and in a picture of any width."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from clearhead.cli.display import LiveDisplay, PlainDisplay, plot, time_left
from clearhead.train import Chosen, StepReport, Stopped, Validation


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
    step(1, 1.0),
    step(2, 2.0),
    validation(2, 1.5, True),
    Chosen(100, "last", {"last": 7.0}),
    Stopped(3, "a signal", 15),
]


@pytest.mark.parametrize("kind", [PlainDisplay, LiveDisplay])
def test_each_report_that_deserves_a_sentence_is_told(kind: type[PlainDisplay]) -> None:
    console = Console(file=io.StringIO(), width=100, soft_wrap=True)
    display = kind(Path("runs/a"), console)
    if isinstance(display, LiveDisplay):
        from rich.live import Live

        display.live = Live(console=console, auto_refresh=False)
    for report in REPORTS:
        display.show(report)
    told = console.file.getvalue()
    assert "Weights in use: last (last 7.00). The run is in runs/a" in told
    assert "Go on with: clearhead train runs/a" in told
    assert display.stopped_by == 15
    assert display.speed == 500
    if kind is PlainDisplay:
        assert "update 2: validation loss 1.500, BLEU 7.0 (best so far)" in told
        assert "  → eine Katze" in told


@given(st.lists(st.floats(0, 100), min_size=1, max_size=300), st.integers(1, 80))
def test_a_curve_is_as_wide_as_there_is_room_and_as_high_as_asked(
    values: list[float], width: int
) -> None:
    rows = plot(values, width, 6)
    assert [len(row) for row in rows] == [min(width, len(values))] * 6
    assert all(column != " " for column in rows[-1])


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.5, "50 s"), (1.2, "2 min 00 s"), (75.0, "2 h 05 min")]
)
def test_the_time_left_is_told_in_the_units_that_matter(seconds: float, told: str) -> None:
    assert time_left(step(1, seconds, 101)) == told
