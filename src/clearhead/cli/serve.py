"""`clearhead serve`, `import` and `export`: models for other programs, by HTTP or as files."""

import logging
import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import clearhead
from clearhead.cli import options
from clearhead.errors import ClearheadError, ConfigError
from clearhead.serve.settings import ServerSettings, hash_of

if TYPE_CHECKING:
    from clearhead.decode import Backend
    from clearhead.exchange.ct2 import Precision


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Where to listen, whom to serve, and how much of the machine to use."""

    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 is all of the machine's.")
    ] = "127.0.0.1"
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port to listen on; 0: any that is free.")
    ] = 8000
    api_key: Annotated[
        str,
        typer.Option(
            metavar="KEY",
            envvar="CLEARHEAD_API_KEY",
            help="The key that clients must send; needed if others than this machine can reach it.",
        ),
    ] = ""
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Serve everybody without a key, whatever the address.")
    ] = False
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES", help="Further host names that clients may call the server by."
        ),
    ] = None
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGINS", help="Web pages of other hosts that may use the server (CORS)."
        ),
    ] = None
    memory: Annotated[
        float,
        typer.Option(
            metavar="GB",
            min=0,
            max=1_000_000,
            help="The most memory for models; 0: as much as they need.",
        ),
    ] = 0.0
    lazy: Annotated[
        bool, typer.Option("--lazy", help="Load each model only when it is first asked for.")
    ] = False
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Server processes, each with its own models.")
    ] = 1
    int8: Annotated[
        bool,
        typer.Option("--int8", help="8-bit weights in CTranslate2: faster; a few outputs change."),
    ] = False

    def settings(self, runs: list[Path], n_decoders: int) -> ServerSettings:
        return ServerSettings(
            runs=tuple(runs),
            host=self.host,
            port=self.port,
            key_hash=hash_of(self.api_key) if self.api_key else "",
            no_auth=self.no_auth,
            hosts=tuple(name.lower() for name in self.allow_host or ()),
            origins=tuple(self.allow_origin or ()),
            memory=int(self.memory * 1e9),
            lazy=self.lazy,
            workers=self.workers,
            n_decoders=n_decoders,
        )


def serve(
    runs: Annotated[list[Path], typer.Argument(metavar="RUNS", help="The run folders to serve.")],
    *,
    asked: ServeOptions,
    engine: Annotated[
        Literal["auto", "own", "ctranslate2"],
        typer.Option(help="What translates; auto: CTranslate2, if it is there and does the same."),
    ] = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Serve models: the page, LibreTranslate's and OpenAI's APIs, and clearhead's own.

    - `clearhead serve runs/en-de`
    - `clearhead serve runs/en-de runs/chat runs/mood --port 9000`
    - `clearhead serve runs/en-de --host 0.0.0.0 --api-key SECRET --allow-host example.org`
    """
    with options.busy("loading"):
        try:
            from clearhead.serve.server import listening_socket, run_server
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"Serving needs {error.name}, which is not installed.",
                "Install it with: pip install 'clearhead[serve]'",
            ) from None
        from clearhead.folder import RunFolder

        for run in runs:
            RunFolder.open(run)  # or refuse it before an address is told
        n_decoders = decoders(engine, asked.workers, asked.int8)
        settings = asked.settings(runs, n_decoders)
        listening = listening_socket(settings)
    if not quiet:
        logging.basicConfig(stream=sys.stderr, format="%(message)s")
        logging.getLogger("clearhead.serve").setLevel(logging.INFO)
    url = f"http://{asked.host}:{listening.getsockname()[1]}"
    options.tell(f"{', '.join(run.name for run in runs)}: {url}  (stop with Ctrl-C)")
    os.environ.pop("CLEARHEAD_API_KEY", None)
    precision: "Precision" = "int8" if asked.int8 else "float32"
    run_server(settings, listening, partial(backend_for, n_workers=n_decoders, precision=precision))


def decoders(engine: str, n_servers: int, int8: bool = False) -> int:
    """Processes of CTranslate2 for a translator, if it is wanted and installed."""
    if not options.may_use_ctranslate2(engine):
        if int8:
            raise ConfigError(
                "--int8 is for CTranslate2, which is not in use here.",
                "Leave --engine own out, and install it with: pip install 'clearhead[exchange]'",
            )
        return 0
    from clearhead.machine import n_processors

    return max(1, n_processors() // n_servers)


def backend_for(
    path: Path, user: "clearhead.User", *, n_workers: int, precision: "Precision" = "float32"
) -> "Backend | None":
    """CTranslate2 in so many processes, if its certificate is good."""
    if not n_workers:
        return None
    from clearhead.exchange.engine import ctranslate2_for

    try:
        return ctranslate2_for(path, user.model, n_workers=n_workers, precision=precision)
    except (ClearheadError, OSError) as error:
        options.tell(f"{path.name}: decoding with our own engine: {error}")
        return None


def import_(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A folder of Hugging Face or CTranslate2, or an Argos package."
        ),
    ],
    into: Annotated[
        Path, typer.Option(metavar="RUN", help="The run folder to make; it must not exist yet.")
    ],
    quiet: options.Quiet = False,
) -> None:
    """Make a run of a model from elsewhere, and a certificate that it is the same.

    Nothing is downloaded, and nothing in the source is run.

    - `clearhead import opus-mt-en-de --into runs/opus`
    - `clearhead import all-MiniLM-L6-v2 --into runs/minilm`
    """
    with options.busy(f"importing {source}"):
        from clearhead.exchange import import_model

        certificate = import_model(source, into)
    options.tell("" if quiet else str(certificate))


Languages = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CODES",
        help="The languages it translates from and into, as in en de; else what the run knows "
        "(argos).",
    ),
]
StoredPrecision = Annotated[
    Literal["float32", "float16", "int16", "int8"],
    typer.Option(
        help="How the weights are stored; less is smaller and less exact (ctranslate2, argos)."
    ),
]


def export(
    run: options.AnyRun,
    into: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The folder to make; it must not exist yet.")
    ],
    to: Annotated[
        Literal["hf", "ctranslate2", "argos", "onnx"],
        typer.Option(help="The format; hf is Hugging Face, argos a package for Argos Translate."),
    ] = "hf",
    precision: StoredPrecision = "float32",
    int8: Annotated[bool, typer.Option("--int8", help="Short for --precision int8.")] = False,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILES", help="A test set to score both models on (ctranslate2, argos)."
        ),
    ] = None,
    languages: Languages = None,
    quiet: options.Quiet = False,
) -> None:
    """Write a run's model for another program, and a certificate that it is the same.

    What a format cannot express is refused by name.

    - `clearhead export runs/opus --to hf --into opus-mt-tuned`
    - `clearhead export runs/en-de --to ctranslate2 --int8 --into en-de-ct2 --test test.en test.de`
    - `clearhead export runs/en-de --to argos --languages en de --into en_de.argosmodel`
    """
    asked = {"precision": "int8" if int8 else precision, "test": test, "languages": languages}
    how: dict[str, Any] = {
        name: given for name, given in asked.items() if given and given != "float32"
    }
    for name in how:
        if to in ("hf", "onnx") or (name == "languages" and to != "argos"):
            raise ConfigError(f"--to {to} has no --{name}.", "Leave it out.")
    with options.busy(f"writing {into}"):
        from clearhead.exchange import export_model

        certificate = export_model(run, to, into, **how)
    options.tell("" if quiet else str(certificate))
