"""`clearhead runs`, `info`, `verify`, `average`, `rm`, `import` and `export`: run folders kept in
order, models from elsewhere made into runs, and runs written for other programs.
"""

import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from clearhead.cli import options
from clearhead.errors import ConfigError, FolderError


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
            typer.echo(options.to_json(vars(run) | {"path": str(run.path)}))
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
    from clearhead.folder.run import RunFolder, bytes_in
    from clearhead.machine import cache_folder
    from clearhead.tasks.runs import RunInfo

    about, folder = RunInfo.of(run), RunFolder(run)
    if as_json:
        values = {"path": str(about.path), "config": folder.config().model_dump()}
        typer.echo(options.to_json(vars(about) | values))
        return
    cache = cache_folder()
    if about.ended:
        use = options.USES[about.task].format(run=run, text="TEXT")
        size = f"{about.parameters:,} parameters, {about.bytes / 1e6:,.1f} MB on disk."
        told = f"{folder.card()}\n{size}\nUse it: {use}"
    else:
        told = (
            f"{run} is a {about.task} run that has not ended: {folder.told_progress()}.\n"
            f"Resume with: clearhead train {run}"
        )
    typer.echo(
        f"{told}\nTokenised text, which may be deleted, is in {cache}: "
        f"{bytes_in(cache) / 1e6:,.1f} MB."
    )


def rm(
    run: options.AnyRun,
    checkpoints: Annotated[
        bool,
        typer.Option(
            "--checkpoints",
            help="Delete only the checkpoints: the run can be used as before, and is small.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
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
    last: Annotated[int, typer.Option(min=1, help="So many of the newest checkpoints.")] = 5,
) -> None:
    """Average the newest checkpoints, as the paper does, if that is better.

    Both are measured on the run's validation set; the former weights are kept in the folder.

    - `clearhead average runs/en-de --last 5`
    """
    from clearhead.tasks.runs import average as use_average

    typer.echo(use_average(run, last))


def import_(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A folder of Hugging Face or CTranslate2, or an Argos package."
        ),
    ],
    into: Annotated[Path, typer.Option(metavar="RUN", help="The run folder to make, a new one.")],
    quiet: options.Quiet = False,
) -> None:
    """Make a run of a model from elsewhere, with a certificate that it is the same.

    Nothing is downloaded, and nothing in the source is run.

    - `clearhead import opus-mt-en-de --into runs/opus`
    - `clearhead import all-MiniLM-L6-v2 --into runs/minilm`
    """
    with options.busy(f"importing {source}"):
        from clearhead.exchange import import_model

        certificate = import_model(source, into)
    options.tell("" if quiet else str(certificate))


def export(
    run: options.AnyRun,
    into: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The folder or package to make, a new one.")
    ],
    to: Annotated[
        Literal["hf", "ctranslate2", "argos", "onnx"],
        typer.Option(help="The format; hf is Hugging Face, argos a package for Argos Translate."),
    ] = "hf",
    precision: Annotated[
        Literal["float32", "float16", "int16", "int8"],
        typer.Option(
            help="How the weights are stored; less is smaller and less exact (ctranslate2, argos)."
        ),
    ] = "float32",
    int8: Annotated[bool, typer.Option("--int8", help="Short for --precision int8.")] = False,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILES", help="A test set to score both models on (ctranslate2, argos)."
        ),
    ] = None,
    languages: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODES",
            help="The languages it translates from and into, as in en de; else what the run knows "
            "(argos).",
        ),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Write the model of a run for another program, with a certificate that it is the same.

    What a format cannot express is refused by name.

    - `clearhead export runs/opus --to hf --into opus-mt-tuned`
    - `clearhead export runs/en-de --to ctranslate2 --int8 --into en-de-ct2 --test test.en test.de`
    - `clearhead export runs/en-de --to argos --languages en de --into en_de.argosmodel`
    """
    asked = {"precision": "int8" if int8 else precision, "test": test, "languages": languages}
    how: dict[str, Any] = {
        name: given for name, given in asked.items() if given and given != "float32"
    }
    for name in how:
        if to in ("hf", "onnx") or (name == "languages" and to != "argos"):
            raise ConfigError(f"--to {to} has no --{name}.", "Leave it out.")
    with options.busy(f"writing {into}"):
        from clearhead.exchange import export_model

        certificate = export_model(run, to, into, **how)
    options.tell("" if quiet else str(certificate))
