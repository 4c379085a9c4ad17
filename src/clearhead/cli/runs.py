"""`clearhead runs`, `info`, `evaluate`, `compare`, `verify`, `average` and `rm`: what runs there are,
how good they are, and how they are kept in order.
"""

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

import clearhead
from clearhead.cli import options
from clearhead.disk import write_output
from clearhead.errors import ConfigError, FolderError

TestSet = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES", help="The test set, in a form like the files that the run was trained on."
    ),
]


def runs(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="The folder that holds the run folders; else runs."),
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
            typer.echo(options.json_line(vars(run)))
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
        typer.echo(options.json_line(vars(about) | {"config": folder.config().model_dump()}))
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


OutputsFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write the translations, or the labels, here."),
]


def evaluate(
    run: options.AnyRun,
    files: TestSet,
    columns: options.Columns = None,
    beam: options.Beam = None,
    output: OutputsFile = None,
    worst: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Show so many of the worst translations.")
    ] = 0,
    settings: options.DecodeSettings = None,
    engine: options.Engine = "auto",
    as_json: options.OneJson = False,
    checkpoint: options.Checkpoint = "",
    ensemble: options.Ensemble = None,
) -> None:
    """Measure a run on a test set.

    - `clearhead evaluate runs/en-de test.en test.de` (BLEU, chrF, TER with signatures)
    - `clearhead evaluate runs/en-de test.en test.de --worst 10`
    - `clearhead evaluate runs/en-de test.en test.de --beam 1 --json`
    - `clearhead evaluate runs/en-de test.en test.de --with runs/en-de-2` (an ensemble)
    - `clearhead evaluate runs/bard test.txt` (perplexity and bits per byte; chatbots likewise)
    """
    with options.busy(f"measuring {run}"):
        from clearhead.machine import n_processors

        user = (
            clearhead.Translator.load(run, *ensemble, checkpoint=checkpoint)
            if ensemble
            else clearhead.load(run, checkpoint=checkpoint)
        )
        changed = beam is not None or settings
        decode = options.decode_config(user.config, settings, beam=beam) if changed else None
        if isinstance(user, clearhead.Translator):
            how = decode or user.config.decode
            own_only = {"--with": ensemble, "--checkpoint": checkpoint}
            options.choose_engine(user, run, how, engine=engine, own_only=own_only)
        found = clearhead.evaluate(
            user, files, decode, columns=columns or (), n_worst=worst, n_workers=n_processors()
        )
    if output:
        if not found.lines:
            raise ConfigError("--output: this test has no outputs to write.", "Leave it out.")
        write_output(output, "".join(f"{line}\n" for line in found.lines))
    typer.echo(json.dumps(found.scores) if as_json else found)


TaskOfOutputs = Annotated[
    Literal["translation", "classification"] | None,
    typer.Option(
        metavar="TASK",
        help="What A and B hold, if they are files: translation (the default) or classification.",
    ),
]


def compare(
    first: Annotated[
        str, typer.Argument(metavar="A", help="A run folder, or a file with an output per line.")
    ],
    second: Annotated[
        str, typer.Argument(metavar="B", help="Another run or file, to compare it with.")
    ],
    files: TestSet,
    task: TaskOfOutputs = None,
    columns: options.Columns = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="HTML",
            help="Write a page that shows every example that they answer differently.",
        ),
    ] = None,
    as_json: options.OneJson = False,
) -> None:
    """Compare two runs on a test set: is the difference more than chance?

    Translators: BLEU, chrF2 and TER with a paired bootstrap test. Classifiers: accuracy with McNemar's
    test. Writers and chatbots: bits per byte.

    - `clearhead compare runs/a runs/b test.en test.de`
    - `clearhead compare runs/a runs/b test.en test.de -o compare.html`
    - `clearhead compare ours.de theirs.de test.en test.de` (files of translations)
    """
    with options.busy(f"comparing {first} and {second}"):
        found = clearhead.compare(first, second, files, task=task or "", columns=columns or ())
    if output:
        write_output(output, found.html())
    typer.echo(options.json_line(found.values()) if as_json else found)
    if output:
        options.tell(f"Written: {output}. Open it in a browser.")


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
    """Average the newest checkpoints, and use the mean if it is better.

    The paper averages, too. The mean and the weights in use are measured on the run's validation
    set; weights that are replaced are kept in the folder.

    - `clearhead average runs/en-de --last 5`
    """
    from clearhead.tasks.runs import average as use_average

    typer.echo(use_average(run, last))
