"""How many threads compute a search: tried out on the way, as while training.

A process begins with as many as there are idle processors. Steps of one batch become cheaper as
sentences leave and dearer as texts grow, so neighbours are compared: they are computed in turn with
the number in use and with another. Whole times are compared, not medians: threads that wait for a
processor are slow in a few steps only, and very slow in those.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from clearhead import machine

IN_TURN = (0, 1, 1, 0, 0, 1, 1, 0)
"""The steps of a trial: by the number in use, or by the other."""
GAIN = 1.1
"""How much faster the other must be to be kept: less may be chance."""
GAIN_BESIDE_OTHERS = 1.3
"""The same for more threads than there are idle processors, which eight steps may flatter."""
HOPELESS = 1.5
"""How much slower the other must be for a trial to end early."""
EVERY = 1.0
"""Seconds between two trials, at least."""
COST = 0.02
"""The share of the time that trials may cost."""


class Threads:
    """The number of threads that a process decodes with: what one search finds, the next uses."""

    def __init__(self) -> None:
        self.chosen, self.next_trial, self.halves = 0, 0.0, True

    def number(self, most: int) -> int:
        """As many as have proved faster, never more than the caller allows."""
        self.chosen = self.chosen or max(1, machine.n_idle())
        return min(self.chosen, most)

    def other(self, most: int) -> int:
        """Half as many, or twice, where that was of no use or there are no fewer."""
        number = self.number(most)
        less, more = max(1, number // 2), min(2 * number, most)
        return less if (self.halves and less < number) or more == number else more

    def judge(self, other: int, seconds: list[float]) -> bool:
        """Whether a trial has ended; if the other number was the faster one, it is used from now on."""
        pairs = list(zip(IN_TURN, seconds, strict=False))
        usual, others = (sum(each for which, each in pairs if which == side) for side in (0, 1))
        is_whole, is_even = len(seconds) == len(IN_TURN), len(seconds) % 2 == 0
        if not is_whole and not (is_even and others > HOPELESS * usual):
            return False
        self.next_trial = time.monotonic() + max(EVERY, (others - usual) / COST)
        is_crowded = other > max(self.chosen, machine.n_idle())
        if usual > (GAIN_BESIDE_OTHERS if is_crowded else GAIN) * others:
            self.chosen = other
        else:
            self.halves = not self.halves
        return True


class Steps:
    """The steps of one search, some of them a trial."""

    def __init__(self, threads: Threads | None) -> None:
        self.threads, self.other, self.seconds = threads, 0, list[float]()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While inside, as many threads compute as have proved faster."""
        most = torch.get_num_threads()
        with using(self.threads.number(most) if self.threads else most):
            yield

    @contextmanager
    def step(self) -> Iterator[None]:
        """The same for one step, which may be part of a trial."""
        threads, most = self.threads, torch.get_num_threads()
        is_due = threads and most > 1 and (self.seconds or time.monotonic() >= threads.next_trial)
        if not threads or not is_due:
            with self.reading():
                yield
            return
        if not self.seconds:  # should the search end before its trial, the next does not repeat it
            self.other, threads.next_trial = threads.other(most), time.monotonic() + EVERY
        begin = time.perf_counter()
        with using(self.other if IN_TURN[len(self.seconds)] else threads.number(most)):
            yield
        self.seconds.append(time.perf_counter() - begin)
        if threads.judge(self.other, self.seconds):
            self.seconds.clear()


@contextmanager
def using(number: int) -> Iterator[None]:
    """While inside, so many threads compute; outside, the caller's number does."""
    before = torch.get_num_threads()
    if number == before:
        yield
        return
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
