"""How many threads compute a search: tried out on the way, as while training.

Steps of one batch become cheaper as sentences leave and dearer as texts grow, so neighbours are
compared: they are computed in turn with the number in use and with another.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import torch

IN_TURN = (0, 1, 1, 0, 0, 1, 1, 0)
"""The steps of a trial: by the number in use, or by the other."""
GAIN = 1.1
"""How much faster the other must be to be kept: less may be chance."""
EVERY = 5.0
"""Seconds between two trials, at least."""
COST = 0.02
"""The share of the time that trials may cost."""


class Threads:
    """The number of threads that a process decodes with: what one search finds, the next uses."""

    def __init__(self) -> None:
        self.chosen, self.next_trial, self.halves = 0, 0.0, True

    def number(self, most: int) -> int:
        """As many as have proved faster, never more than the caller allows."""
        return min(self.chosen or most, most)

    def other(self, most: int) -> int:
        """Half as many, or twice, where that was of no use or there are no fewer."""
        number = self.number(most)
        less, more = max(1, number // 2), min(2 * number, most)
        return less if (self.halves and less < number) or more == number else more

    def judge(self, other: int, seconds: list[float]) -> None:
        """A trial has ended: go on with the other number if it was the faster one."""
        pairs = list(zip(IN_TURN, seconds, strict=True))
        usual, others = ([each for which, each in pairs if which == side] for side in (0, 1))
        is_faster = median(a / b for a, b in zip(usual, others, strict=True)) > GAIN
        lost = 0.0 if is_faster else max(0.0, sum(others) - sum(usual))
        self.next_trial = time.monotonic() + max(EVERY, lost / COST)
        if is_faster:
            self.chosen = other
        else:
            self.halves = not self.halves


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
        if len(self.seconds) == len(IN_TURN):
            threads.judge(self.other, self.seconds)
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
