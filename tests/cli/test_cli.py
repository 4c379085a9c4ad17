"""The command line: results on stdout, the rest on stderr, and exit codes that can be relied on."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead import __version__, cli
from clearhead.cli.main import main
from clearhead.cli.verb import app, one_value_each
from clearhead.errors import ClearheadError
from tasks.conftest import random_run

VERBS = [command.name for command in app.registered_commands]


@pytest.fixture
def files(tmp_path):
    for name, word in (
        ("train.en", "sentence"),
        ("train.de", "Satz"),
        ("test.en", "test"),
        ("test.de", "Probe"),
    ):
        (tmp_path / name).write_text("".join(f"{word} of number {n}\n" for n in range(50)))
    return [str(tmp_path / name) for name in ("train.en", "train.de", "test.en", "test.de")]


def test_help_names_every_verb_and_imports_nothing_heavy():
    code = (
        "import sys; from clearhead.cli.main import main; code = main(['--help']);"
        "heavy = {'torch', 'numpy', 'tokenizers'} & set(sys.modules); sys.exit(code or bool(heavy))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "doctor" in run.stdout


def test_every_verb_stands_in_one_group_of_the_help(capsys):
    assert main(["--help"]) == 0
    told = re.findall(r"^  (\w+)  ", capsys.readouterr().out, re.MULTILINE)
    assert told == VERBS


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("verb", VERBS)
def test_help_keeps_within_the_terminal_but_for_examples_to_copy(
    verb, columns, monkeypatch, capsys
):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main([verb, "--help"]) == 0
    told = capsys.readouterr().out
    assert "Examples:\n  clearhead " in told
    kept = [line for line in told.splitlines() if not line.startswith("  clearhead ")]
    assert max(map(len, kept)) <= columns


@pytest.mark.parametrize("module", sorted(Path(cli.__file__).parent.glob("*.py")), ids=str)
def test_no_verb_imports_a_verb(module):
    found = re.findall(r"from clearhead\.cli(?:\.| import )(\w+)", module.read_text())
    assert module.stem == "verb" or set(found) <= {"display", "lines", "options", "verb"}


def test_help_of_a_verb_shows_examples(capsys):
    assert main(["doctor", "--help"]) == 0
    assert "clearhead doctor train.en train.de" in capsys.readouterr().out


def test_the_module_runs_as_the_command():
    run = subprocess.run(
        [sys.executable, "-m", "clearhead", "--version"], capture_output=True, text=True
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, f"clearhead {__version__}\n", "")


def test_your_input_is_1_and_usage_is_2(capsys, tmp_path):
    assert main(["doctor", str(tmp_path / "missing")]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("clearhead: There is no file")
    assert len(told.err.splitlines()) <= 3
    assert main(["doctor"]) == 2
    assert main(["doctor", "--nonsense", "x"]) == 2
    assert main(["nonsense"]) == 2


def test_every_exit_code_is_named_where_they_are_made():
    errors = [ClearheadError]
    for error in errors:
        errors += error.__subclasses__()
    codes = {error.exit_code for error in errors} | {0, 2, 130, 143}
    assert codes <= {int(number) for number in re.findall(r"\d+", main.__doc__)}
    assert {3, 4, 5} <= codes


def test_debug_shows_where_an_error_arose(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "clearhead", "--debug", "doctor", "missing"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert "Traceback" in run.stderr


def test_a_mistake_of_ours_is_one_message_and_no_traceback(monkeypatch, capsys, files):
    monkeypatch.setattr("clearhead.doctor.examine", lambda *_, **__: 1 / 0)
    assert main(["doctor", *files]) == 1
    told = capsys.readouterr().err
    assert "ZeroDivisionError" in told
    assert "Traceback" not in told


def test_control_c_is_130(monkeypatch, files):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("clearhead.doctor.examine", interrupted)
    assert main(["doctor", *files]) == 130


def test_a_reader_that_goes_away_is_no_crash(files):
    line = f"{sys.executable} -m clearhead doctor {files[0]} {files[1]} | true"
    run = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert "Traceback" not in run.stderr
    assert "BrokenPipe" not in run.stderr


def test_doctor_tells_people_in_80_columns(capsys, files, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    with Path(files[0]).open("a") as file:
        file.write("[bold]sentence of number[/bold] \x1b[31m 1\nsentence of number 3\n")
    with Path(files[1]).open("a") as file:
        file.write("[bold]Satz of number[/bold] 1\nSatz of number 3\n")
    assert main(["doctor", *files[:2], "--test", *files[2:], "--fix", str(tmp_path / "out")]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert max(map(len, told.out.splitlines())) <= 80
    assert "52 pairs" in told.out
    assert "duplicates  1, first at train.en:52" in told.out
    assert "Kept 51 of 52" in told.out
    assert "\x1b" not in told.out


def test_doctor_s_exit_code_tells_of_errors_that_are_not_fixed(capsys, files, tmp_path):
    assert main(["doctor", *files[:2]]) == 0
    with Path(files[0]).open("ab") as file:
        file.write(b"\xff\n")
    with Path(files[1]).open("a") as file:
        file.write("x\n")
    assert main(["doctor", *files[:2]]) == 1
    assert main(["doctor", *files[:2], "--fix", str(tmp_path / "out")]) == 0
    with Path(files[1]).open("a") as file:
        file.write("y\n")
    capsys.readouterr()
    assert main(["doctor", *files[:2]]) == 1
    assert "--fix" not in capsys.readouterr().out


def test_doctor_tells_programs_in_json(capsys, files):
    assert main(["doctor", *files[:2], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["examples"] == 50
    assert main(["doctor", files[0], files[1], "--task", "writing", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["examples"] == 100


def test_an_option_may_take_several_values():
    assert one_value_each(["a", "--test", "b", "c", "--json", "d"], {"--test"}) == [
        "a", "--test", "b", "--test", "c", "--json", "d",
    ]  # fmt: skip
    assert one_value_each(["--test", "b", "-", "--", "c"], {"--test"}) == [
        "--test",
        "b",
        "--test",
        "-",
        "--",
        "c",
    ]


@pytest.mark.parametrize(
    ("locale", "args"),
    [
        ({"LC_ALL": "C"}, ["translate", "RUN", "ein Mädchen → 🙂"]),
        ({"LC_ALL": "", "LANG": "C"}, ["translate", "RUN", "ein Mädchen → 🙂"]),
        ({"LC_ALL": "C"}, ["look", "RUN", "ein Mädchen → 🙂"]),
        ({"LC_ALL": "C"}, ["doctor", "ü.en", "ü.de"]),
        ({"LC_ALL": "C"}, ["train", "--help"]),
        ({"LC_ALL": "C"}, ["evaluate", "RUN", "ü.en", "ü.de", "--output", "ö.txt"]),
    ],
    ids=str,
)
def test_a_process_of_a_poor_locale_reads_and_writes_utf8(poor_place, locale, args):
    environment = os.environ | locale | {"PYTHONUTF8": "0", "PYTHONIOENCODING": ""}
    done = subprocess.run(
        [sys.executable, "-m", "clearhead", *("run" if word == "RUN" else word for word in args)],
        env=environment,
        cwd=poor_place,
        capture_output=True,
        check=False,
    )
    told = done.stderr.decode("utf-8")
    assert done.returncode == 0, told
    assert "Error" not in told
    assert done.stdout.decode("utf-8").strip()
    if args[0] == "look":
        assert "ä" in done.stdout.decode("utf-8")


@pytest.fixture(scope="module")
def poor_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and files whose names are not ASCII."""
    place = tmp_path_factory.mktemp("poor")
    random_run(place / "run")
    for side in ("en", "de"):
        (place / f"ü.{side}").write_text("ein Mädchen → 🙂\nBrot\n", encoding="utf-8")
    return place
