"""A clean stop: a signal is noted, and the loop ends at the next boundary between updates."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopFlag:
    """The signal that asked for a stop, if any did."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """A signal handler: remember the first signal; leave at once on a second Ctrl-C."""
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def stop_on_signals() -> Iterator[StopFlag]:
    """While inside, Ctrl-C and SIGTERM only raise a flag; in a thread no signal arrives."""
    flag = StopFlag()
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    before = {number: signal.signal(number, flag.note) for number in numbers}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
