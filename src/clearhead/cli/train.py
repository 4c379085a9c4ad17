"""`clearhead train`: from files to a run folder, watched."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from clearhead.config import Given
    from clearhead.train import Report
    from clearhead.train.plan import Plan


def train(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES", help="Training files; or a run to go on with; or a config.toml."
        ),
    ],
    into: Annotated[
        Path | None, typer.Option(metavar="RUN", help="The run folder to make or to go on with.")
    ] = None,
    task: Annotated[
        Literal["translation", "chat", "classification", "writing"] | None,
        typer.Option(
            help="What to learn; else translation, or what the run or the config.toml says."
        ),
    ] = None,
    validation: Annotated[
        list[str] | None,
        typer.Option(metavar="FILES", help="Files to validate on; else a share is held out."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help='"45m", "1h 30m", "8000 steps" or "20 epochs".'),
    ] = None,
    size: Annotated[
        Literal["tiny", "small", "base", "big"] | None,
        typer.Option(help="The model's size; else it is chosen."),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="RUN", help="A run whose weights and tokenizer to begin with."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.NAME=VALUE", help="Any setting; may be repeated."),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option(help="Also write for TensorBoard, into the run folder.")
    ] = False,
) -> None:
    """Train a model, or go on where a run was interrupted: the same command does both.

    - `clearhead train train.en train.de --into runs/en-de --budget 45m`
    - `clearhead train pairs.tsv --into runs/en-de --set train.seed=7`
    - `clearhead train talk.jsonl --task chat --into runs/chat --budget 20m` (or questions and answers in a .tsv)
    - `clearhead train books/*.txt --task writing --into runs/bard --budget 1h`
    - `clearhead train runs/en-de`
    - `clearhead train config.toml --into runs/en-de`
    - `clearhead train reviews.tsv --task classification --from runs/books --into runs/mood`
    """
    given, folder = asked(
        files, into, validation=validation, budget=budget, size=size, start=start, sets=settings
    )
    watched(task or task_of(given, folder), given, folder, tensorboard)


def watched(task: str, given: "Given", folder: Path, tensorboard: bool = False) -> None:
    """Train with somebody watching; a signal that stops it is told by the exit code."""
    from clearhead.cli.display import watch
    from clearhead.tasks import TASKS
    from clearhead.tasks.fit import fit

    with watch(folder) as screen:
        reports = fit(TASKS[task], given, folder, screen.progress)
        for report in with_tensorboard(reports, folder) if tensorboard else reports:
            screen.show(report)
    if screen.stopped_by is not None:
        raise typer.Exit(128 + screen.stopped_by)


def task_of(given: "Given", folder: Path) -> str:
    """What a run is for, if there is one, and else what the settings say."""
    from clearhead.config import Config
    from clearhead.folder import RunFolder

    run = RunFolder(folder)
    return run.config().task if run.exists() else Config(task=given.get("task", "translation")).task


def asked(
    files: list[str],
    into: Path | None,
    *,
    validation: list[str] | None,
    budget: str | None,
    size: str | None,
    start: Path | None,
    sets: list[str] | None,
) -> "tuple[Given, Path]":
    """The settings that a command line gives, and the folder that it means."""
    from clearhead.config import DataConfig, Given, assigned, layered, read_given
    from clearhead.errors import ConfigError
    from clearhead.folder import RunFolder

    given: Given = {}
    origin = Path()
    if len(files) == 1 and into is None and RunFolder(files[0]).exists():
        files, into = [], Path(files[0])
    elif len(files) == 1 and files[0].endswith(".toml"):
        given, origin, files = read_given(Path(files[0])), Path(files[0]).parent, []
    if into is None:
        raise ConfigError(
            "There is no folder to train into.", "Give one, for example: --into runs/my-model"
        )
    data = DataConfig(**layered(given).get("data", {}))
    paths = {
        "files": [*map(Path, files)] or [origin / file for file in data.files],
        "validation_files": [*map(Path, validation or ())]
        or [origin / file for file in data.validation_files],
    }
    train = {"budget": budget, "start": os.path.relpath(start, into) if start else None}
    options = {
        "data": {
            name: [os.path.relpath(path, into) for path in each]
            for name, each in paths.items()
            if each
        },
        "train": {name: value for name, value in train.items() if value is not None},
        **({"size": size} if size else {}),
    }
    return layered(given, options, assigned(sets or ())), into


def with_tensorboard(reports: "Iterator[Plan | Report]", folder: Path) -> "Iterator[Plan | Report]":
    """The reports as they are, their numbers also written for TensorBoard."""
    from torch.utils.tensorboard import SummaryWriter

    from clearhead.train import StepReport, Validation

    with SummaryWriter(str(folder / "tensorboard")) as writer:
        for report in reports:
            if isinstance(report, StepReport | Validation):
                for name, value in report.line().items():
                    if isinstance(value, float):
                        writer.add_scalar(f"{report.line()['kind']}/{name}", value, report.step)
            yield report
