"""`clearhead fill`: the words that fit the gaps of a text."""

import json
from typing import Annotated

import typer


def fill(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="The run folder of a masked-token model.")
    ],
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="Text with gaps, each two or more underscores.")
    ],
    n_best: Annotated[int, typer.Option(min=1, help="Words per gap.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Fill the gaps of a text, and tell which other words would fit.

    - `clearhead fill runs/books "the capital of France is ____"`
    """
    from clearhead.tasks import Filler

    found = Filler.load(run).fill(text, n_best)
    if as_json:
        gaps = [{candidate.word: candidate.probability for candidate in gap} for gap in found.gaps]
        typer.echo(json.dumps({"text": str(found), "gaps": gaps}, ensure_ascii=False))
        return
    typer.echo(str(found))
    for number, gap in enumerate(found.gaps, 1):
        words = ", ".join(f"{candidate.word} {candidate.probability:.1%}" for candidate in gap)
        typer.echo(f"  gap {number}: {words}" if len(found.gaps) > 1 else f"  {words}")
