"""How many threads compute: tried out while a run goes on, for a machine is seldom left alone.

Threads wait for each other after every operation. Beside another busy program one of two has to
wait for a core, and the other for it: then a single thread can be twice as fast as two.
"""

import math
from collections import deque
from dataclasses import dataclass
from statistics import median

from clearhead.training.state import Report

N_UPDATES = 3
"""Updates that a number of threads is judged by."""
EVERY = 60.0
"""Seconds between two trials, at least."""
FIRST = 10.0
"""Seconds of training before the first trial: a short run has nothing to gain."""
COST = 0.01
"""The share of the time that trials may cost."""
SLOWED = 1.3
"""How much slower updates have to become for a trial at once."""
GAIN = 1.1
"""How much faster another number must be to be kept: less may be chance."""


@dataclass(frozen=True)
class ThreadChange(Report):
    """From here on another number of threads computes; a resumed run changes at the same step."""

    threads: int
    is_faster: bool = False
    """Whether a trial has shown that it is faster; it may also begin one, or end it in vain."""

    def __str__(self) -> str:
        are = "1 thread is" if self.threads == 1 else f"{self.threads} threads are"
        return f"step {self.step:,}: {are} faster on this machine now"


class Pace:
    """Tries half or twice as many threads now and then, and keeps the faster."""

    def __init__(self, threads: int, most: int, now: float) -> None:
        self.threads, self.most = threads, most
        self.paces: deque[float] = deque(maxlen=N_UPDATES)
        """Seconds per token of the last updates with this number of threads."""
        self.former: tuple[int, float] | None = None
        """While another number is tried: the one before, and its pace."""
        self.next, self.doubles = now + FIRST, threads < most
        self.usual = math.inf
        """The pace when the number of threads was last chosen."""

    def note(self, step: int, seconds: float, tokens: int, now: float) -> ThreadChange | None:
        """An update has ended: whether the number of threads changes now."""
        self.paces.append(seconds / max(1, tokens))
        if len(self.paces) < N_UPDATES:
            return None
        if self.former:
            return self.end_trial(step, seconds, now)
        pace = median(self.paces)
        if self.most == 1 or (now < self.next and pace < SLOWED * self.usual):
            return None
        self.former = self.threads, pace
        return self.change(step, self.other())

    def end_trial(self, step: int, seconds: float, now: float) -> ThreadChange:
        """Go back, or stay; the next trial comes the later, the more this one has cost."""
        assert self.former, "there is a trial"
        (before, its_pace), pace = self.former, median(self.paces)
        lost = N_UPDATES * seconds * max(0.0, 1 - its_pace / pace)
        is_faster = GAIN * pace < its_pace
        self.next = now + (FIRST if is_faster else max(EVERY, lost / COST))
        self.usual, self.former = pace if is_faster else its_pace, None
        if is_faster:  # further in the same direction next time
            self.doubles = not self.doubles
        return self.change(step, self.threads if is_faster else before, is_faster)

    def change(self, step: int, threads: int, is_faster: bool = False) -> ThreadChange:
        self.threads = threads
        self.paces.clear()
        return ThreadChange(step, threads, is_faster)

    def other(self) -> int:
        """Twice and half as many, in turn, as far as there are processors."""
        more, less = min(2 * self.threads, self.most), max(1, self.threads // 2)
        upwards = self.doubles and more > self.threads
        self.doubles = not self.doubles
        return more if upwards or less == self.threads else less
