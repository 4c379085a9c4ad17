"""Options that several verbs share: run folders, inputs, sampling, settings, training."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from clearhead.config import Config, DecodeConfig
    from clearhead.exchange.backend import CTranslate2
    from clearhead.exchange.engine import WhereItPays
    from clearhead.tasks import Translator, Writer


USES = {
    "translation": "clearhead translate {run} {text}",
    "chat": "clearhead chat {run}",
    "classification": "clearhead classify {run} {text}",
    "writing": "clearhead write {run} {text}",
    "pretraining": "clearhead train FILES --from {run} --into RUN",
}
"""How to use a run of each task."""


def run_argument(what: str) -> Any:
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
OneJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]

Beam = Annotated[
    int | None, typer.Option(help="Beam size: hypotheses kept at every step; 1 is greedy.")
]
Engine = Annotated[
    Literal["auto", "own", "ctranslate2"],
    typer.Option(help="What decodes; auto: CTranslate2 for long input where it does the same."),
]
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
TaskName = Literal["translation", "chat", "classification", "writing"]
TaskOption = typer.Option(
    metavar="TASK", help="translation (the default), chat, classification or writing."
)


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """How tokens are drawn; what is not given is left to the run's settings."""

    temperature: Annotated[
        float | None, typer.Option(help="0: deterministic; 1: unmodified probabilities.")
    ] = None
    top_k: Annotated[
        int | None, typer.Option(help="Sample from this many likeliest tokens only.")
    ] = None
    top_p: Annotated[
        float | None,
        typer.Option(help="Nucleus: sample from the likeliest tokens with this total probability."),
    ] = None
    min_p: Annotated[
        float | None,
        typer.Option(help="Sample from tokens at least this share as likely as the likeliest."),
    ] = None
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1: avoid tokens already written.")
    ] = None
    seed: Annotated[
        int | None, typer.Option(help="Random seed; the same seed gives the same text.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """What to train on, how long and from what."""

    validation: Annotated[
        list[str] | None,
        typer.Option(metavar="FILES", help="Files to validate on; else a held-out share."),
    ] = None
    columns: Columns = None
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help='"45m", "1h 30m", "8000 steps" or "20 epochs".'),
    ] = None
    size: Annotated[
        Literal["tiny", "quick", "small", "base", "big"] | None,
        typer.Option(help="The model's size; else chosen to fit the budget."),
    ] = None
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="RUN", help="Fine-tune: begin with this run's weights."),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.NAME=VALUE", help="Any setting; may be repeated."),
    ] = None


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


def choose_engine(
    user: "Translator | Writer",
    run: str,
    decode: "DecodeConfig",
    *,
    engine: str,
    checkpoint: str = "",
    own_only: Mapping[str, object] | None = None,
    int8: bool = False,
    workers: int | None = None,
    quiet: bool = False,
) -> "CTranslate2 | WhereItPays | None":
    """Have another engine decode what it can; none, where all that is asked for is only ours.

    `own_only` are further options that no other engine has, by name, with what was given for each.
    """
    if engine == "own" or (engine == "auto" and find_spec("ctranslate2") is None):
        return None
    from clearhead.decode import WithBackend
    from clearhead.exchange.backend import lacks
    from clearhead.exchange.engine import WhereItPays, ctranslate2_for
    from clearhead.machine import n_processors

    begin = partial(
        ctranslate2_for,
        run,
        user.model,
        n_workers=workers or n_processors(),
        precision="int8" if int8 else "float32",
    )
    say = (lambda _: None) if quiet else tell
    only_ours = {**(own_only or {}), "--checkpoint": checkpoint}
    missing = [name for name, given in only_ours.items() if given] + lacks(decode)
    if missing and engine == "ctranslate2":
        say(f"decoding with our own engine: CTranslate2 cannot express {', '.join(missing)}")
    if missing:
        return None
    backend = WhereItPays(begin, say) if engine == "auto" else begin()
    user.searching = WithBackend(backend)
    return backend


def decode_config(config: "Config", sets: list[str] | None, **given: Any) -> "DecodeConfig":
    """How to decode: the run's own settings, changed by --set and then by the options given."""
    from clearhead.config import with_settings

    chosen = {name: value for name, value in given.items() if value is not None}
    return with_settings(config, sets or []).decode.but(**chosen)
