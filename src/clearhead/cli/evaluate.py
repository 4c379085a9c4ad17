"""`clearhead evaluate`, `compare` and `lab`: how good a run is, whether another is better, and why."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

import clearhead
from clearhead.cli import options
from clearhead.disk import write_output
from clearhead.errors import ConfigError

TestSet = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES", help="The test set, in a form like the files that the run was trained on."
    ),
]


def evaluate(
    run: options.AnyRun,
    files: TestSet,
    columns: options.Columns = None,
    beam: options.Beam = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the translations, or the labels, here."),
    ] = None,
    worst: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Show so many of the worst translations.")
    ] = 0,
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
        from clearhead.machine import n_processors

        user = clearhead.load(run, checkpoint=checkpoint)
        changed = beam is not None or settings
        decode = options.decode_config(user.config, settings, beam=beam) if changed else None
        if isinstance(user, clearhead.Translator):
            how, own_only = decode or user.config.decode, {"--checkpoint": checkpoint}
            options.choose_engine(user, run, how, engine=engine, own_only=own_only)
        found = clearhead.evaluate(
            user, files, decode, columns=columns or (), n_worst=worst, n_workers=n_processors()
        )
    if output:
        if not found.lines:
            raise ConfigError("--output: this test has no outputs to write.", "Leave it out.")
        write_output(output, "".join(f"{line}\n" for line in found.lines))
    typer.echo(json.dumps(found.scores) if as_json else found)


def compare(
    first: Annotated[
        str, typer.Argument(metavar="A", help="A run folder, or a file with an output per line.")
    ],
    second: Annotated[
        str, typer.Argument(metavar="B", help="Another run or file, to compare it with.")
    ],
    files: TestSet,
    task: Annotated[
        Literal["translation", "classification"] | None,
        typer.Option(
            metavar="TASK",
            help="What A and B hold, if they are files: translation (the default) or "
            "classification.",
        ),
    ] = None,
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
    typer.echo(options.to_json(found.values()) if as_json else found)
    if output:
        options.tell(f"Written: {output}. Open it in a browser.")


def lab(
    experiment: Annotated[
        Literal["complexity", "gradients", "versus", "table3", "positions", "heads"],
        typer.Argument(
            metavar="EXPERIMENT",
            help="Which: complexity, gradients, positions, heads, versus or table3.",
        ),
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES",
            help="versus and table3: files of pairs; heads: a run and its test files.",
        ),
    ] = None,
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
