"""`clearhead import`, `clearhead export`: models from elsewhere in, models of ours out."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from clearhead.cli import options
from clearhead.errors import ConfigError

ScoreFiles = Annotated[
    list[str] | None,
    typer.Option(metavar="FILES", help="A test set to score both models on (ctranslate2, argos)."),
]
Languages = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CODES",
        help="What it translates from and into: en de; else what the run knows (argos).",
    ),
]


def import_(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A folder of Hugging Face or CTranslate2, or an Argos package."
        ),
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
    to: Annotated[
        Literal["hf", "ctranslate2", "argos", "onnx"],
        typer.Option(help="The format: hf is Hugging Face, argos a package of Argos Translate."),
    ] = "hf",
    precision: Annotated[
        Literal["float32", "float16", "int16", "int8"],
        typer.Option(help="How weights are rounded (ctranslate2, argos)."),
    ] = "float32",
    int8: Annotated[bool, typer.Option("--int8", help="Short for --precision int8.")] = False,
    test: ScoreFiles = None,
    languages: Languages = None,
    quiet: options.Quiet = False,
) -> None:
    """Write the model of a run for another program, with a certificate that it is the same.

    What a format cannot express is refused by name.

    - `clearhead export runs/opus --to hf --into opus-mt-tuned`
    - `clearhead export runs/en-de --to ctranslate2 --int8 --into en-de-ct2 --test test.en test.de`
    - `clearhead export runs/en-de --to argos --languages en de --into en_de.argosmodel`
    """
    precision = "int8" if int8 else precision
    rounded = None if precision == "float32" else precision
    asked: dict[str, Any] = {"precision": rounded, "test": test, "languages": languages}
    how = {name: given for name, given in asked.items() if given}
    for name in how:
        if to in ("hf", "onnx") or (name == "languages" and to != "argos"):
            raise ConfigError(f"--to {to} has no --{name}.", "Leave it out.")
    with options.busy(f"writing {into}"):
        from clearhead.exchange import export_model

        certificate = export_model(run, to, into, **how)
    if not quiet:
        options.tell(str(certificate))
