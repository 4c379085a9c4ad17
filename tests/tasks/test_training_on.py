"""A run that has ended: it trains on when it is given more, and says so when it is not."""

import shutil
from pathlib import Path

import pytest

from clearhead.config import Given, layered
from clearhead.errors import FolderError
from clearhead.folder import RunFolder
from clearhead.tasks import TASKS
from clearhead.tasks.fit import fit
from clearhead.training import Chosen, Note, StepReport
from tasks.small import small_config, trained, write_reviews


@pytest.fixture
def given(tmp_path: Path) -> Given:
    config = small_config(write_reviews(tmp_path / "reviews.tsv"))
    config["train"] = {"validate_every": 2, "threads": 1}
    return config


def with_budget(given: Given, budget: str) -> Given:
    return layered(given, {"train": {"budget": budget}})


def weights(run: Path) -> bytes:
    return (run / "weights.safetensors").read_bytes()


def step_of(reports: list) -> list[int]:
    return [report.step for report in reports if isinstance(report, StepReport)]


@pytest.mark.parametrize(
    ("before", "after"),
    [("5 steps", "12 steps"), ("1 epoch", "2 epochs"), ("1s", "2s"), ("5 steps", "2s")],
)
def test_a_run_that_has_ended_trains_on_from_its_last_step_when_it_is_given_more(
    before, after, given, tmp_path
):
    run = tmp_path / "run"
    last = step_of(trained("classification", with_budget(given, before), run))[-1]
    reports = trained("classification", with_budget(given, after), run)
    steps = step_of(reports)
    assert steps == list(range(last + 1, steps[-1] + 1))
    assert steps[-1] > last
    assert isinstance(reports[-1], Chosen)
    assert RunFolder(run).config().train.budget == after
    rates = [report.learning_rate for report in reports if isinstance(report, StepReport)]
    assert max(rates) > rates[-1]  # it rose anew, and fell


def test_a_course_that_is_interrupted_ends_with_the_weights_of_one_that_is_not(given, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for run in (whole, cut):
        trained("classification", with_budget(given, "5 steps"), run)
    trained("classification", with_budget(given, "14 steps"), whole)
    for number in (3, 1, 5, 99):  # updates until it is stopped
        for report in fit(TASKS["classification"], with_budget(given, "14 steps"), cut):
            number -= isinstance(report, StepReport)
            if not number:
                break
    assert weights(cut) == weights(whole)


@pytest.mark.parametrize("asked", ["5 steps", "3 steps", ""])
def test_a_run_that_has_ended_and_is_asked_for_no_more_says_what_to_type(asked, given, tmp_path):
    run = tmp_path / "run"
    trained("classification", with_budget(given, "5 steps"), run)
    before = weights(run)
    told = trained(
        "classification", with_budget(given, asked) if asked else {"data": given["data"]}, run
    )
    assert [type(report) for report in told] == [Note]
    assert f"{run} has ended (it had {asked or '5 steps'})" in told[0].text
    assert f'clearhead train {run} --budget "10 steps"' in told[0].text
    assert weights(run) == before


def test_a_run_without_checkpoints_cannot_be_trained_on(given, tmp_path):
    run = tmp_path / "run"
    trained("classification", with_budget(given, "5 steps"), run)
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(FolderError, match="holds no checkpoint") as error:
        trained("classification", with_budget(given, "9 steps"), run)
    assert f"--from {run}" in error.value.advice
