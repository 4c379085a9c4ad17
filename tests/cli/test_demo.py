"""The demo: from nothing to a translator, and straight to the translations the second time."""

import re
import subprocess
import sys

import pytest

from clearhead.cli.main import main
from clearhead.config import Config, to_toml
from clearhead.demo import SHOWS, show
from tests.first_typed import FIRST_TYPED


def shorten(monkeypatch, task, sizes, **settings):
    """A demo with little text and few updates."""
    whole = show.shipped

    def few(name):
        return [part[:n] for part, n in zip(whole(name), sizes, strict=True)]

    monkeypatch.setattr(show, "shipped", few)
    monkeypatch.setattr(SHOWS[task], "settings", SHOWS[task].settings | settings)


@pytest.fixture
def quick(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    train = {"max_steps": 3, "validate_every": 3, "score_sample": 5}
    decode = {"beam": 1, "max_extra": 2, "guard": False}
    shorten(monkeypatch, "translation", (600, 5, 10), train=train, decode=decode)
    return tmp_path / "runs" / "demo"


def test_the_demo_trains_translates_measures_and_tells_what_to_type_next(quick, capsys):
    assert main(["demo"]) == 0
    told = capsys.readouterr()
    assert "step 1 of 3" in told.err
    for title in (
        "A phrasebook",
        "Training",
        "What people type first",
        "Sentences it never saw",
        "Where it looked",
        "How good it is",
        "A look inside",
    ):
        assert f"{title}\n" in told.out
    assert f"  {(quick / 'look.html').as_uri()}\n" in told.out
    assert (told.out + told.err).count("Try:") == 1
    assert 'look runs/demo "A man rides a bike."' in told.out
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


@pytest.mark.slow
def test_the_demo_reaches_90_bleu_and_translates_what_people_type_first(tmp_path):
    program = [sys.executable, "-m", "clearhead"]
    done = subprocess.run([*program, "demo"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"BLEU (\d+\.\d) on", done.stdout)[1]) >= 90
    wanted = {"Where is my suitcase?": "Wo ist mein Koffer?", **FIRST_TYPED}
    said = subprocess.run(
        [*program, "translate", "runs/demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        input="".join(f"{source}\n" for source in wanted),
    ).stdout
    assert dict(zip(wanted, said.splitlines(), strict=True)) == wanted


@pytest.mark.parametrize(
    ("task", "titles", "commands"),
    [
        (
            "chat",
            ("Small talk", "A talk with it", "How good it is"),
            ("chat runs/demo-chat", "--task chat"),
        ),
        (
            "classification",
            ("Reviews", "Texts of your own", "How good it is"),
            ("The soup was not lovely.\n  → ", "right ↓", "classify runs/demo-classification"),
        ),
        (
            "writing",
            ("Stories", "Stories that nobody wrote", "How good it is"),
            ("write runs/demo-writing", "-n 3"),
        ),
    ],
)
def test_the_other_demos_train_show_measure_and_tell_what_to_type_next(
    monkeypatch, tmp_path, capsys, task, titles, commands
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    train = {"max_steps": 2, "validate_every": 2, "threads": 1}
    shorten(monkeypatch, task, (100, 10, 10), train=train, decode={"beam": 1, "max_length": 5})
    assert main(["demo", "--task", task]) == 0
    told = capsys.readouterr()
    assert "step 1 of 2" in told.err
    assert all(f"{title}\n" in told.out for title in titles)
    assert all(command in told.out for command in commands)
    assert f"look runs/demo-{task} " in told.out
    assert "</html>" in (tmp_path / "runs" / f"demo-{task}" / "look.html").read_text()
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


@pytest.mark.slow
def test_the_demo_tells_praise_from_blame_in_what_people_type_first_and_where_it_is_turned_round(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--task", "classification"]) == 0
    assert float(re.search(r"accuracy (\d+\.\d)", capsys.readouterr().out)[1]) >= 90
    for text, label in (
        ("The film was not boring.", "good"),
        ("I cannot say that the book was great.", "bad"),
        ("I love this film.", "good"),
        ("This is the worst movie ever.", "bad"),
        ("what a wonderful movie", "good"),
    ):
        assert main(["classify", "runs/demo-classification", text]) == 0
        assert capsys.readouterr().out == f"{label}\n"
