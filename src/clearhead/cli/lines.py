"""Lines in and lines out: what the verbs that answer line by line share."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from clearhead.errors import DataError


def source_chunks(
    text: str | None, files: list[str] | None, errors: Literal["strict", "replace"]
) -> Iterable[Sequence[str]]:
    """The text, or the lines of files, a terminal or a pipe, as many at a time as have come."""
    from clearhead.data.lines import Lines
    from clearhead.tasks.user import CHUNK

    if text is not None:
        if files:
            raise DataError(
                "There is a text and --input, and only one of them can be read.", "Leave one out."
            )
        return [[text]]
    if not files and sys.stdin.isatty():
        return typed_lines()
    return (
        block.lines[start : start + CHUNK]
        for block in Lines(files or "-", errors).blocks()
        for start in range(0, len(block.lines), CHUNK)
    )


def typed_lines() -> Iterator[list[str]]:
    """Lines from a terminal; Ctrl-D ends them."""
    sys.stderr.write("Type a text and Enter; Ctrl-D ends.\n")
    while True:
        sys.stderr.write("> ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            return
        yield [line.removesuffix("\n")]


def one_line(text: str) -> str:
    """The text without line ends: one line in is one line out."""
    return text.replace("\n", " ")


class LineNotes:
    """What was noticed on the way, told once for all lines that it concerns."""

    def __init__(self) -> None:
        self.lines: dict[str, list[int]] = {}

    def add(self, number: int, notes: Iterable[str]) -> None:
        """Remember what concerns a line, counted from 1."""
        for note in notes:
            self.lines.setdefault(note, []).append(number)

    def print(self) -> None:
        for note, numbers in self.lines.items():
            others = f" and {len(numbers) - 1:,} more" if len(numbers) > 1 else ""
            sys.stderr.write(f"line {numbers[0]:,}{others}: {note}\n")
