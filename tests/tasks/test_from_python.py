"""Training from Python: `clearhead.train` is what `clearhead train` does, and answers with what can be used."""

import os
import signal
from pathlib import Path

import pytest

import clearhead
from clearhead import Classifier, Filler, Writer
from clearhead.cli.main import main
from clearhead.config import Given
from clearhead.errors import ConfigError
from clearhead.folder import RunFolder
from clearhead.tasks.training import end
from clearhead.training import Chosen, StepReport, Validation
from clearhead.training.plan import Plan
from tasks.small import small_config, write_prose, write_reviews


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    return write_reviews(tmp_path / "reviews.tsv")


@pytest.fixture
def small(reviews: Path) -> Given:
    return small_config(reviews)


def test_train_answers_with_what_load_answers_with(
    reviews: Path, small: Given, tmp_path: Path
) -> None:
    into = tmp_path / "run"
    trained = clearhead.train(reviews, into=into, task="classification", settings=small)
    loaded = clearhead.load(into)
    assert isinstance(trained, Classifier)
    assert isinstance(loaded, Classifier)
    assert trained.classify("the film was lovely") == loaded.classify("the film was lovely")


def test_the_command_line_and_python_train_the_same_weights(
    reviews: Path, small: Given, tmp_path: Path
) -> None:
    asked = {"task": "classification", "size": "tiny", "budget": "3 steps"}
    clearhead.train(reviews, into=tmp_path / "a", **asked)
    options = [text for name, value in asked.items() for text in (f"--{name}", value)]
    assert main(["train", str(reviews), "--into", str(tmp_path / "b"), "-q", *options]) == 0
    a, b = (RunFolder(tmp_path / name).model().state_dict() for name in "ab")
    assert all((a[name] == b[name]).all() for name in a)


def test_watching_yields_the_plan_and_every_report_and_trains_the_same(
    reviews: Path, small: Given, tmp_path: Path
) -> None:
    seen = list(
        clearhead.watch(reviews, into=tmp_path / "run", task="classification", settings=small)
    )
    steps = [report.step for report in seen if isinstance(report, StepReport)]
    assert isinstance(seen[0], Plan)
    assert steps == [1, 2, 3, 4, 5, 6]
    assert isinstance(seen[-1], Chosen)
    assert all(str(report) and "(step=" not in str(report) for report in seen)
    assert "validation loss" in str(next(each for each in seen if isinstance(each, Validation)))
    assert isinstance(clearhead.load(tmp_path / "run"), Classifier)


def test_a_loop_that_is_left_can_be_resumed(reviews: Path, small: Given, tmp_path: Path) -> None:
    asked = {"into": tmp_path / "run", "task": "classification", "settings": small}
    for report in clearhead.watch(reviews, **asked):
        if isinstance(report, StepReport) and report.step == 5:
            break
    assert isinstance(clearhead.train(tmp_path / "run"), Classifier)
    clearhead.train(reviews, **{**asked, "into": tmp_path / "whole"})
    a, b = (RunFolder(tmp_path / name).model().state_dict() for name in ("run", "whole"))
    assert all((a[name] == b[name]).all() for name in a)


@pytest.mark.parametrize(("objective", "kind"), [("masked", Filler), ("next", Writer)])
def test_pretrain_answers_with_what_its_objective_makes(
    objective: str, kind: type, small: Given, tmp_path: Path
) -> None:
    prose = write_prose(tmp_path / "prose.txt")
    into = tmp_path / objective
    assert type(clearhead.pretrain(prose, into=into, objective=objective, settings=small)) is kind


def test_a_denoiser_has_no_use_of_its_own_and_can_be_fine_tuned(
    small: Given, tmp_path: Path
) -> None:
    prose, pairs = write_prose(tmp_path / "prose.txt"), tmp_path / "pairs.tsv"
    pairs.write_text("the film\tthe song\nthe book\tthe game\n" * 20)
    base = tmp_path / "base"
    assert clearhead.pretrain(prose, into=base, objective="denoise", settings=small) is None
    settings = {"train": small["train"]}
    tuned = clearhead.train(pairs, into=tmp_path / "tuned", start=base, settings=settings)
    assert isinstance(tuned, clearhead.Translator)
    assert RunFolder(tmp_path / "tuned").plan().inherited


def test_ctrl_c_stops_cleanly_and_is_then_felt(reviews: Path, small: Given, tmp_path: Path) -> None:
    asked = {"into": tmp_path / "run", "task": "classification", "settings": small}

    def interrupted():
        for report in clearhead.watch(reviews, **asked):
            if isinstance(report, StepReport) and report.step == 2:
                os.kill(os.getpid(), signal.SIGINT)
            yield report

    with pytest.raises(KeyboardInterrupt):
        end(interrupted())
    assert RunFolder(tmp_path / "run").checkpoints.newest().step == 3
    assert isinstance(clearhead.train(tmp_path / "run"), Classifier)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"task": "poetry"}, "task = poetry"),
        ({"size": "huge"}, "no size huge"),
        ({"budget": "3q"}, "Invalid budget"),
        ({"objective": "guess"}, "objective = guess"),
        ({"settings": {"train": {"sed": 1}}}, "no setting train.sed"),
    ],
)
def test_what_cannot_be_is_refused_before_there_is_a_folder(
    asked: dict[str, object], message: str, reviews: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        list(clearhead.watch(reviews, into=tmp_path / "run", **asked))
    assert not (tmp_path / "run").exists()
