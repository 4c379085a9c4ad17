"""What a run reports, one line of JSON after the other."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clearhead.disk import atomic_file, disk_errors, open_inside
from clearhead.errors import FolderError

MAX_LINE = 2**20


class Log:
    """An append-only file of reports (JSON lines); `cut` drops what a run will report again."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name, self.path = root, name, root / name

    def write(self, report: Mapping[str, Any]) -> None:
        """Append one line, at once."""
        line = json.dumps(report, ensure_ascii=False).encode() + b"\n"
        flags = (
            os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
        with (
            disk_errors(self.path, len(line)),
            os.fdopen(os.open(self.path, flags, 0o666), "ab") as file,
        ):
            file.write(line)

    def lines(self) -> Iterator[dict[str, Any]]:
        """All reports so far; a last line without an end was never finished, and is none."""
        if not os.path.lexists(self.path):
            return
        with open_inside(self.root, self.name) as file:
            number = 0
            while (line := file.readline(MAX_LINE)).endswith(b"\n"):
                number += 1
                yield self.parsed(line, number)
            if len(line) == MAX_LINE:
                raise self.damaged(number + 1)

    def parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            report = json.loads(line)
        except (ValueError, RecursionError):
            report = None
        if not isinstance(report, dict) or not isinstance(report.get("step", 0), int):
            raise self.damaged(number)
        return report

    def damaged(self, number: int) -> FolderError:
        return FolderError(f"{self.path}:{number} is not a report.", "Remove the line.")

    def cut(self, step: int) -> None:
        """Drop the reports beyond a step, all at once.

        One without a step belongs to the step of the one before it.
        """
        kept, current = [], 0
        for report in self.lines():
            current = report.get("step", current)
            if current <= step:
                kept.append(json.dumps(report, ensure_ascii=False))
        content = "".join(f"{line}\n" for line in kept).encode()
        with atomic_file(self.path, len(content)) as file:
            file.write(content)
