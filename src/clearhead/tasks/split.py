"""Examples held out of training, so that what is measured was not learned by heart."""

from collections.abc import Iterable, Iterator
from itertools import compress, count, islice
from typing import Generic, TypeVar

import numpy as np

from clearhead.config import DataConfig
from clearhead.data.order import mix

E = TypeVar("E")
CHUNK = 4_096


class Part(Generic[E]):
    """Those examples whose number is, or is not, among the held-out ones; a pure function of the number."""

    def __init__(self, examples: Iterable[E], share: float, held_out: bool) -> None:
        self.examples, self.share, self.held_out = examples, share, held_out

    def __iter__(self) -> Iterator[E]:
        limit = np.uint64(self.share * 2**64)
        for start, chunk in zip(count(0, CHUNK), batched(self.examples, CHUNK)):
            is_held_out = mix(np.arange(start, start + len(chunk))) < limit
            yield from compress(chunk, is_held_out == self.held_out)


def batched(examples: Iterable[E], size: int) -> Iterator[list[E]]:
    rest = iter(examples)
    while chunk := list(islice(rest, size)):
        yield chunk


class Stretch(Generic[E]):
    """Examples that follow one another."""

    def __init__(self, examples: Iterable[E], start: int, stop: int) -> None:
        self.examples, self.start, self.stop = examples, start, stop

    def __iter__(self) -> Iterator[E]:
        return islice(self.examples, self.start, self.stop)


def split(
    examples: Iterable[E], n_examples: int, config: DataConfig
) -> tuple[Iterable[E], Iterable[E]]:
    """Training and validation parts; the second has at least one example and at most as many as the settings allow.

    Of running text, the end is held out: single lines would be easy to guess from those around them.
    """
    share = min(
        max(config.validation_share, 1.5 / n_examples), config.validation_limit / n_examples
    )
    if isinstance(next(iter(examples), None), str):
        place = n_examples - max(1, round(share * n_examples))
        return Stretch(examples, 0, place), Stretch(examples, place, n_examples)
    return Part(examples, share, held_out=False), Part(examples, share, held_out=True)
