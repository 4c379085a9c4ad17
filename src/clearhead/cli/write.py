"""`clearhead write`: the opening of a text in, the whole text out, as it is being written."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli import options

if TYPE_CHECKING:
    from collections.abc import Generator

    from clearhead.tasks import Continuation


def write(
    run: Annotated[str, options.run_of("a writer")],
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="How the text begins; else all of stdin.")
    ] = None,
    length: Annotated[int | None, typer.Option(help="Tokens to write.")] = None,
    number: Annotated[int, typer.Option("--number", "-n", help="Continuations to write.")] = 1,
    temperature: options.Temperature = None,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    repetition_penalty: options.Penalty = None,
    seed: options.Seed = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXTS", help="Stop before any of these; \\n: the end of a line."),
    ] = None,
    as_json: options.Json = False,
    settings: options.DecodeSettings = None,
) -> None:
    """Go on with a text.

    - `clearhead write runs/bard "As aliens entered our planet"`
    - `clearhead write runs/bard "Once" -n 3 --temperature 0.7 --seed 5`
    - `clearhead write runs/bard --stop "\\n" < opening.txt`
    """
    from clearhead.tasks import Writer

    writer = Writer.load(run)
    decode = options.decode_config(
        writer.config,
        settings,
        max_length=length,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
    )
    stops = [text.replace("\\n", "\n") for text in stop or []]
    if prompt is None:
        prompt = "" if sys.stdin.isatty() else sys.stdin.read().removesuffix("\n")
    if number == 1 and not as_json:
        found = print_pieces(writer.stream(prompt, decode, stop=stops), prompt)
    else:
        found = writer.write(prompt, decode, stop=stops, n_best=number)
        for one in (found, *found.alternatives):
            values = asdict(one) | {"log_prob": one.log_prob}
            typer.echo(json.dumps(values, ensure_ascii=False) if as_json else titled(one))
    for note in found.notes:
        sys.stderr.write(f"{note}\n")


def print_pieces(pieces: "Generator[str, None, Continuation]", prompt: str) -> "Continuation":
    """Show text as it comes, after its prompt."""
    from clearhead.tasks.user import Kept

    kept = Kept(pieces)
    sys.stdout.write(prompt.rstrip(" "))
    for piece in kept:
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    return kept.value


def titled(one: "Continuation") -> str:
    each = one.log_prob / max(1, len(one.log_probs))
    return f"[seed {one.seed}: log-probability {one.log_prob:.1f}, {each:.2f} per token]\n{one}\n"
