"""`clearhead demo`: a model learns from nothing, in front of your eyes."""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer


def demo(
    task: Annotated[
        Literal["translation", "chat", "classification", "writing"],
        typer.Option(help="What to learn."),
    ] = "translation",
    into: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="The run folder to make, or to show again; else in runs."),
    ] = None,
) -> None:
    """Train a small model from scratch in a minute or two, and see what it can do.

    - `clearhead demo`
    - `clearhead demo --task chat`
    - `clearhead demo --into runs/again`
    """
    from rich.console import Console

    from clearhead.cli.display import train_and_watch
    from clearhead.demo import SHOWS
    from clearhead.errors import FolderError
    from clearhead.folder import RunFolder

    console = Console(highlight=False, markup=False, width=min(100, Console().width))
    into = into or Path("runs", "demo" if task == "translation" else f"demo-{task}")
    folder, show = RunFolder(into), SHOWS[task](console, into)
    given = show.given()
    if folder.exists() and folder.config().data.files != tuple(given["data"]["files"]):
        raise FolderError(
            f"{into} is a run of something else.",
            "Show the demo in another folder, with: --into RUN",
        )
    if folder.has_weights():
        show.say(
            "Already trained",
            f"{into} comes from an earlier demo. Delete it to watch the training again.",
        )
    else:
        show.introduce()
        show.say("Training", show.training)
        train_and_watch(task, given, into)
    by_name = "clearhead" if shutil.which("clearhead") else os.path.relpath(sys.argv[0])
    program = "python -m clearhead" if sys.argv[0].endswith("__main__.py") else by_name
    for command in show.perform():
        console.print(f"  {program} {command}", soft_wrap=True)
