"""`clearhead VERB …` as a process: its streams, signals, errors and exit codes."""

import atexit
import codecs
import errno
import locale
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from itertools import takewhile
from typing import NoReturn, TextIO

from clearhead.cli.verb import app
from clearhead.errors import ClearheadError, DiskError, shown

PLAIN = {
    "…": "...",
    "→": "->",
    "←": "<-",
    "·": "-",
    "–": "-",
    "—": "-",
    "●": "o",
    "✗": "x",
    "−": "-",
}
"""Signs that a terminal without Unicode is shown in letters; of others it gets a question mark."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end the program; the first is Ctrl-C."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""What the system says when nothing more can be written."""


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


def begin_in_utf8() -> None:
    """Begin again in UTF-8, if the locale made Python read arguments and file names otherwise."""
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606


def prepare_streams() -> None:
    """Have three streams that can be used: UTF-8 whatever the locale, or plain on a poor terminal."""
    codecs.register_error("plain", in_plain_signs)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None and number != 1:
            setattr(sys, name, opened_on_nothing(number))
        elif isinstance(stream, TextIOWrapper) and number == 0:
            if stream.isatty():  # what is typed; other input is read as bytes
                stream.reconfigure(errors="replace")
        elif isinstance(stream, TextIOWrapper):
            is_poor = stream.isatty() and codecs.lookup(locale.getencoding()).name != "utf-8"
            encoding, errors = ("ascii", "plain") if is_poor else ("utf-8", "backslashreplace")
            stream.reconfigure(encoding=encoding, errors=errors)
    if sys.stdout is None:
        raise DiskError("Standard output is closed.", "Let results go somewhere: > FILE")


def opened_on_nothing(number: int) -> TextIO:
    """A stream in the place of a closed one, whose number no file may get."""
    descriptor = os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
    return os.fdopen(descriptor, "r" if number == 0 else "w", encoding="utf-8")


def in_plain_signs(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError), "it is for writing only"
    found = error.object[error.start : error.end]
    return "".join(PLAIN.get(sign, "?") for sign in found), error.end


def leave_quietly() -> None:
    """Nobody reads the output any more: have what is still unwritten go nowhere at the exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


def leave_at_once(code: int) -> NoReturn:
    """End the process after a signal, deaf to further ones; memory is not given back piece by piece."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    atexit._run_exitfuncs()
    for stream in (sys.stderr, sys.stdout):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """While inside, signals that end the program unwind it as an exit does: nothing half done stays.

    The first one does; while it unwinds, further ones are not heard.
    """

    def leave(number: int, _frame: object) -> NoReturn:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in ENDING if is_main}
    usual = (signal.SIG_DFL, signal.default_int_handler)  # nohup's SIGHUP stays ignored
    before = {number: handler for number, handler in handlers.items() if handler in usual}
    for number in before:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
