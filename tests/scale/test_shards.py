"""A corpus in shards: joined, it is byte for byte what one process writes, whatever happened on the way."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.cli.main import main
from clearhead.data import store
from clearhead.errors import DataError, FolderError
from clearhead.scale import Shard, answer_here, chunks, chunks_of, join
from tasks.conftest import random_run

MADE_WITH = {"runs": "a", "verb": "upper"}
AT_ONCE = 4
SENTENCES = ["the cat sees the dog .", "", "we eat bread", "ein Hund sieht 12 Katzen !", "🙂 </s>"]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "AT_ONCE", AT_ONCE)
    monkeypatch.setattr(chunks, "AT_ONCE", AT_ONCE)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(random_run(tmp_path_factory.mktemp("runs") / "random"))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    lines = [f"{SENTENCES[n % len(SENTENCES)]} {n}" for n in range(30)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def shout():
    return lambda lines, first: [f"{n} {line.upper()}" for n, line in enumerate(lines, first)]


def answer(files, folder: Path, number: int, of: int, stop_after: int | None = None) -> int:
    """How many chunks were answered; the process may be gone before a later one."""
    shard, n = Shard(folder, number, of), 0
    with shard.opened(MADE_WITH):
        missing = shard.missing(chunks_of([str(file) for file in files]))
        for chunk, lines in answer_here(missing, shout, lambda chunk: chunk.read("strict")):
            if n == stop_after:
                return n
            shard.save(chunk, lines)
            n += 1
        shard.close()
    return n


def joined(folder: Path, made_with=MADE_WITH) -> bytes:
    return b"".join(join(folder, made_with))


@given(
    st.lists(st.text("ab\r\u2028 ", max_size=5), max_size=40),
    st.lists(st.text("c", max_size=2), max_size=9),
    st.integers(1, 5),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_shards_joined_are_all_lines_in_order(tmp_path_factory, first, second, of, is_packed):
    place = tmp_path_factory.mktemp("lines")
    files = place / ("1.gz" if is_packed else "1"), place / "2"
    content = "".join(f"{line}\n" for line in first).encode()
    files[0].write_bytes(gzip.compress(content) if is_packed else content)
    files[1].write_text("".join(f"{line}\n" for line in second))
    for number in range(1, of + 1):
        answer(files, place / "parts", number, of)
    lines = [line.removesuffix("\r").upper() for line in [*first, *second]]
    expected = "".join(f"{n} {line}\n" for n, line in enumerate(lines))
    assert joined(place / "parts") == expected.encode()


def test_the_same_command_again_answers_only_what_is_missing(tmp_path, corpus):
    folder = tmp_path / "parts"
    assert answer([corpus], folder, 1, 2, stop_after=2) == 2
    assert answer([corpus], folder, 1, 2) == 2
    assert answer([corpus], folder, 1, 2) == 0
    (folder / "parts" / "00000002").write_text("changed")
    (folder / "parts" / "00000004").unlink()
    assert answer([corpus], folder, 1, 2) == 2


def test_a_manifest_that_a_kill_cut_off_goes_on(tmp_path, corpus):
    folder = tmp_path / "parts"
    answer([corpus], folder, 1, 1, stop_after=3)
    manifest = folder / "shard-1-of-1.jsonl"
    manifest.write_bytes(manifest.read_bytes()[:-20])
    answer([corpus], folder, 1, 1)
    for line in manifest.read_text().splitlines():
        json.loads(line)
    assert joined(folder).count(b"\n") == 30


def test_changed_lines_are_answered_again(tmp_path, corpus):
    folder = tmp_path / "parts"
    answer([corpus], folder, 1, 1)
    lines = corpus.read_text().split("\n")
    corpus.write_text("\n".join(["other", *lines[1:]]))
    assert answer([corpus], folder, 1, 1) == 1
    assert joined(folder).startswith(b"0 OTHER\n")


def refusal(folder: Path, made_with=MADE_WITH) -> str:
    with pytest.raises(FolderError) as caught:
        joined(folder, made_with)
    return caught.value.whole


def test_join_refuses_what_is_missing_foreign_or_damaged(tmp_path, corpus):
    folder = tmp_path / "parts"
    assert "holds no shards" in refusal(folder)
    answer([corpus], folder, 1, 3)
    answer([corpus], folder, 2, 3, stop_after=1)
    assert "2 of 3 shards" in refusal(folder)
    assert "2/3, 3/3" in refusal(folder)
    answer([corpus], folder, 2, 3)
    answer([corpus], folder, 3, 3)
    assert joined(folder).count(b"\n") == 30
    assert "runs a, not b" in refusal(folder, {**MADE_WITH, "runs": "b"})
    (folder / "parts" / "00000001").write_text("0 X\n")
    assert "00000001 is missing or damaged" in refusal(folder)
    assert "Run shard 2/3 again" in refusal(folder)
    answer([corpus], folder, 2, 3)
    corpus.write_text("now other text\n" * 30)
    answer([corpus], folder, 3, 3)
    assert "other input than shard-1-of-3" in refusal(folder)
    answer([corpus], folder, 1, 2)
    assert "several divisions, into 2 and 3 shards" in refusal(folder)


def changed(kind: str, **values: object) -> Callable[[Path], None]:
    """Has records of a kind in a manifest say something else, or takes them out."""

    def spoil(folder: Path) -> None:
        manifest = folder / "shard-2-of-2.jsonl"
        records = [json.loads(line) for line in manifest.read_text().splitlines()]
        kept = [{**each, **values} if each["kind"] == kind else each for each in records]
        kept = [each for each in kept if values or each["kind"] != kind]
        manifest.write_text("".join(f"{json.dumps(each)}\n" for each in kept))

    return spoil


def impossible(folder: Path) -> None:
    for number in (1, 2):
        (folder / f"shard-{number}-of-2.jsonl").rename(folder / f"shard-{number}-of-0.jsonl")


REFUSALS = {
    "a manifest is gone": (lambda f: (f / "shard-2-of-2.jsonl").unlink(), "1 of 2 shards"),
    "a manifest without its end": (changed("end"), "have not ended: 2/2"),
    "a manifest without its head": (changed("shard"), "was begun with nothing"),
    "a manifest without its parts": (changed("part"), "00000001 is missing"),
    "a manifest of another number": (changed("shard", shards=3), "3 shards, not 2"),
    "a manifest with a wrong number": (changed("part", number=-1), "number"),
    "other options": (changed("shard", made_with={**MADE_WITH, "verb": "lower"}), "verb lower"),
    "other input": (changed("end", lines=31), "other input than shard-1-of-2"),
    "a part is gone": (lambda f: (f / "parts" / "00000003").unlink(), "00000003 is missing"),
    "a part is shorter": (lambda f: os.truncate(f / "parts" / "00000003", 9), "or damaged"),
    "too many shards": (lambda f: (f / "shard-2-of-9999999.jsonl").touch(), "several divisions"),
    "none": (lambda f: shutil.rmtree(f), "no shards"),
    "only impossible ones": (impossible, "into 0 shards"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_each_refusal_of_join(tmp_path, corpus, name):
    folder, (spoil, told) = tmp_path / "parts", REFUSALS[name]
    for number in (1, 2):
        answer([corpus], folder, number, 2)
    assert joined(folder).count(b"\n") == 30
    spoil(folder)
    assert told in refusal(folder)


def test_a_shard_that_was_begun_otherwise_is_refused(tmp_path, corpus):
    answer([corpus], tmp_path / "parts", 1, 1)
    with (
        pytest.raises(FolderError, match="verb upper, not lower"),
        Shard(tmp_path / "parts", 1, 1).opened({**MADE_WITH, "verb": "lower"}),
    ):
        pass


def test_bad_input_names_file_and_line_and_loses_no_other_shard(tmp_path, corpus):
    lines = corpus.read_bytes().split(b"\n")
    lines[5] = b"not \xff fine"
    corpus.write_bytes(b"\n".join(lines))
    folder = tmp_path / "parts"
    with pytest.raises(DataError, match=r"corpus\.txt:6: not UTF-8 at byte offset 4"):
        answer([corpus], folder, 2, 2)
    assert answer([corpus], folder, 1, 2) == 4


@pytest.mark.slow
def test_a_bad_byte_in_line_7_million_is_named_and_loses_no_other_shard(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "AT_ONCE", 2_048)
    corpus, bad = tmp_path / "corpus.txt", 7_000_000
    corpus.write_bytes(b"a line\n" * (bad - 1) + b"\xff\n" + b"a line\n" * 5_000)
    (found,) = [chunk for chunk in chunks_of([str(corpus)]) if "\udcff" in chunk.lines]
    with pytest.raises(DataError, match=r"corpus\.txt:7000000: not UTF-8 at byte offset 0"):
        found.read("strict")
    assert answer([corpus], tmp_path / "parts", (found.number + 1) % 100 + 1, 100) > 30


def as_table(path: Path, texts) -> Path:
    """The texts as a column of a JSONL or Parquet file, by its ending."""
    if path.suffix == ".jsonl":
        rows = [{"id": n, "text": text} for n, text in enumerate(texts)]
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        pyarrow = pytest.importorskip("pyarrow", reason="pyarrow comes with the extra: ray")
        table = pyarrow.table({"id": list(range(len(texts))), "text": texts})
        pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=10)
    return path


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.parquet"])
def test_a_column_of_a_table_is_answered_as_a_file_of_lines_would_be(
    tmp_path, name, run, capsysbinary
):
    texts = [f"{sentence} {n}" for n, sentence in enumerate(SENTENCES * 5)]
    table, plain = as_table(tmp_path / name, texts), tmp_path / "plain.txt"
    plain.write_text("".join(f"{text}\n" for text in texts))
    parts = ["translate", run, "--into", str(tmp_path / "parts"), "--column", "text"]
    for number in (1, 2):
        assert main([*parts, "--input", str(table), "--shard", f"{number}/2"]) == 0
    assert main([*parts, "--join"]) == 0
    joined = capsysbinary.readouterr().out
    assert main(["translate", run, "--input", str(plain), "--workers", "1"]) == 0
    assert capsysbinary.readouterr().out == joined


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.parquet"])
def test_a_row_without_text_is_named_and_loses_no_other_shard(tmp_path, name, run, capsys):
    table = as_table(tmp_path / name, ["a", "b\nb", "c", "d", "e", None, "g"])
    parts = ["translate", run, "--input", str(table), "--into", str(tmp_path / "parts")]
    assert main([*parts, "--column", "text", "--shard", "2/2"]) == 1
    assert f"{name}:6: a text was expected, found None" in capsys.readouterr().err
    assert main([*parts, "--column", "text", "--shard", "1/2"]) == 0
    assert (tmp_path / "parts" / "parts" / "00000000").read_text().count("\n") == 4


def test_a_parquet_file_without_its_column_or_its_end_is_refused(tmp_path):
    table = as_table(tmp_path / "corpus.parquet", ["a"] * 40)
    for column, told in (
        ("", "is a Parquet file"),
        ("id", "no column of texts id"),
        ("x", "found"),
    ):
        with pytest.raises(DataError, match=told):
            list(chunks_of([str(table)], column))
    table.write_bytes(table.read_bytes()[:-9])
    with pytest.raises(DataError, match="damaged Parquet"):
        list(chunks_of([str(table)], "text"))


def test_a_pipe_cannot_be_cut_into_shards():
    with pytest.raises(DataError, match="stdin or a pipe"):
        list(chunks_of(["-"]))


@pytest.mark.parametrize("extra", [[], ["--n-best", "2"], ["--json"]])
def test_joined_translations_are_those_of_one_process(run, corpus, tmp_path, capsysbinary, extra):
    arguments = ["translate", run, "--input", str(corpus), *extra]
    assert main([*arguments, "--workers", "1"]) == 0
    whole = capsysbinary.readouterr().out
    parts = [*arguments, "--into", str(tmp_path / "parts")]
    for number in (2, 1, 3):
        assert main([*parts, "--shard", f"{number}/3"]) == 0
    told = capsysbinary.readouterr().err.decode()
    assert "shard 2/3: 3 parts (10 lines) answered, 0 were there already" in told
    assert main([*parts, "--join"]) == 0
    assert capsysbinary.readouterr().out == whole
    assert main([*parts, "--join", "--set", "decode.max_extra=7"]) == 1
    assert b"was begun with decode" in capsysbinary.readouterr().err


@pytest.mark.parametrize("how", [[], ["--beside"], ["--among"]])
def test_joined_vectors_are_those_of_one_process(run, corpus, tmp_path, capsysbinary, how):
    other = tmp_path / "other.txt"
    other.write_text("".join(f"{SENTENCES[n % 3]}\n" for n in range(30)))
    embed = ["embed", run, "--input", str(corpus), *how, *([str(other)] if how else [])]
    assert main(embed) == 0
    whole = capsysbinary.readouterr().out
    parts = [*embed, "--into", str(tmp_path / "parts")]
    for number in (2, 1):
        assert main([*parts, "--shard", f"{number}/2"]) == 0
    assert main([*parts, "--join"]) == 0
    assert capsysbinary.readouterr().out == whole
    if how:
        other.write_text("".join(f"{SENTENCES[n % 4]}\n" for n in range(30)))
        assert main([*parts, "--join"]) == 1
        assert b"was begun with" in capsysbinary.readouterr().err


@pytest.mark.parametrize("other", ["/dev/zero", "missing.txt"])
def test_what_shards_compare_with_is_a_file(run, corpus, tmp_path, other, capsys):
    embed = ["embed", run, "--input", str(corpus), "--into", str(tmp_path / "parts")]
    assert main([*embed, "--beside", other]) != 0
    assert other in capsys.readouterr().err


@pytest.mark.parametrize("shard", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3", "1/9999999"])
def test_a_shard_that_cannot_be_is_refused(run, corpus, tmp_path, shard, capsys):
    into = ["--into", str(tmp_path / "parts"), "--shard", shard]
    assert main(["translate", run, "--input", str(corpus), *into]) == 1
    assert "K from 1 to N" in capsys.readouterr().err


@pytest.mark.slow
def test_a_shard_killed_at_any_moment_and_started_again_ends_as_if_it_had_not_been(
    run, tmp_path, capsysbinary
):
    corpus = tmp_path / "long.txt"
    corpus.write_text("".join(f"the cat sees {n} dogs .\n" for n in range(20_000)))
    parts = ["translate", run, "--input", str(corpus), "--into", str(tmp_path / "parts")]
    for seconds in (0.5, 2.5, 3.0, 3.5, 4.0, 5.0):
        process = subprocess.Popen([sys.executable, "-m", "clearhead", *parts])
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "clearhead", *parts], check=True, env=environment)
    joined = subprocess.run(
        [sys.executable, "-m", "clearhead", *parts, "--join"], check=True, capture_output=True
    ).stdout
    plain = ["translate", run, "--input", str(corpus), "--workers", "1"]
    whole = subprocess.run(
        [sys.executable, "-m", "clearhead", *plain], check=True, capture_output=True
    ).stdout
    assert joined == whole


MEMORY = """
import sys
from pathlib import Path
from clearhead.scale import Shard, answer_here, chunks_of
shard = Shard(Path(sys.argv[2]), 2, 100)
with shard.opened({}):
    missing = shard.missing(chunks_of([sys.argv[1]]))
    for chunk, lines in answer_here(missing, lambda: lambda lines, _: lines, lambda c: c.read("strict")):
        shard.save(chunk, lines)
    shard.close()
status = Path("/proc/self/status").read_text()  # the peak, which getrusage inherits from the parent
print(status.partition("VmHWM:")[2].split()[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
def test_memory_does_not_grow_with_the_corpus(tmp_path):
    peaks = []
    for n_lines in (100_000, 1_000_000):
        corpus = tmp_path / f"{n_lines}.txt"
        corpus.write_text("".join(f"line {n} of a long corpus\n" for n in range(n_lines)))
        program = [sys.executable, "-c", MEMORY, str(corpus), str(tmp_path / f"parts-{n_lines}")]
        done = subprocess.run(program, check=True, capture_output=True, text=True)
        peaks.append(int(done.stdout))
    assert peaks[1] < 1.1 * peaks[0]
