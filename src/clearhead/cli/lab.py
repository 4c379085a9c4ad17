"""`clearhead lab`: the paper's claims measured on this machine, with pictures."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from clearhead.cli import options


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
