"""The demo: from nothing to a translator, and straight to the translations the second time."""

import re
import subprocess
import sys

import numpy as np
import pytest

from clearhead.cli.demos import chat, writing
from clearhead.cli.demos import translation as demo
from clearhead.cli.main import main
from clearhead.config import Config, DecodeConfig, TrainConfig, to_toml
from clearhead.look import Alignment


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """The demo with little text and few updates."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name, n_pairs in (("N_TRAINING", 600), ("N_VALIDATION", 5), ("N_TEST", 10)):
        monkeypatch.setattr(demo, name, n_pairs)
    whole = demo.settings

    def short(data, into):
        train = TrainConfig(max_steps=3, validate_every=3, score_sample=5)
        return whole(data, into).but(
            train=train, decode=DecodeConfig(beam=1, max_extra=2, guard=False)
        )

    monkeypatch.setattr(demo, "settings", short)
    return tmp_path / "runs" / "demo"


def test_the_demo_trains_translates_measures_and_tells_what_to_type_next(quick, capsys):
    assert main(["demo"]) == 0
    told = capsys.readouterr()
    assert "update 1 of 3" in told.err
    for title in (
        "A phrasebook",
        "Training",
        "Sentences it never saw",
        "Where it looked",
        "How good it is",
    ):
        assert f"{title}\n" in told.out
    assert re.search(r"BLEU \d+\.\d on 10 held-out sentences", told.out)
    assert "translate runs/demo" in told.out
    assert len((quick.parent / "demo-data" / "train.de").read_text().splitlines()) == 600

    assert main(["demo"]) == 0
    again = capsys.readouterr()
    assert "Already trained" in again.out
    assert again.err == ""
    assert (
        again.out.partition("Sentences it never saw")[2]
        == told.out.partition("Sentences it never saw")[2]
    )


def test_the_demo_leaves_another_run_alone(quick, capsys):
    quick.mkdir(parents=True)
    (quick / "config.toml").write_text(to_toml(Config()))
    assert main(["demo"]) == 1
    assert "runs/demo is a run of something else" in capsys.readouterr().err


def test_an_alignment_is_drawn_darkest_where_most_is_looked_at():
    weights = np.array([[0.0, 1.0], [0.5, 0.5]], dtype=np.float32)
    assert demo.drawn(Alignment(("I", "go"), ("gehe", "ich"), weights)) == [
        "     I go",
        "gehe   ██",
        " ich ▒ ▒▒",
    ]


@pytest.mark.slow
def test_the_demo_reaches_90_bleu_on_combinations_it_never_saw(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "clearhead", "demo"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"BLEU (\d+\.\d) on", done.stdout)[1]) >= 90
    say = [sys.executable, "-m", "clearhead", "translate", "runs/demo", "Where is my suitcase?"]
    assert (
        subprocess.run(say, cwd=tmp_path, capture_output=True, text=True).stdout
        == "Wo ist mein Koffer?\n"
    )


@pytest.mark.parametrize(
    ("show", "titles", "commands"),
    [
        (
            chat,
            ("Small talk", "A talk with it", "How good it is"),
            ("chat runs/demo-chat", "--task chat"),
        ),
        (
            writing,
            ("Stories", "Stories that nobody wrote", "How good it is"),
            ("write runs/demo-writing", "-n 3"),
        ),
    ],
)
def test_the_other_demos_train_show_measure_and_tell_what_to_type_next(
    monkeypatch, tmp_path, capsys, show, titles, commands
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name, n in (("N_TRAINING", 100), ("N_VALIDATION", 3), ("N_TEST", 5)):
        monkeypatch.setattr(show, name, n)
    whole = show.settings
    quick = {
        "train": TrainConfig(max_steps=2, validate_every=2),
        "decode": DecodeConfig(beam=1, max_length=5),
    }
    monkeypatch.setattr(show, "settings", lambda data, into: whole(data, into).but(**quick))
    task = show.__name__.rpartition(".")[2]
    assert main(["demo", "--task", task]) == 0
    told = capsys.readouterr()
    assert "update 1 of 2" in told.err
    assert all(f"{title}\n" in told.out for title in titles)
    assert all(command in told.out for command in commands)
    assert main(["demo", "--task", task]) == 0
    assert "Already trained" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "command", "answer"),
    [("chat", ["chat", "runs/demo-chat", "--temperature", "0"], "I am fine"),
     ("writing", ["write", "runs/demo-writing", "--temperature", "0"], "Bella")],
)  # fmt: skip
def test_a_demo_takes_two_minutes_and_gives_sensible_answers(tmp_path, task, command, answer):
    program = [sys.executable, "-m", "clearhead"]
    done = subprocess.run(
        [*program, "demo", "--task", task], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    text = (
        "Hi how are you\n"
        if task == "chat"
        else "One day there was a shy fox named Bella. She lived in the town."
    )
    said = subprocess.run(
        [*program, *command], cwd=tmp_path, capture_output=True, text=True, input=text
    ).stdout
    assert answer in (said if task == "chat" else said.removeprefix(text))
