"""The commands that use a translator, as a person types them."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead import Translator
from clearhead.cli.main import main
from clearhead.cli.translate import shared_out
from clearhead.machine import n_processors
from clearhead.tasks.runs import MANY
from tasks.conftest import random_run

LINE = st.one_of(
    st.sampled_from(
        ["", " ", "the cat sees the dog .", "\u2028", "\x85", "\x0b", "a\rb", "🙂", "\x00", "</s>"]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=12),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(random_run(tmp_path_factory.mktemp("runs") / "random"))


@pytest.mark.promise(23, "files of any characters, line ends and packing")
@given(st.lists(LINE, max_size=8), st.booleans(), st.sampled_from(["\n", "\r\n"]), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
def test_one_line_in_is_one_line_out(
    run: str, tmp_path: Path, lines: list[str], is_ended: bool, end: str, is_packed: bool
) -> None:
    content = end.join(lines).encode() + (end.encode() if is_ended and lines else b"")
    source, output = tmp_path / ("in.txt.gz" if is_packed else "in.txt"), tmp_path / "out.txt"
    source.write_bytes(gzip.compress(content) if is_packed else content)
    assert main(["translate", run, "--input", str(source), "--output", str(output)]) == 0
    expected = content.count(b"\n") + bool(content and not content.endswith(b"\n"))
    assert output.read_bytes().count(b"\n") == expected


def test_stdin_goes_to_stdout(
    run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"the cat\n\nthe dog\n")))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["translate", run]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 4
    assert lines[1] == ""


def test_scores_alignments_n_best_and_json_add_what_they_say(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", run, "the cat sees", "--scores", "--alignments"]) == 0
    assert capsys.readouterr().out.count("\t") == 2
    assert main(["translate", run, "the cat sees", "--n-best", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("0 ||| ") for line in lines)
    assert main(["translate", run, "the cat sees", "--json", "--n-best", "2", "--alignments"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() >= {
        "source",
        "text",
        "score",
        "tokens",
        "log_probs",
        "notes",
        "alternatives",
    }


def test_settings_of_decoding_can_be_set(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", run, "the cat", "--set", "decode.max_length=2"]) == 0
    assert main(["translate", run, "the cat", "--set", "decode.beem=2"]) == 1
    assert "Did you mean beam?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["nowhere", "x"], ["RUN", "x", "--input", "y"], ["RUN", "--input", "nofile"]]
)
def test_mistakes_are_told_in_words_with_what_to_do(
    run: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", *(run if word == "RUN" else word for word in arguments)]) == 1
    message = capsys.readouterr().err
    assert message.startswith("clearhead: ")
    assert 2 <= len(message.strip().split("\n")) <= 3


def test_invalid_utf8_names_file_line_and_bytes(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_bytes(b"fine\nnot \xff fine\n")
    arguments = [
        "translate",
        run,
        "--input",
        str(tmp_path / "in.txt"),
        "--output",
        str(tmp_path / "out.txt"),
    ]
    assert main(arguments) == 1
    assert "in.txt:2" in capsys.readouterr().err
    assert main([*arguments, "--errors", "replace"]) == 0


def test_evaluate_gives_scores_with_signatures(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side in ("en", "de"):
        (tmp_path / f"test.{side}").write_text("the cat sees the dog .\nbread\n", encoding="utf-8")
    arguments = ["evaluate", run, str(tmp_path / "test.en"), str(tmp_path / "test.de")]
    assert main([*arguments, "--output", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert "BLEU" in text
    assert "version:" in text
    assert (tmp_path / "out").read_text(encoding="utf-8").count("\n") == 2
    assert main([*arguments, "--json", "--beam", "1"]) == 0
    assert json.loads(capsys.readouterr().out).keys() >= {"BLEU", "seconds", "guard_hits"}


def test_an_ensemble_is_measured_by_what_it_translates(run: str, tmp_path: Path) -> None:
    other = str(random_run(tmp_path / "other", seed=1))
    for side in ("en", "de"):
        (tmp_path / f"test.{side}").write_text("the cat sees the dog .\nbread\n", encoding="utf-8")

    def measured(*others: str) -> str:
        place = tmp_path / "measured.txt"
        files = [str(tmp_path / "test.en"), str(tmp_path / "test.de")]
        options = [word for each in others for word in ("--with", each)]
        assert main(["evaluate", run, *files, "--output", str(place), *options]) == 0
        return place.read_text(encoding="utf-8")

    def translated(*others: str) -> str:
        place = tmp_path / "translated.txt"
        files = ["--input", str(tmp_path / "test.en"), "--output", str(place)]
        options = [word for each in others for word in ("--with", each)]
        assert main(["translate", run, *files, *options]) == 0
        return place.read_text(encoding="utf-8")

    assert measured(other) == translated(other) != translated()
    assert measured(run) == translated(), "a run decides with itself as it does alone"


def test_several_processes_write_what_one_writes(run: str, tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("".join(f"the cat sees {number} dogs .\n" for number in range(30)))
    outputs = []
    for workers in ("1", "2"):
        output = tmp_path / f"{workers}.txt"
        assert (
            main(
                [
                    "translate",
                    run,
                    "--input",
                    str(source),
                    "--output",
                    str(output),
                    "--workers",
                    workers,
                ]
            )
            == 0
        )
        outputs.append(output.read_text())
    assert outputs[0].count("\n") == 30
    assert outputs[0] == outputs[1]


@given(
    sizes=st.lists(st.integers(1, 2_048), max_size=6),
    beam=st.integers(1, 8),
    workers=st.none() | st.integers(1, 3),
)
def test_all_lines_are_shared_out_in_order_and_many_of_them_or_a_wide_beam_to_all_processors(
    sizes, beam, workers
):
    lines = iter(map(str, range(sum(sizes))))
    chunks = [[next(lines) for _ in range(size)] for size in sizes]
    n_workers, shared = shared_out(chunks, workers, beam)
    shares = [list(share) for share in shared]
    assert [line for share in shares for line in share] == [*map(str, range(sum(sizes)))]
    assert n_workers == (workers or (n_processors() if sum(sizes) * beam > MANY else 1))
    assert len(shares) >= min(n_workers, sum(sizes)), "nobody is idle"
    assert n_workers > 1 or shares == chunks, "one process decodes what shards decode"


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="needs /proc to find a process's children"
)
def test_processes_end_with_the_one_that_started_them(run: str, tmp_path: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("the cat sees the dog .\n" * 50_000)
    command = [
        sys.executable,
        "-m",
        "clearhead",
        "translate",
        run,
        "--input",
        str(source),
        "--output",
        str(output),
    ]
    parent = subprocess.Popen([*command, "--workers", "2"], stderr=subprocess.DEVNULL)
    partial = output.with_name("out.txt.partial")
    wait_until(lambda: partial.exists() and partial.stat().st_size > 0)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    parent.kill()
    parent.wait()
    assert len(children) >= 2
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="needs /proc to tell waiting from working"
)
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_processes_quietly_and_keeps_whole_lines(
    run: str, tmp_path: Path, number: int, times: int
) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("the cat sees the dog .\n" * 50_000)
    arguments = ["--input", str(source), "--output", str(output), "--workers", "2", "--quiet"]
    parent = subprocess.Popen(
        [sys.executable, "-m", "clearhead", "translate", run, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    partial = output.with_name("out.txt.partial")
    wait_until(lambda: partial.exists() and partial.stat().st_size > 0)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    begin, waited = time.monotonic(), held_up(parent.pid)
    for _ in range(times):
        os.killpg(parent.pid, number)
        time.sleep(0.05)
    ended_at = waited
    while parent.poll() is None:
        assert time.monotonic() < begin + 60
        ended_at = held_up(parent.pid) or ended_at
        time.sleep(0.01)
    assert time.monotonic() - begin - (ended_at - waited) < 2, "others had the processor before it"
    assert (parent.returncode, parent.communicate()[1]) == (128 + number, "")
    assert not output.exists()
    assert partial.read_text().endswith("\n")
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def held_up(process: int) -> float:
    """Seconds for which a process has waited for a processor; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180  # where others compute too, beginning takes long
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_place_for_the_output_that_is_not_there_is_told_plainly(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(Path(run, "config.toml"))
    assert main(["translate", run, "--input", source, "--output", "no/such/folder/out.txt"]) == 4
    told = capsys.readouterr().err
    assert "clearhead: no/such/folder/out.txt cannot be written: No such file" in told


def test_eight_bits_translate_too(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", run, "the cat sees the dog .", "--int8", "--scores"]) == 0
    exact, rounded = (Translator.load(run, int8=int8) for int8 in (False, True))
    pairs = [("the cat sees the dog .", "ein Hund sieht 12 Katzen !")]
    assert exact.score(pairs) != rounded.score(pairs)
    assert exact.score(pairs) == pytest.approx(rounded.score(pairs), rel=0.05)
    assert "\t" in capsys.readouterr().out


def test_lines_that_are_typed_are_answered_one_by_one_until_ctrl_d(
    run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["the cat", "we eat bread"])

    def answer(_: str) -> str:
        if line := next(typed, None):
            return line
        raise EOFError

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    assert main(["translate", run]) == 0
    told = capsys.readouterr()
    found = Translator.load(run).translate(["the cat", "we eat bread"])
    assert told.out == "".join(f"{each}\n" for each in found), "prompts are no part of the output"
    assert told.err.startswith("Type a text and Enter; Ctrl-D ends.\n> > > \n")
