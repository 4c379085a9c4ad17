"""`clearhead import`, `clearhead export`: models from elsewhere in, models of ours out."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from clearhead.cli import options


def import_(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A Hugging Face folder on this disk.")
    ],
    into: Annotated[Path, typer.Option(metavar="RUN", help="The run folder to make.")],
    quiet: options.Quiet = False,
) -> None:
    """Make a run of a model from elsewhere, with a certificate that it is the same.

    Nothing is downloaded, and nothing in the source is run.

    - `clearhead import opus-mt-en-de --into runs/opus`
    - `clearhead import all-MiniLM-L6-v2 --into runs/minilm`
    """
    with options.busy(f"bringing in {source}"):
        from clearhead.exchange import import_model

        certificate = import_model(source, into)
    if not quiet:
        options.tell(str(certificate))


def export(
    run: options.AnyRun,
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to make.")],
    to: Annotated[Literal["hf"], typer.Option(help="The format: hf is Hugging Face.")] = "hf",
    quiet: options.Quiet = False,
) -> None:
    """Write the model of a run for another program, with a certificate that it is the same.

    What a format cannot express is refused by name.

    - `clearhead export runs/opus --to hf --into opus-mt-tuned`
    """
    with options.busy(f"writing {into}"):
        from clearhead.exchange import export_model

        certificate = export_model(run, to, into)
    if not quiet:
        options.tell(str(certificate))
