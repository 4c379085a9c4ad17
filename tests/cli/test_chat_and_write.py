"""The commands that talk and write, as a person types them."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clearhead.cli.chat import Terminal
from clearhead.cli.main import main
from clearhead.config import DecodeConfig
from clearhead.tasks import Chatbot, Writer
from tasks.random_runs import random_folder

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def bot(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(random_folder(tmp_path_factory.mktemp("runs") / "bot", "chat", "decoder"))


@pytest.fixture(scope="module")
def bard(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(
        random_folder(
            tmp_path_factory.mktemp("runs") / "bard", "writing", "decoder", "bytes", window=32
        )
    )


def typing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode())))
    )


def test_one_line_in_is_one_line_out(
    bot: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    typing(monkeypatch, "the cat\n\nwe eat\nbread\n\u2028\n")
    assert main(["chat", bot]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 6
    assert lines[1] == ""
    typing(monkeypatch, "we eat\nbread\n")
    assert main(["chat", bot]) == 0
    assert capsys.readouterr().out.split("\n")[:2] == lines[2:4], "a blank line begins anew"


def talk(
    monkeypatch: pytest.MonkeyPatch, bot: Chatbot, *typed: str | type[BaseException]
) -> Terminal:
    """A conversation in which these lines are typed; exceptions stand for Ctrl-C and Ctrl-D."""
    lines = iter(typed)

    def answer(_: str) -> str:
        line = next(lines, EOFError)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr("builtins.input", answer)
    terminal = Terminal(bot, bot.config.decode.but(max_length=5))
    terminal.talk()
    return terminal


def test_a_conversation_goes_on_until_ctrl_d_and_is_remembered(
    bot: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    found = talk(monkeypatch, Chatbot.load(bot), "the cat", "", KeyboardInterrupt, "bread").bot
    assert found.turns[::2] == ["the cat", "bread"]
    assert all(
        f"bot  {reply}\n" in capsys_out
        for capsys_out in [capsys.readouterr().out]
        for reply in found.turns[1::2]
    )


def test_commands_reset_retry_and_explain(
    bot: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    found = talk(
        monkeypatch, Chatbot.load(bot), "the cat", "/reset", "/retry", "/look", "/nonsense", "/help"
    ).bot
    assert found.turns == []
    told = capsys.readouterr().err
    for text in ("Forgotten", "nothing was said", "/nonsense", "/quit    leave"):
        assert text in told
    found = talk(monkeypatch, Chatbot.load(bot), "the cat", "/look", "/retry").bot
    assert "the cat" in capsys.readouterr().out
    assert found.turns[0] == "the cat"
    assert (len(found.turns), found.n_asked) == (2, 2)


def test_quit_ends_the_conversation(bot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert talk(monkeypatch, Chatbot.load(bot), "the cat", "/quit", "bread").bot.turns[2:] == []


def test_ctrl_c_stops_the_reply_and_not_the_program(
    bot: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    loaded = Chatbot.load(bot)
    whole = loaded.answering

    def interrupted(turns: list[str], decode: DecodeConfig) -> Iterator[str]:
        yield next(whole(turns, decode))
        if turns[-1] == "the cat":
            raise KeyboardInterrupt

    monkeypatch.setattr(loaded, "answering", interrupted)
    talk(monkeypatch, loaded, "the cat")
    assert len(loaded.turns) == 2
    assert " …\n" in capsys.readouterr().out


def test_a_cut_conversation_is_told_once(
    bot: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    loaded = Chatbot.load(bot)
    loaded.limit = 30
    talk(monkeypatch, loaded, *["we eat bread"] * 8)
    assert capsys.readouterr().err.count("no longer read") == 1


def test_write_goes_on_with_its_prompt(
    bard: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert main(["write", bard, "the cat", "--length", "20", "--seed", "4"]) == 0
    told = capsys.readouterr().out
    assert told == f"{Writer.load(bard).write('the cat', max_length=20, seed=4)}\n"
    typing(monkeypatch, "the cat\n")
    assert main(["write", bard, "--length", "20", "--seed", "4"]) == 0
    assert capsys.readouterr().out == told


def test_write_gives_several_continuations_and_json(bard: str, capsys: Captured) -> None:
    assert main(["write", bard, "the cat", "-n", "2", "--length", "5"]) == 0
    assert capsys.readouterr().out.count("log-probability") == 2
    assert main(["write", bard, "the cat", "-n", "2", "--length", "5", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[1]["seed"] == lines[0]["seed"] + 1
    assert lines[0].keys() >= {"prompt", "text", "tokens", "log_probs", "log_prob", "notes"}
    assert main(["write", bard, "the cat", "--stop", "\\n", "--length", "60"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_write_draws_a_seed_and_says_which_unless_one_is_given(bard: str, capsys: Captured) -> None:
    ask = ["write", bard, "the cat", "--length", "20"]
    assert main(ask) == 0
    told = capsys.readouterr()
    seed = told.err.rsplit("--seed ", 1)[1].strip()
    assert main([*ask, "--seed", seed]) == 0
    assert capsys.readouterr() == (told.out, "")
    assert main([*ask, "--set", f"decode.seed={seed}"]) == 0
    assert capsys.readouterr() == (told.out, "")
    outputs = set()
    for _ in range(3):
        assert main(ask) == 0
        outputs.add(capsys.readouterr().out)
    assert len(outputs) > 1
    assert main([*ask, "--temperature", "0"]) == 0
    assert capsys.readouterr().err == "", "nothing is drawn"


def test_a_prompt_that_is_cut_is_told(bard: str, capsys: Captured) -> None:
    assert main(["write", bard, "the cat sees the dog . " * 20, "--length", "2"]) == 0
    assert "the model read the last 32" in capsys.readouterr().err


def test_evaluate_measures_writers_and_chatbots(
    bard: str, bot: str, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "test.txt").write_text("the cat sees the dog .\n\nwe eat bread\n")
    (tmp_path / "test.tsv").write_text("the cat\twe eat\nbread\t12\n")
    for run, name, n_bytes in ((bard, "test.txt", 37), (bot, "test.tsv", 10)):
        assert main(["evaluate", run, str(tmp_path / name)]) == 0
        assert "bits per byte" in capsys.readouterr().out
        assert main(["evaluate", run, str(tmp_path / name), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["bytes"] == n_bytes


def test_a_run_of_another_task_is_refused_in_words(bard: str, bot: str, capsys: Captured) -> None:
    for arguments in (["chat", bard], ["write", bot, "x"]):
        assert main(arguments) == 1
        assert "clearhead " in capsys.readouterr().err


SMALL = (
    "model.d_model=16", "model.d_ff=16", "model.n_heads=2", "model.n_encoder_layers=1", "model.n_decoder_layers=1",
    "data.batch_tokens=128", "data.window=16", "train.max_steps=2", "train.threads=1",
)  # fmt: skip


@pytest.mark.parametrize(("task", "name"), [("chat", "pairs.tsv"), ("writing", "text.txt")])
def test_train_makes_a_run_and_info_tells_how_to_use_it(
    task: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / name).write_text("the cat sees\tthe dog\n" * 50)
    run = str(tmp_path / "run")
    sets = [part for setting in SMALL for part in ("--set", setting)]
    assert main(["train", str(tmp_path / name), "--task", task, "--into", run, *sets]) == 0
    told = capsys.readouterr().err
    assert "2 held-out " in told
    assert (
        f"The run is in {run}. Try:\n  clearhead {'chat' if task == 'chat' else 'write'} {run}"
        in told
    )
    assert main(["info", run]) == 0
    told = capsys.readouterr().out
    assert f"clearhead {'chat' if task == 'chat' else 'write'} {run}" in told
    assert f"is in {tmp_path / 'cache' / 'clearhead'}: " in told


@pytest.mark.parametrize("name", ["shakespeare", "science_fiction"])
def test_a_recipe_without_its_data_says_what_is_missing(
    name: str, project: Path, tmp_path: Path
) -> None:
    recipe = [sys.executable, str(project / "examples" / f"{name}.py"), "--data", str(tmp_path)]
    done = subprocess.run(recipe, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("Skipped: there is no ")
    assert not list(tmp_path.iterdir())
