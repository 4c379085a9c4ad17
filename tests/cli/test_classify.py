"""From files to a classifier on the command line: pre-train, begin with it, classify, evaluate, fill gaps."""

import io
import json
import sys
from pathlib import Path

import pytest

from clearhead.cli.main import main
from tasks.small import write_prose, write_reviews

SMALL = [
    "--set", "model.d_model=16", "--set", "model.d_ff=16", "--set", "model.n_heads=2", "--set", "train.threads=1",
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a pre-trained run and a classifier that began with it."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.chdir(folder)
        write_prose(folder / "prose.txt")
        write_reviews(folder / "reviews.tsv")
        assert (
            main(["pretrain", "prose.txt", "--into", "runs/prose", "--budget", "3 steps", *SMALL])
            == 0
        )
        train = [
            "train",
            "reviews.tsv",
            "--task",
            "classification",
            "--from",
            "runs/prose",
            "--into",
            "runs/mood",
        ]
        assert main([*train, "--budget", "3 steps", "--set", "train.threads=1"]) == 0
        yield folder


@pytest.fixture(autouse=True)
def inside(place, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    monkeypatch.chdir(place)


def test_what_was_taken_over_is_told(place, capfd):
    train = [
        "train",
        "reviews.tsv",
        "--task",
        "classification",
        "--from",
        "runs/prose",
        "--into",
        "runs/again",
    ]
    assert main([*train, "--budget", "1 steps", "--set", "train.threads=1"]) == 0
    assert "Weights from runs/prose: " in capfd.readouterr().err


def test_a_text_gets_one_line(capsys):
    assert main(["classify", "runs/mood", "the film was good"]) == 0
    assert capsys.readouterr().out in ("good\n", "bad\n")


def test_every_line_gets_one_line_with_probabilities_or_json(capsys, monkeypatch):
    for option, columns in (("--probabilities", 3), ("--json", 1)):
        monkeypatch.setattr(
            sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"the film\n\nthe book\n")))
        )
        assert main(["classify", "runs/mood", option]) == 0
        told = capsys.readouterr()
        assert [len(line.split("\t")) for line in told.out.splitlines()] == [columns] * 3
        assert told.err == "line 2: the text is empty\n"
    assert set(json.loads(told.out.splitlines()[0])) == {"text", "labels", "probabilities", "notes"}


def test_the_likeliest_labels_are_shown_as_many_as_asked_for(capsys):
    for n in (1, 2, 9):
        assert main(["classify", "runs/mood", "the film was good", "--top", str(n)]) == 0
        label, *likeliest = capsys.readouterr().out.rstrip("\n").split("\t")
        shares = [float(each.split()[1]) for each in likeliest]
        assert len(shares) == min(n, 2)
        assert likeliest[0].startswith(f"{label} ")
        assert shares == sorted(shares, reverse=True)


def test_evaluate_tells_scores_labels_and_confusions(place, capsys):
    assert main(["evaluate", "runs/mood", "reviews.tsv", "--output", "said.txt"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("accuracy ")
    assert "calibration error before" in told
    assert "right ↓  said →" in told
    assert len((place / "said.txt").read_text().splitlines()) == 120
    assert main(["evaluate", "runs/mood", "reviews.tsv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["texts"] == 120


def test_a_label_that_was_never_learned_is_your_input(place, capsys):
    (place / "odd.tsv").write_text("odd\tthe film\n")
    assert main(["evaluate", "runs/mood", "odd.tsv"]) == 1
    assert "has the label odd" in capsys.readouterr().err


def test_a_gap_is_filled(capsys):
    assert main(["fill", "runs/prose", "the ____ was ____", "--n-best", "2"]) == 0
    filled, first, second = capsys.readouterr().out.splitlines()
    assert "__" not in filled
    assert first.startswith("  gap 1: ")
    assert second.count("%") == 2
    assert main(["fill", "runs/prose", "the ____", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["gaps"][0]) == 5


def test_a_run_goes_on_as_what_it_was_begun(capfd):
    assert main(["train", "runs/mood"]) == 0
    assert "runs/mood has ended (it had 3 steps)" in capfd.readouterr().err


def test_words_that_are_new_to_the_model_are_told_unless_it_is_to_be_quiet(capfd):
    assert main(["classify", "runs/mood", "the film was zany"]) == 0
    told = capfd.readouterr()
    assert told.err == "1 of 4 words is new to this model: zany\n"
    assert main(["classify", "runs/mood", "the film was zany", "--quiet"]) == 0
    assert capfd.readouterr() == (told.out, "")
    assert main(["classify", "runs/mood", "the film was great"]) == 0
    assert capfd.readouterr().err == ""
    Path("zany.txt").write_text("all zany\n")
    assert main(["classify", "runs/mood", "--input", "zany.txt"]) == 0
    assert capfd.readouterr().err == ""
