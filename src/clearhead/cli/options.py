"""What several verbs share: options, notes and progress on stderr, the choice of an engine."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import clearhead

if TYPE_CHECKING:
    from clearhead.config import Config, DecodeConfig
    from clearhead.data.lines import Progress
    from clearhead.exchange.backend import CTranslate2
    from clearhead.exchange.engine import WhereItPays

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
Checkpoint = Annotated[
    str,
    typer.Option(
        metavar="STEP",
        help='Use the weights of a checkpoint: "last", or the number of its step.',
    ),
]
Ensemble = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="RUNS", help="More runs, to decode as an ensemble."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")]
Json = Annotated[bool, typer.Option("--json", help="JSON with all details, one object per line.")]
OneJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]

Beam = Annotated[
    int | None, typer.Option(help="Beam size: hypotheses kept at every step; 1 is greedy.")
]
Engine = Annotated[
    Literal["auto", "own", "ctranslate2"],
    typer.Option(
        help="What decodes; auto: CTranslate2 for long input, if it is installed and can do the "
        "same."
    ),
]
DecodeSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="decode.NAME=VALUE", help="Any setting of decoding, as in decode.beam=8."
    ),
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
        float | None,
        typer.Option(
            help="0: always the likeliest token; 1: sample from the probabilities as they are."
        ),
    ] = None
    top_k: Annotated[
        int | None, typer.Option(help="Sample only from so many of the likeliest tokens.")
    ] = None
    top_p: Annotated[
        float | None,
        typer.Option(
            help="Nucleus: sample only from the likeliest tokens, which together have this probability."
        ),
    ] = None
    min_p: Annotated[
        float | None,
        typer.Option(
            help="Sample only from tokens that have at least this share of the highest probability."
        ),
    ] = None
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1: tokens already written become less likely.")
    ] = None
    seed: Annotated[
        int | None, typer.Option(help="Random seed; the same seed gives the same text.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """What to train on, how long and from what."""

    validation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILES", help="Files to validate on; else some examples are held out."
        ),
    ] = None
    columns: Columns = None
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help='How long to train: "45m", "1h 30m", "8000 steps" or "20 epochs".'
        ),
    ] = None
    size: Annotated[
        Literal["tiny", "quick", "small", "base", "big"] | None,
        typer.Option(help="The model's size; else chosen to fit the budget."),
    ] = None
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="RUN", help="Fine-tune: begin with the weights of this run."
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="SECTION.NAME=VALUE", help="Any setting, as in train.seed=7."
        ),
    ] = None


@contextmanager
def busy(what: str) -> Iterator[None]:
    """While inside, a spinner on stderr says what takes its time, if that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(f"{what} …") if console.is_terminal else nullcontext():
        yield


@contextmanager
def progress_bar(numbers: str, *, stays: bool = False) -> Iterator["Progress"]:
    """A bar on stderr that is told what is done and how much; at the end it goes, or stays.

    `numbers` says how the columns of rich write them.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(numbers),
        TimeElapsedColumn(),
    )
    is_shown = stays or console.is_terminal
    with Progress(*columns, console=console, transient=not stays, disable=not is_shown) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(
            task, description=what, completed=done, total=total or None
        )


def tell(note: str) -> None:
    """Write a note on stderr, if there is one."""
    if note:
        sys.stderr.write(f"{note}\n")


def json_line(value: Any) -> str:
    """JSON on one line, in which letters stand as they are, and paths as text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def choose_engine(
    user: "clearhead.Translator | clearhead.Writer",
    run: str,
    decode: "DecodeConfig",
    *,
    engine: str,
    own_only: Mapping[str, object],
    int8: bool = False,
    workers: int | None = None,
    quiet: bool = False,
) -> "CTranslate2 | WhereItPays | None":
    """Have CTranslate2 decode what it can; None, where only our own engine can do what is asked.

    `own_only` are further options that no other engine has, by name, with what was given for each.
    """
    if not may_use_ctranslate2(engine):
        return None
    from clearhead.decode import WithBackend
    from clearhead.exchange.backend import lacks
    from clearhead.exchange.engine import WhereItPays, ctranslate2_for
    from clearhead.machine import n_processors

    say = (lambda _: None) if quiet else tell
    if missing := [name for name, given in own_only.items() if given] + lacks(decode):
        if engine == "ctranslate2":
            say(f"decoding with our own engine: CTranslate2 cannot express {', '.join(missing)}")
        return None
    begin = partial(
        ctranslate2_for,
        run,
        user.model,
        n_workers=workers or n_processors(),
        precision="int8" if int8 else "float32",
    )
    backend = WhereItPays(begin, say) if engine == "auto" else begin()
    user.searching = WithBackend(backend)
    return backend


def may_use_ctranslate2(engine: str) -> bool:
    """Whether CTranslate2 is asked for, or may be chosen and is installed."""
    return engine == "ctranslate2" or (engine == "auto" and find_spec("ctranslate2") is not None)


def decode_config(config: "Config", sets: list[str] | None, **given: Any) -> "DecodeConfig":
    """How to decode: the run's own settings, changed by --set and then by the options given."""
    from clearhead.config import with_settings

    chosen = {name: value for name, value in given.items() if value is not None}
    return with_settings(config, sets or []).decode.but(**chosen)
