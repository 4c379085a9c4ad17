"""Options that several verbs share: run folders, inputs, sampling, settings, training."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from clearhead.config import Config, DecodeConfig


USES = {
    "translation": "clearhead translate {run} {text}",
    "chat": "clearhead chat {run}",
    "classification": "clearhead classify {run} {text}",
    "writing": "clearhead write {run} {text}",
    "pretraining": "clearhead train FILES --from {run} --into RUN",
}
"""How to use a run of each task."""


def run_of(what: str) -> Any:
    """The run folder that a verb uses."""
    return typer.Argument(metavar="RUN", help=f"The run folder of {what}.")


AnyRun = Annotated[str, typer.Argument(metavar="RUN", help="A run folder.")]
Text = Annotated[
    str | None, typer.Argument(metavar="TEXT", help="The text; else lines of --input or stdin.")
]
Input = Annotated[list[str] | None, typer.Option(metavar="FILES", help="Files to read lines from.")]
OnInvalid = Annotated[
    Literal["strict", "replace"],
    typer.Option(help="Bytes that are not UTF-8: stop with an error, or read them as �."),
]
Checkpoint = Annotated[
    str,
    typer.Option(metavar="STEP", help='Use a checkpoint: "last", or the number of its step.'),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")]
Json = Annotated[bool, typer.Option("--json", help="JSON with all details, one object per line.")]

Beam = Annotated[
    int | None, typer.Option(help="Beam size: hypotheses kept at every step; 1 is greedy.")
]
Temperature = Annotated[
    float | None, typer.Option(help="0: deterministic; 1: unmodified probabilities.")
]
TopK = Annotated[int | None, typer.Option(help="Sample from this many likeliest tokens only.")]
TopP = Annotated[
    float | None,
    typer.Option(help="Nucleus: sample from the likeliest tokens with this total probability."),
]
MinP = Annotated[
    float | None,
    typer.Option(help="Sample from tokens at least this share as likely as the likeliest."),
]
Penalty = Annotated[float | None, typer.Option(help="Above 1: avoid tokens already written.")]
Seed = Annotated[int | None, typer.Option(help="Random seed; the same seed gives the same text.")]
DecodeSettings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="decode.NAME=VALUE", help="Any decoding setting."),
]

Into = Annotated[
    Path | None, typer.Option(metavar="RUN", help="The run folder to make or to resume.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMNS",
        help="Columns of tables to read, by name or number: source target, or text label.",
    ),
]
ValidationFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--validation", metavar="FILES", help="Files to validate on; else a held-out share."
    ),
]
TimeBudget = Annotated[
    str | None,
    typer.Option("--budget", metavar="TIME", help='"45m", "1h 30m", "8000 steps" or "20 epochs".'),
]
Size = Annotated[
    Literal["tiny", "small", "base", "big"] | None,
    typer.Option(help="The model's size; else chosen to fit the budget."),
]
Start = Annotated[
    Path | None,
    typer.Option("--from", metavar="RUN", help="Fine-tune: begin with this run's weights."),
]
AnySettings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.NAME=VALUE", help="Any setting; may be repeated."),
]


@contextmanager
def busy(what: str) -> Iterator[None]:
    """While inside, a spinner on stderr says what takes its time, if that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(f"{what} …") if console.is_terminal else nullcontext():
        yield


def tell(note: str) -> None:
    """Write a note on stderr, if there is one."""
    if note:
        sys.stderr.write(f"{note}\n")


def decode_config(config: "Config", sets: list[str] | None, **given: Any) -> "DecodeConfig":
    """How to decode: the run's own settings, changed by --set and then by the options given."""
    from clearhead.config import with_settings

    chosen = {name: value for name, value in given.items() if value is not None}
    return with_settings(config, sets or []).decode.but(**chosen)
