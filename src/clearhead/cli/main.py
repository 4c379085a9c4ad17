"""`clearhead VERB …`: the list of verbs, and what becomes of errors.

Verbs import what they need when they run, so that `clearhead --help` is instant.
"""

import errno
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Annotated

import typer

from clearhead import __version__
from clearhead.cli.chat import chat, write
from clearhead.cli.doctor import doctor
from clearhead.cli.look import look
from clearhead.cli.runs import average, compare, evaluate, info, rm, runs, verify
from clearhead.cli.serve import export, import_, serve
from clearhead.cli.streams import (
    begin_in_utf8,
    ended_by_signals,
    leave_at_once,
    leave_quietly,
    prepare_streams,
)
from clearhead.cli.train import demo, lab, pretrain, train
from clearhead.cli.translate import classify, embed, fill, translate
from clearhead.cli.verb import Verb, Verbs, with_options
from clearhead.errors import ClearheadError, DiskError, shown

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""What the system says when nothing more can be written."""

app = typer.Typer(
    name="clearhead",
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    rich_markup_mode=None,
)
VERBS = {
    "Make a model": (demo, doctor, train, pretrain, average),
    "Use it": (translate, chat, classify, write, fill, embed, serve),
    "Look inside": (look, evaluate, compare, lab),
    "Exchange models": (import_, export),
    "Keep runs in order": (runs, info, verify, rm),
}
"""All verbs, by what they are for."""
for panel, verbs in VERBS.items():
    for verb in verbs:
        name = verb.__name__.rstrip("_")
        app.command(name, cls=Verb, rich_help_panel=panel)(with_options(verb))


def show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"clearhead {__version__}")
        raise typer.Exit


@app.callback()
def clearhead(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where in the program an error arose.")
    ] = False,
) -> None:
    """The Transformer of "Attention Is All You Need": train it, use it, see every step it takes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and answer with its exit code.

    0 fine, 1 your input or a mistake of the program, 2 usage, 3 loss not finite, 4 disk,
    5 folder in use by another process, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    if arguments is None:
        begin_in_utf8()
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        prepare_streams()
        with ended_by_signals():
            code = exit_code(given)
            if arguments is None and code > 128:
                leave_at_once(code)
            sys.stdout.flush()
    except BrokenPipeError:
        leave_quietly()
        return 1
    except KeyboardInterrupt:
        return 130
    except SystemExit as stop:  # a signal, while nothing was being done
        return int(stop.code or 0)
    except Exception as error:
        if "--debug" in takewhile(lambda argument: argument.startswith("-"), given):
            raise
        told = as_clearhead_error(error)
        sys.stderr.write(f"clearhead: {told.whole}\n")
        return told.exit_code
    return code


def exit_code(arguments: Sequence[str]) -> int:
    try:
        app(arguments, prog_name="clearhead")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    return 0


def as_clearhead_error(error: Exception) -> ClearheadError:
    """What is wrong and what to do; an error that nobody foresaw is the program's mistake."""
    if isinstance(error, ClearheadError):
        return error
    if isinstance(error, OSError) and error.strerror:
        is_full = error.errno in FULL
        stream = "standard output" if is_full else "the system"
        place = stream if error.filename is None else shown(str(error.filename), 200)
        told = f"{place}: {error.strerror}."
        if is_full:
            return DiskError(told, "Make room there.")
        return ClearheadError(told, "Name a place that is there and that you may read and write.")
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return ClearheadError(
            "This needs more memory than there is.",
            "Give it less at once: shorter text, a smaller beam, batch or model.",
        )
    return ClearheadError(
        f"a mistake of the program, not yours: {type(error).__name__}: {error}",
        "See where with: clearhead --debug …",
    )
