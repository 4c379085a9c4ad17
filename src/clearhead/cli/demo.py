"""`clearhead demo`: a model learns from nothing, in front of your eyes."""

from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import typer

from clearhead.cli.demos import chat, classification, translation, writing
from clearhead.cli.demos.stage import say, trained

DEMOS: dict[str, ModuleType] = {
    "translation": translation,
    "chat": chat,
    "classification": classification,
    "writing": writing,
}
"""Each has `settings(data, into)`, `prepared(console, data)`, the text TRAINING, and `shown(console, into, data)`."""


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

    from clearhead.errors import FolderError
    from clearhead.folder import RunFolder

    console = Console(highlight=False, markup=False, width=min(100, Console().width))
    into = into or Path("runs", "demo" if task == "translation" else f"demo-{task}")
    folder, data = RunFolder(into), into.with_name(into.name + "-data")
    show = DEMOS[task]
    config = show.settings(data, into).but(task=task)
    if folder.exists() and folder.config().data.files != config.data.files:
        raise FolderError(
            f"{into} is a run of something else.",
            "Show the demo in another folder, with: --into RUN",
        )
    if folder.has_weights():
        say(
            console,
            "Already trained",
            f"{into} comes from an earlier demo. Delete it to watch the training again.",
        )
    else:
        show.prepared(console, data)
        trained(console, show.TRAINING, config, into)
    show.shown(console, into, data)
