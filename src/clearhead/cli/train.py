"""`clearhead train`, `pretrain`, `demo` and `lab`: models trained while somebody watches."""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from clearhead.cli import options
from clearhead.errors import FolderError


def train(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES",
            help="Training files; or a run to resume; or a file of settings (config.toml).",
        ),
    ],
    *,
    into: options.Into = None,
    task: Annotated[options.TaskName | None, options.TaskOption] = None,
    training: options.TrainingOptions,
    tensorboard: Annotated[
        bool,
        typer.Option(
            "--tensorboard",
            help="Also write losses and scores for TensorBoard, into the run folder.",
        ),
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a model, or resume a run that was interrupted. The same command does both.

    - `clearhead train train.en train.de --into runs/en-de --budget 45m`
    - `clearhead train pairs.tsv --columns English German --into runs/en-de --set train.seed=7`
    - `clearhead train talk.jsonl --task chat --into runs/chat --budget 20m`
    - `clearhead train books/*.txt --task writing --into runs/bard --budget 1h`
    - `clearhead train runs/en-de`
    - `clearhead train config.toml --into runs/en-de`
    - `clearhead train reviews.tsv --task classification --from runs/books --into runs/mood`
    """
    train_as_asked(files, into, training, task=task, tensorboard=tensorboard, quiet=quiet)


def pretrain(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES", help="Plain text of any size; or a run to resume."),
    ],
    *,
    into: options.Into = None,
    objective: Annotated[
        Literal["masked", "next", "denoise"],
        typer.Option(
            help="What to predict: masked tokens (encoder), the next token (decoder), or removed "
            "spans (encoder-decoder)."
        ),
    ] = "masked",
    training: options.TrainingOptions,
    quiet: options.Quiet = False,
) -> None:
    """Pre-train on plain text. Then fine-tune for a task: `clearhead train … --from RUN`.

    - `clearhead pretrain books/*.txt --into runs/books --budget 1h` (then classify, or fill gaps)
    - `clearhead pretrain reviews.txt --from runs/books --into runs/reviews` (adapt to other text)
    - `clearhead pretrain books/*.txt --objective next --into runs/books` (then write, or chat)
    - `clearhead pretrain books/*.txt --objective denoise --into runs/books` (then translate)
    """
    train_as_asked(files, into, training, task="pretraining", objective=objective, quiet=quiet)


def train_as_asked(
    files: list[str],
    into: Path | None,
    training: options.TrainingOptions,
    *,
    tensorboard: bool = False,
    quiet: bool,
    **asked: Any,
) -> None:
    """Train what the options ask for, and show how it goes."""
    from clearhead.cli.display import train_and_watch
    from clearhead.config import assigned
    from clearhead.tasks.training import request

    given = vars(training) | {"settings": assigned(training.settings or ())}
    given |= {name: given[name] or () for name in ("validation", "columns")}
    wanted = request(files, into, **given, **asked)
    train_and_watch(*wanted, tensorboard=tensorboard, quiet=quiet)


DemoInto = Annotated[
    Path | None,
    typer.Option(metavar="RUN", help="The run folder to make, or to show again; else one in runs."),
]


def demo(
    task: Annotated[options.TaskName, options.TaskOption] = "translation",
    into: DemoInto = None,
) -> None:
    """Train a small model in two minutes and see what it can do.

    - `clearhead demo`
    - `clearhead demo --task chat`
    - `clearhead demo --into runs/again`
    """
    from rich.console import Console

    from clearhead.cli.display import train_and_watch
    from clearhead.demo import SHOWS
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
        show.say("Training", show.words.training)
        train_and_watch(task, given, into, tells_next=False)  # the show does
        console.print()
    program = program_name()
    for command in show.perform():
        console.print(f"  {program} {command}", soft_wrap=True)


def program_name() -> str:
    """What to type to call this program again."""
    if sys.argv[0].endswith("__main__.py"):
        return "python -m clearhead"
    return "clearhead" if shutil.which("clearhead") else os.path.relpath(sys.argv[0])


LabFiles = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILES",
        help="versus and table3: files of pairs; heads: a run and its test files.",
    ),
]


def lab(
    experiment: Annotated[
        Literal["complexity", "gradients", "versus", "table3", "positions", "heads"],
        typer.Argument(
            metavar="EXPERIMENT",
            help="Which: complexity, gradients, positions, heads, versus or table3.",
        ),
    ],
    files: LabFiles = None,
    *,
    into: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Where to write the report, its tables and pictures."),
    ],
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Smaller sizes: minutes instead of a quarter of an hour."),
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure what the paper claims, on this machine. After an interruption, the same command goes on.

    - `clearhead lab complexity --into lab/complexity` (time of a layer, as texts grow longer)
    - `clearhead lab gradients --into lab/gradients` (who remembers a word seen long ago)
    - `clearhead lab positions --into lab/positions` (the sinusoids, and texts of new lengths)
    - `clearhead lab heads runs/en-de test.en test.de --into lab/heads` (what each head does)
    - `clearhead lab versus train.en train.de --into lab/versus` (LSTM and GRU beside it)
    - `clearhead lab table3 train.en train.de --into lab/table3 --quick` (one part left out)
    """
    from clearhead.cli.display import begun_display
    from clearhead.lab import EXPERIMENTS, perform

    kind = EXPERIMENTS[experiment]
    with begun_display(into, quiet) as display:
        found = perform(kind(**kind.quick if quick else {}), files or [], into, display.progress)
    typer.echo(f"{found}\n\nThe report is {into / 'report.md'}")
