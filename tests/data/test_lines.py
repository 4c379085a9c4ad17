"""Lines: what `wc -l` counts, in order, whatever the bytes."""

import gzip
import io
import sys
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clearhead.data.lines import GZIP_MAGIC, Lines
from clearhead.errors import DataError

PIECES = [
    "",
    "a",
    "word ",
    "ünï",
    "日本語",
    "😀",
    "👩‍👩‍👧",
    "\u202eאב",
    "e\u0301",
    "\u2028",
    "\u2029",
    "\x85",
    "\v",
    "\f",
    "\x1c",
    "\r",
    "\r\r",
    "\0",
    "\t",
    "\ufeff",
    "</s>",
    "\u00a0",
    "\u3000",
    "\ufffd",
    "x" * 300,
]
"""A sample of every row of the table of troublesome inputs that is text."""

texts = st.lists(st.lists(st.sampled_from(PIECES), max_size=5).map("".join), max_size=12)
endings = st.sampled_from(["\n", "\r\n"])


@settings(max_examples=300, deadline=None)
@given(texts, endings, st.booleans(), st.booleans(), st.booleans(), st.integers(1, 40))
def test_a_file_has_as_many_lines_as_wc_counts(
    tmp_path_factory, lines, ending, is_last_ended, has_mark, is_packed, piece
):
    text = ("\ufeff" if has_mark else "") + ending.join(lines) + (ending if is_last_ended else "")
    data = text.encode()
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(gzip.compress(data) if is_packed else data)
    source = Lines(path)
    with mock.patch("clearhead.data.lines.PIECE", piece):
        found = list(source)
    is_unended = bool(data) and not data.endswith(b"\n")
    assert len(found) == data.count(b"\n") + is_unended
    expected = data.split(b"\n")[: len(found)]
    assert found == [
        line.decode().removeprefix("\ufeff" if n == 0 else "\n").removesuffix("\r")
        for n, line in enumerate(expected)
    ]
    assert list(source) == found, "a second pass finds the same"
    if found:
        assert source.notes[str(path)].carriage_returns == sum(
            line.endswith(b"\r") for line in expected
        )
        assert source.notes[str(path)].byte_order_mark == data.startswith(b"\xef\xbb\xbf")


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), min_size=1, max_size=8)
)
def test_no_line_is_lost_however_broken_its_bytes(tmp_path_factory, lines):
    assume(not lines[0].startswith(GZIP_MAGIC))
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert len(list(Lines(path, errors="replace"))) == len(lines)
    kept = [line.encode(errors="surrogateescape") for line in Lines(path, errors="surrogateescape")]
    bare = [line.removesuffix(b"\r") for line in lines]
    bare[0] = lines[0].removeprefix(b"\xef\xbb\xbf").removesuffix(b"\r")
    assert kept == bare


def test_invalid_utf8_is_told_with_line_offset_and_bytes(tmp_path):
    path = tmp_path / "train.de"
    path.write_bytes("für\nschön ".encode() + b"\xe4\xf6\xfc\xdf!\n")
    with pytest.raises(DataError) as told:
        list(Lines(path))
    assert f"{path}:2: not UTF-8 at byte offset 7 of the line: e4 f6 fc df" in told.value.whole
    assert len(told.value.whole.splitlines()) <= 3


def test_replaced_lines_are_counted(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"good\nb\xffd\n\xfe\xfe\n")
    source = Lines(path, errors="replace")
    assert list(source) == ["good", "b\ufffdd", "\ufffd\ufffd"]
    assert source.notes[str(path)].invalid_lines == 2
    assert len(source.notes[str(path)].sentences()) == 1


def test_a_folder_is_its_files_in_order_and_each_file_begins_a_line(tmp_path):
    (tmp_path / "sub").mkdir()
    for name, text in {
        "b.txt": "3\n",
        "a.txt": "1\n2",
        ".hidden": "no\n",
        "sub/c.txt": "4",
    }.items():
        (tmp_path / name).write_text(text)
    assert list(Lines(tmp_path)) == ["1", "2", "3", "4"]
    places = [
        (Path(block.path).name, block.first, block.lines) for block in Lines(tmp_path).blocks()
    ]
    assert places == [
        ("a.txt", 1, ["1"]),
        ("a.txt", 2, ["2"]),
        ("b.txt", 1, ["3"]),
        ("c.txt", 1, ["4"]),
    ]


def test_stdin_is_read_once_and_no_more(monkeypatch):
    stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"one\ntwo")))
    monkeypatch.setattr(sys, "stdin", stream)
    source = Lines("-")
    assert list(source) == ["one", "two"]
    with pytest.raises(DataError, match="only once"):
        list(source)


def test_unreadable_files_are_told_plainly(tmp_path):
    packed = gzip.compress(b"some text\n" * 5_000)
    files = {
        "cut.gz": packed[:-20],
        "torn.gz": packed[:20] + b"\0" * 40 + packed[60:],
        "plain.gz": b"text\n",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "empty").mkdir()
    for name in [*files, "empty", "missing", "nowhere/missing"]:
        with pytest.raises(DataError, match=name.split("/")[0]) as told:
            list(Lines(tmp_path / name))
        assert 2 <= len(told.value.whole.splitlines()) <= 3


def test_an_empty_file_has_no_lines_and_an_empty_line_is_one(tmp_path):
    for data, n_lines in ((b"", 0), (b"\n", 1), (b"\n\n", 2), (b"\r\n", 1), (b"a", 1)):
        (tmp_path / "file").write_bytes(data)
        assert len(list(Lines(tmp_path / "file"))) == n_lines
