"""`clearhead write`: the opening of a text in, the whole text out, as it is being written."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.evaluation import Evaluation

if TYPE_CHECKING:
    from clearhead.config import Config
    from clearhead.tasks import Continuation
    from clearhead.tasks.perplexity import Perplexity

Temperature = Annotated[
    float | None, typer.Option(help="0: always the likeliest token; 1: as the model says.")
]
TopK = Annotated[int | None, typer.Option(help="Draw among this many best tokens.")]
TopP = Annotated[
    float | None, typer.Option(help="Draw among the best tokens with this probability together.")
]
MinP = Annotated[
    float | None,
    typer.Option(help="Draw among tokens with this share of the best one's probability."),
]
Penalty = Annotated[
    float | None, typer.Option(help="Above 1: avoid tokens that were already written.")
]
Seed = Annotated[
    int | None, typer.Option(help="Another number, other luck; the same one, the same text.")
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="decode.NAME=VALUE", help="Any setting of decoding."),
]


def write(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder of a writer.")],
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="How the text begins; else all of stdin.")
    ] = None,
    length: Annotated[int | None, typer.Option(help="Tokens to write.")] = None,
    number: Annotated[int, typer.Option("--number", "-n", help="Continuations to write.")] = 1,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    repetition_penalty: Penalty = None,
    seed: Seed = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXTS", help="Texts before which to stop; \\n: a line."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line of JSON per continuation, with all there is.")
    ] = False,
    settings: Sets = None,
) -> None:
    """Go on with a text.

    - `clearhead write runs/bard "As aliens entered our planet"`
    - `clearhead write runs/bard "Once" -n 3 --temperature 0.7 --seed 5`
    - `clearhead write runs/bard --stop "\\n" < opening.txt`
    """
    from clearhead.tasks import Writer

    writer = Writer.load(run)
    given = {
        "max_length": length, "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p,
        "repetition_penalty": repetition_penalty, "seed": seed,
    }  # fmt: skip
    options: dict[str, Any] = asked(writer.config, given, settings or [])
    options["stop"] = [text.replace("\\n", "\n") for text in stop or []]
    text = (
        prompt
        if prompt is not None
        else ""
        if sys.stdin.isatty()
        else sys.stdin.read().removesuffix("\n")
    )
    if number == 1 and not as_json:
        told(streamed(writer.stream(text, **options), text))
        return
    found = writer.write(text, **options | {"n_best": number})
    for one in (found, *found.alternatives):
        typer.echo(
            json.dumps(asdict(one) | {"log_prob": one.log_prob}, ensure_ascii=False)
            if as_json
            else titled(one)
        )
    told(found)


def asked(config: "Config", given: dict[str, Any], sets: list[str]) -> dict[str, Any]:
    """The decoding options that a command line means."""
    from clearhead.config import with_settings

    return with_settings(config, sets).decode.model_dump() | {
        name: value for name, value in given.items() if value is not None
    }


def streamed(pieces: Any, prompt: str) -> "Continuation":
    """Show text as it comes, after its prompt."""
    from clearhead.tasks.streams import Kept

    kept = Kept(pieces)
    sys.stdout.write(prompt.rstrip(" "))
    for piece in kept:
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    found: Continuation = kept.value
    return found


def titled(one: "Continuation") -> str:
    each = one.log_prob / max(1, len(one.log_probs))
    return f"[seed {one.seed}: log-probability {one.log_prob:.1f}, {each:.2f} per token]\n{one}\n"


def told(found: "Continuation") -> None:
    for note in found.notes:
        sys.stderr.write(f"{note}\n")


def evaluated(
    run: str,
    files: list[str],
    beam: int | None,  # noqa: ARG001
    output: Path | None,  # noqa: ARG001
    settings: list[str],  # noqa: ARG001
) -> Evaluation:
    """How surprised a writer is by the text in files."""
    from clearhead.data.examples import running_text
    from clearhead.tasks import Writer

    return surprise(Writer.load(run).perplexity(running_text(*files)))


def surprise(found: "Perplexity") -> Evaluation:
    """The findings about a text, for programs and for people."""
    values = {"perplexity": found.perplexity, "nats_per_token": found.nats_per_token}
    values |= {"bits_per_byte": found.bits_per_byte, "tokens": found.tokens, "bytes": found.bytes}
    return Evaluation(values, str(found))
