"""`clearhead evaluate`, `compare` and `lab`: how good a run is, whether another is better, and why."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clearhead.cli import options
from clearhead.disk import write_output
from clearhead.errors import ConfigError

if TYPE_CHECKING:
    from clearhead.tasks import Evaluation


TestSet = Annotated[
    list[str],
    typer.Argument(metavar="FILES", help="A test set, in the form that the run was trained on."),
]
OutputsFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write the translations, or the labels, here."),
]
NumberOfWorst = Annotated[
    int, typer.Option(min=0, max=1_000_000, help="Show so many of the worst translations.")
]


def evaluate(
    run: options.AnyRun,
    files: TestSet,
    columns: options.Columns = None,
    beam: options.Beam = None,
    output: OutputsFile = None,
    worst: NumberOfWorst = 0,
    settings: options.DecodeSettings = None,
    engine: options.Engine = "auto",
    as_json: options.OneJson = False,
    checkpoint: options.Checkpoint = "",
) -> None:
    """Measure a run on a test set.

    - `clearhead evaluate runs/en-de test.en test.de` (BLEU, chrF, TER with signatures)
    - `clearhead evaluate runs/en-de test.en test.de --worst 10`
    - `clearhead evaluate runs/en-de test.en test.de --beam 1 --json`
    - `clearhead evaluate runs/bard test.txt` (perplexity and bits per byte; chatbots likewise)
    """
    with options.busy(f"measuring {run}"):
        from clearhead import tasks
        from clearhead.machine import n_processors

        user = tasks.load(run, checkpoint=checkpoint)
        changed = beam is not None or settings
        decode = options.decode_config(user.config, settings, beam=beam) if changed else None
        if isinstance(user, tasks.Translator):
            how = decode or user.config.decode
            options.choose_engine(user, run, how, engine=engine, checkpoint=checkpoint)
        workers = n_processors()
        found = tasks.evaluate(
            user, files, decode, columns=columns or (), n_worst=worst, n_workers=workers
        )
    if output:
        write_outputs(output, found)
    typer.echo(json.dumps(found.scores) if as_json else found)


def write_outputs(path: Path, found: "Evaluation") -> None:
    if not found.lines:
        raise ConfigError("--output: this test has no outputs to write.", "Leave it out.")
    write_output(path, "".join(f"{line}\n" for line in found.lines))


def compare(
    first: Annotated[
        str, typer.Argument(metavar="A", help="A run folder, or a file with an output per line.")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    files: Annotated[
        list[str], typer.Argument(metavar="FILES", help="A test set, as for evaluate.")
    ],
    task: Annotated[
        Literal["translation", "classification"] | None,
        typer.Option(metavar="TASK", help="What two files of outputs hold: translation (default)."),
    ] = None,
    columns: options.Columns = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="HTML", help="A page with every example that differs."
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
        from clearhead.tasks.comparison import compare as compared

        found = compared(first, second, files, task=task or "", columns=columns or ())
    if output:
        write_output(output, found.html())
    typer.echo(json.dumps(found.values(), ensure_ascii=False) if as_json else found)
    if output:
        options.tell(f"Written: {output}. Open it in a browser.")


def lab(
    experiment: Annotated[
        Literal["complexity", "gradients", "versus", "table3", "positions", "heads"],
        typer.Argument(
            metavar="EXPERIMENT", help="complexity, gradients, versus, table3, positions or heads."
        ),
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES", help="Pairs for versus and table3; a run and its test files for heads."
        ),
    ] = None,
    *,
    into: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where report, tables and pictures go.")
    ],
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Smaller sizes: minutes instead of a quarter of an hour."),
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure what the paper claims, on this machine. The same command goes on if interrupted.

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
