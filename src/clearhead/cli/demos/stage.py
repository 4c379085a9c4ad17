"""What every demo does before its audience: it says things, trains, and tells what to type next."""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.config import Config


def trained(console: "Console", text: str, config: "Config", into: Path) -> None:
    """Train, or go on where an earlier demo was interrupted."""
    from clearhead.cli.display import watch
    from clearhead.tasks import TASKS
    from clearhead.tasks.fit import fit

    say(console, "Training", text)
    with watch(into) as screen:
        for report in fit(TASKS[config.task], config, into, screen.progress):
            screen.show(report)
    if screen.stopped_by is not None:
        raise typer.Exit(128 + screen.stopped_by)


def written(data: Path, files: dict[str, Iterable[str]]) -> None:
    """Put lines into files of a folder, which appears when it is whole; one that is there stays as it is."""
    if data.exists():
        return
    unfinished = data.with_name(data.name + ".unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)
    for name, lines in files.items():
        (unfinished / name).write_text(
            "".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n"
        )
    unfinished.rename(data)


def suggested(console: "Console", text: str, commands: Sequence[str]) -> None:
    """What to type next."""
    by_name = "clearhead" if shutil.which("clearhead") else os.path.relpath(sys.argv[0])
    program = "python -m clearhead" if sys.argv[0].endswith("__main__.py") else by_name
    say(console, "What next", text)
    for command in commands:
        console.print(f"  {program} {command}", soft_wrap=True)


def say(console: "Console", title: str, text: str) -> None:
    if title:
        console.print(f"{title}\n", style="bold")
    console.print(f"{text}\n")


def table(console: "Console", rows: Sequence[tuple[str, str]]) -> None:
    for source, target in rows:
        console.print(f"  {source}\n  → {target}", soft_wrap=True)
    console.print()
