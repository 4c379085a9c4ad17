"""`clearhead runs`, `info`, `verify`, `average` and `rm`: run folders kept in order."""

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli import options
from clearhead.errors import FolderError


def runs(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where the run folders are.")
    ] = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """List the runs in a folder, the newest first.

    - `clearhead runs`
    - `clearhead runs experiments --json`
    """
    from clearhead.tasks.runs import runs_in

    if not folder.is_dir():
        raise FolderError(f"There is no folder {folder}.", "Name the folder that holds your runs.")
    found = runs_in(folder)
    if as_json:
        for run in found:
            typer.echo(json.dumps(vars(run) | {"path": str(run.path)}, ensure_ascii=False))
        return
    rows = [
        (
            str(run.path),
            run.task,
            f"{run.parameters / 1e6:,.1f} M",
            run.score if run.ended else f"not ended, step {run.steps:,}",
            age(time.time() - run.changed),
            f"{run.bytes / 1e6:,.0f} MB",
        )
        for run in found
    ]
    heads = ("run", "task", "weights", "validation", "changed", "disk")
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        typer.echo("  ".join(map(str.ljust, row, widths)).rstrip())


def age(seconds: float) -> str:
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {unit}{'s' if number > 1 else ''} ago"
    return "just now"


def info(run: options.AnyRun, as_json: options.Json = False) -> None:
    """Tell what a run is: its data, scores and size, and how to use it.

    - `clearhead info runs/en-de`
    - `clearhead info runs/en-de --json`
    """
    from clearhead.folder import RunFolder
    from clearhead.tasks.runs import RunInfo

    about, folder = RunInfo.of(run), RunFolder(run)
    if as_json:
        values = vars(about) | {"path": str(about.path)}
        config = folder.config().model_dump()
        typer.echo(json.dumps(values | {"config": config}, ensure_ascii=False))
        return
    if not about.ended:
        typer.echo(
            f"{run} is a {about.task} run that has not ended: {folder.told_progress()}.\n"
            f"Resume with: clearhead train {run}\n{told_of_cache()}"
        )
        return
    use = options.USES[about.task].format(run=run, text="TEXT")
    typer.echo(
        f"{folder.card()}\n{about.parameters:,} parameters, {about.bytes / 1e6:,.1f} MB on disk.\n"
        f"Use it: {use}\n{told_of_cache()}"
    )


def told_of_cache() -> str:
    """Where tokenised text is kept, and how much there is."""
    from clearhead.folder.run import bytes_in
    from clearhead.machine import cache_folder

    cache = cache_folder()
    n_bytes = bytes_in(cache)
    return f"Tokenised text, which may be deleted, is in {cache}: {n_bytes / 1e6:,.1f} MB."


def rm(
    run: options.AnyRun,
    checkpoints: Annotated[
        bool,
        typer.Option(
            "--checkpoints", help="Only the checkpoints: the run stays usable, and is small."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a run, or only its checkpoints.

    - `clearhead rm runs/en-de --checkpoints` (what is left is enough to use the model)
    - `clearhead rm runs/en-de`
    """
    from clearhead.folder import RunFolder

    folder = RunFolder.open(run)
    if checkpoints:
        freed = folder.make_small()
        left = folder.size()
        typer.echo(f"Freed {freed / 1e6:,.1f} MB; {run} has {left / 1e6:,.1f} MB now.")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise FolderError(f"{run} would be deleted.", "Say so with: --yes")
        typer.confirm(f"Delete {run}, {folder.size() / 1e6:,.1f} MB, for good?", abort=True)
    folder.remove()
    typer.echo(f"Deleted {run}.")


def verify(run: options.AnyRun) -> None:
    """Check every file of a run folder for damage.

    - `clearhead verify runs/en-de` (nothing in the folder is changed; exit 1 if something is wrong)
    """
    from clearhead.folder import RunFolder

    problems = RunFolder.open(run).problems()
    typer.echo("\n".join(problems) or f"Nothing is wrong with {run}.")
    raise typer.Exit(bool(problems))


def average(
    run: options.AnyRun,
    last: Annotated[
        int, typer.Option(min=1, help="How many of the newest checkpoints to average.")
    ] = 5,
) -> None:
    """Average the newest checkpoints, as the paper does, if that is better.

    Both are measured on the run's validation set; the former weights are kept in the folder.

    - `clearhead average runs/en-de --last 5`
    """
    from clearhead.tasks.runs import average as use_average

    typer.echo(use_average(run, last))
