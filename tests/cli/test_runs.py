"""Run folders kept in order: listed, told about, made small, deleted; one that has not ended can be used."""

import json
from pathlib import Path

import pytest

from clearhead import load
from clearhead.cli.main import main
from clearhead.folder import RunFolder
from clearhead.tasks import TASKS
from clearhead.tasks.fit import fit
from clearhead.tasks.runs import Ended
from clearhead.training import Saved
from tasks.random_runs import random_folder
from tasks.small import small_config, trained, write_reviews


@pytest.fixture
def reviews(tmp_path: Path) -> dict:
    return small_config(write_reviews(tmp_path / "reviews.tsv"), steps=8)


@pytest.fixture
def unended(reviews: dict, tmp_path: Path) -> Path:
    """A run that was stopped right after its first checkpoint."""
    run = tmp_path / "runs" / "unended"
    for report in fit(TASKS["classification"], reviews, run):
        if isinstance(report, Saved):
            break
    return run


def test_runs_are_listed_with_task_size_score_and_disk_the_newest_first(
    reviews, unended, tmp_path, capsys
):
    trained("classification", reviews, tmp_path / "runs" / "mood")
    (tmp_path / "runs" / "notes").mkdir()
    assert main(["runs", str(tmp_path / "runs")]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["run", "task", "weights", "validation", "changed", "disk"]
    assert first.startswith(f"{tmp_path}/runs/mood")
    assert "accuracy " in first
    assert "not ended, step 4" in second
    assert main(["runs", str(tmp_path / "runs"), "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [run["ended"] for run in told] == [True, False]
    assert told[0]["bytes"] == RunFolder(tmp_path / "runs" / "mood").size()
    assert told[0]["parameters"] == sum(
        weight.numel() for weight in load(told[0]["path"]).model.parameters()
    )


def test_a_folder_that_is_not_there_is_your_input(capsys):
    assert main(["runs", "nowhere"]) == 1
    assert "There is no folder nowhere" in capsys.readouterr().err


def test_info_tells_programs_all_settings(tmp_path, capsys):
    run = random_folder(tmp_path / "run", "translation", "encoder-decoder")
    assert main(["info", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["config"] == json.loads(RunFolder(run).config().model_dump_json())
    assert told["task"] == "translation"


def test_a_run_that_has_not_ended_says_so_and_can_be_used_all_the_same(unended, capsys):
    assert main(["classify", str(unended), "a lovely film"]) == 1
    told = capsys.readouterr().err
    assert f"{unended} has not ended: 4 of 8 steps are saved." in told
    assert "--checkpoint last" in told
    for checkpoint in ("last", "4"):
        assert main(["classify", str(unended), "a lovely film", "--checkpoint", checkpoint]) == 0
        assert capsys.readouterr().out.strip() in ("good", "bad")
    assert main(["classify", str(unended), "a lovely film", "--checkpoint", "5"]) == 1
    assert "There are: last, 4." in capsys.readouterr().err


def test_the_last_checkpoint_of_a_run_that_has_ended_is_its_last_weights(reviews, tmp_path):
    run = tmp_path / "run"
    trained("classification", reviews, run)
    texts = ["the film was lovely", "the book was dull"]
    last = load(run, checkpoint="last").classify(texts)
    assert last == load(run, checkpoint="8").classify(texts)
    assert last != load(run, checkpoint="4").classify(texts)


def test_a_run_without_its_checkpoints_answers_as_before(reviews, tmp_path, capsys):
    run = tmp_path / "run"
    trained("classification", reviews, run)
    before = load(run).classify("the film was lovely")
    n_bytes = RunFolder(run).size()
    assert main(["rm", str(run), "--checkpoints"]) == 0
    assert capsys.readouterr().out.startswith("Freed ")
    assert RunFolder(run).size() < n_bytes / 2
    assert load(run).classify("the film was lovely") == before
    assert main(["verify", str(run)]) == 0


def test_a_run_is_deleted_only_when_that_is_said_aloud(tmp_path, capsys):
    run = random_folder(tmp_path / "run", "translation", "encoder-decoder")
    assert main(["rm", str(run)]) == 1
    assert "--yes" in capsys.readouterr().err
    with RunFolder(run).lock():
        pass
    assert main(["rm", str(run), "--yes"]) == 0
    assert list(tmp_path.iterdir()) == []
    assert main(["rm", str(tmp_path), "--yes"]) == 1
    assert tmp_path.exists()


LOSSES = [
    ("still learning", (5.0, 4.0, 3.0, 2.5, 2.2, 2.0)),
    ("still learning", (5.0, 4.0, 3.0, 2.5, 2.2, 2.0, 1.99, 1.98)),
    ("nearly stopped", (5.0, 4.0, 3.0, 2.99, 2.98, 2.97)),
    ("by heart", (5.0, 4.0, 3.0, 3.1, 3.2, 3.4)),
]
STEPS = (100, 200, 300, 400, 500, 595, 598, 600)
"""Every so often, and a few more at the end, which do not make its last quarter."""


@pytest.mark.parametrize(("learning", "losses"), LOSSES)
def test_the_end_of_a_training_tells_what_was_reached_and_what_would_help(learning, losses):
    end = Ended(
        600, weights="last", scores={"last": 35.2}, name="BLEU", n_examples=1014, unit="pairs",
        epochs=5.4, seconds=585.0, validations=tuple(zip(STEPS, losses, strict=False)),
    )  # fmt: skip
    told = str(end)
    assert "BLEU 35.20 on 1,014 held-out pairs" in told
    assert "600 steps (5.4 epochs) in 9 min 45 s" in told
    assert learning in told
    assert end.is_learning == (learning == "still learning")
