"""Files as lines of text. A line ends at "\\n" and nowhere else: counts agree with `wc -l`.

Files are read in big pieces, so that a pass is quick and memory stays flat however long they are.
"""

import gzip
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import Literal, NamedTuple

from clearhead.errors import DataError, shown

PIECE = 1 << 20
"""Bytes read at a time."""

LONGEST_LINE = 1 << 26
"""Bytes; what has no end of line for longer is no text, and may have no end at all."""
MOST_FILES = 10_000
"""Files that are taken out of a folder; where there are more, another folder is meant."""

GZIP_MAGIC = b"\x1f\x8b"
STDIN = "-"

Errors = Literal["strict", "replace", "surrogateescape"]
Progress = Callable[[str, int, int | None], None]
"""Told what is being done, how much of it is done, and how much there is, where that is known."""


class LineBlock(NamedTuple):
    """Some consecutive lines of one file; the first of them is line `first`, counted from 1."""

    path: str
    first: int
    lines: list[str]


@dataclass
class Notes:
    """What was quietly put right while a file was read, for the caller to tell."""

    carriage_returns: int = 0
    byte_order_mark: bool = False
    invalid_lines: int = 0

    def sentences(self) -> list[str]:
        crs, invalid = self.carriage_returns, self.invalid_lines
        found = {
            "a byte order mark at the start was stripped": self.byte_order_mark,
            f"{crs:,} lines ended in CR LF; the CR was stripped": crs,
            f"{invalid:,} lines hold bytes that are not UTF-8; they were replaced": invalid,
        }
        return [sentence for sentence, holds in found.items() if holds]


class Lines:
    """The lines of files, in order, as often as asked; a pipe or "-" (stdin) can be read only once.

    `errors="replace"` reads past invalid UTF-8 and counts it; `"surrogateescape"` keeps the bytes
    recoverable.
    """

    def __init__(self, paths: str | Path | Iterable[str | Path], errors: Errors = "strict") -> None:
        self.paths = files_in([paths] if isinstance(paths, str | Path) else paths)
        self.errors: Errors = errors
        self.notes: dict[str, Notes] = {}
        """By file, complete once the file has been read to its end."""
        self.bytes_read = 0
        """How far the pass has come on disk, for a progress bar; `size_on_disk` is the end."""
        self._spent: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(block.lines for block in self.blocks())

    def blocks(self) -> Iterator[LineBlock]:
        """The same lines in lists, with their place, for who must say where something stands."""
        done = 0
        for path in self.paths:
            yield from self._file(path, done)
            done += size_on_disk([path])

    def chunks(self, n: int) -> Iterator[LineBlock]:
        """The same, at most n lines at a time: a pure function of the files, if none is a pipe."""
        for block in self.blocks():
            for start in range(0, len(block.lines), n):
                lines = block.lines[start : start + n]
                yield LineBlock(block.path, block.first + start, lines)

    def _file(self, path: str, done: int) -> Iterator[LineBlock]:
        """The blocks of one file; those before it have the bytes that are `done`."""
        if path in self._spent:
            raise DataError(
                f"{path} is a pipe: it can be read only once.", "Save it to a file and give that."
            )
        if is_pipe(path):
            self._spent.add(path)
        notes, number = Notes(), 1
        with opened(path) as (file, raw):
            for data in whole_lines(file, path):
                text = self._decoded(data, path, number, notes)
                if number == 1 and text.startswith("\ufeff"):
                    text, notes.byte_order_mark = text[1:], True
                lines = text.split("\n")
                if "\r" in text:
                    notes.carriage_returns += sum(line.endswith("\r") for line in lines)
                    lines = [line.removesuffix("\r") for line in lines]
                self.bytes_read = done + (0 if is_pipe(path) else raw.tell())
                yield LineBlock(path, number, lines)
                number += len(lines)
        self.notes[path] = notes

    def _decoded(self, data: bytes, path: str, number: int, notes: Notes) -> str:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            if self.errors == "strict":
                raise invalid_utf8(data, error.start, path, number) from None
            # What is not UTF-8 in a line goes missing when it is ignored.
            lines = data.split(b"\n")
            notes.invalid_lines += sum(
                line != line.decode(errors="ignore").encode() for line in lines
            )
            return data.decode("utf-8", self.errors)


def only_text() -> str:
    """All of stdin as one text, which must not be longer than a line may be."""
    lines, n_bytes = Lines(STDIN), 0
    found: list[str] = []
    for block in lines.blocks():
        found += block.lines
        n_bytes += sum(map(len, block.lines))
        if n_bytes > LONGEST_LINE:
            raise DataError(
                f"Standard input has more than {LONGEST_LINE:,} characters.", "Give less of it."
            )
    return "\n".join(found)


def files_in(paths: Iterable[str | Path]) -> list[str]:
    """The files themselves, and all in each folder, by name; hidden ones are not data."""
    return [file for path in paths for file in files_at(path)]


def files_at(path: str | Path) -> list[str]:
    if str(path) == STDIN:
        return [STDIN]
    path = Path(path)
    if not path.exists():
        raise DataError(f"There is no file {shown(str(path))}.", neighbours(path))
    if not path.is_dir():
        return [str(path)]
    names = (
        file
        for file in path.rglob("*")
        if not any(p.startswith(".") for p in file.relative_to(path).parts)
    )
    found = list(islice(names, MOST_FILES + 1))
    if len(found) > MOST_FILES:
        raise DataError(
            f"The folder {shown(str(path))} holds more than {MOST_FILES:,} files.",
            "Give a folder with the text files alone, or join them.",
        )
    files = [str(file) for file in sorted(found) if file.is_file()]
    if not files:
        raise DataError(
            f"The folder {shown(str(path))} holds no files.",
            "Give a folder with text files in it.",
        )
    return files


def neighbours(path: Path) -> str:
    """What else lies where a missing file was looked for."""
    folder = path.parent
    if not folder.is_dir():
        return f"Nor is there a folder {shown(str(folder))}. Check the path."
    names = sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))
    return f"In {folder} there are: {shown(', '.join(names) or 'no files')}. Check the name."


def is_pipe(path: str) -> bool:
    """Whether the bytes are gone once read."""
    return path == STDIN or not Path(path).is_file()


def size_on_disk(paths: Iterable[str]) -> int:
    """Bytes of all files together; pipes count nothing, for nobody knows."""
    return sum(Path(path).stat().st_size for path in paths if not is_pipe(path))


@contextmanager
def opened(path: str) -> Iterator[tuple[BufferedIOBase, BufferedReader]]:
    """A file's text bytes, unpacked if its content is gzip, and the file as it lies on disk."""
    try:
        file = nullcontext(sys.stdin.buffer) if path == STDIN else Path(path).open("rb")  # noqa: SIM115
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}.", "Check the file and its permissions."
        ) from None
    with file as raw:
        assert isinstance(raw, BufferedReader)
        start = raw.peek(2)[:2]
        if start and start != GZIP_MAGIC and path.endswith(".gz"):
            raise DataError(
                f"{path} is called .gz but is not gzip: "
                f"it begins with {start.hex(' ')}, not {GZIP_MAGIC.hex(' ')}.",
                "Rename it, or download it again.",
            )
        yield (gzip.GzipFile(fileobj=raw) if start == GZIP_MAGIC else raw), raw


def whole_lines(file: BufferedIOBase, path: str) -> Iterator[bytes]:
    """Pieces that end where a line ends, without that newline; a long line is gathered first."""
    pending: list[bytes] = []
    for piece in file_pieces(file, path):
        end = piece.rfind(b"\n")
        if end < 0:
            pending.append(piece)
            if len(pending) * PIECE > LONGEST_LINE and sum(map(len, pending)) > LONGEST_LINE:
                raise DataError(
                    f"{path} has a line of more than {LONGEST_LINE:,} bytes.",
                    "Give text that is broken into lines.",
                )
            continue
        yield b"".join([*pending, piece[:end]])
        pending = [piece[end + 1 :]]
    if last := b"".join(pending):
        yield last


def file_pieces(file: BufferedIOBase, path: str) -> Iterator[bytes]:
    """The bytes as they come, with the troubles of disks and gzip told as ours."""
    read = file.read1 if path == STDIN else file.read  # a person typing need not wait
    try:
        while piece := read(PIECE):
            yield piece
    except EOFError:
        raise DataError(
            f"{path} is cut off: the gzip data end too early.", "Copy or download it again."
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged gzip: {error}.", "Copy or download it again.") from None
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}.", "Check the file and its disk."
        ) from None


def invalid_utf8(data: bytes, at: int, path: str, number: int) -> DataError:
    """Where the first bad byte is, so that a person can find it with any editor."""
    line = number + data.count(b"\n", 0, at)
    offset = at - (data.rfind(b"\n", 0, at) + 1)
    return DataError(
        f"{path}:{line}: not UTF-8 at byte offset {offset} of the line: "
        f"{data[at : at + 4].hex(' ')}.",
        "Convert the file (iconv -f latin1 -t utf-8), or have `clearhead doctor --fix` leave the "
        "line out.",
    )
