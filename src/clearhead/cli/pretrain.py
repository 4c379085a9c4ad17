"""`clearhead pretrain`: from plain text to a run that others begin with."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def pretrain(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES", help="Plain text of any size; or a run to go on with."),
    ],
    into: Annotated[
        Path | None, typer.Option(metavar="RUN", help="The run folder to make or to go on with.")
    ] = None,
    objective: Annotated[
        Literal["masked", "next", "denoise"],
        typer.Option(
            help="What to ask: hidden tokens (encoder), the next (decoder), spans (encoder and decoder)."
        ),
    ] = "masked",
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
) -> None:
    """Learn from plain text alone; then begin any task with it: `clearhead train … --from RUN`.

    - `clearhead pretrain books/*.txt --into runs/books --budget 1h` (then classify, or fill gaps)
    - `clearhead pretrain reviews.txt --from runs/books --into runs/reviews` (go on with text of another kind)
    - `clearhead pretrain books/*.txt --objective next --into runs/books` (then write, or chat)
    - `clearhead pretrain books/*.txt --objective denoise --into runs/books` (then translate, or answer)
    """
    from clearhead.cli.train import asked, watched
    from clearhead.config import layered
    from clearhead.folder import RunFolder
    from clearhead.tasks.pretraining import OBJECTIVES

    given, folder = asked(
        files, into, validation=validation, budget=budget, size=size, start=start, sets=settings
    )
    if not RunFolder(folder).exists():
        given = layered(given, {"model": {"family": OBJECTIVES[objective]}})
    watched("pretraining", given, folder)
