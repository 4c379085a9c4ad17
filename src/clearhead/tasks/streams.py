"""Text on its way from tokens to a person, piece by piece."""

from collections.abc import Generator, Iterator, Sequence
from typing import Generic, TypeVar

from clearhead.text import Tokenizer

T = TypeVar("T")
V = TypeVar("V")


class Kept(Generic[T, V]):
    """The items of a generator, whose value is kept for when they have all come."""

    value: V

    def __init__(self, generator: Generator[T, None, V]) -> None:
        self.generator = generator

    def __iter__(self) -> Iterator[T]:
        self.value = yield from self.generator


def whole(generator: Generator[T, None, V]) -> V:
    """The value of a generator, all items of which are taken at once."""
    kept = Kept(generator)
    for _ in kept:
        pass
    return kept.value


class Page:
    """Tokens as text, the end token being the end of a line."""

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int] = ()) -> None:
        self.tokenizer, self.line = tokenizer, tokenizer.stream()
        for token in context:
            self.push(token)

    def push(self, token: int) -> str:
        """The text that this token completes."""
        if token != self.tokenizer.end:
            return self.line.push(token)
        return f"{self.end()}\n"

    def end(self) -> str:
        """What is left of the line."""
        rest, self.line = self.line.end(), self.tokenizer.stream()
        return rest


def as_text(tokenizer: Tokenizer, context: Sequence[int], ids: Sequence[int]) -> str:
    """What tokens add to the text before them."""
    page = Page(tokenizer, context)
    return "".join([*map(page.push, ids), page.end()])


class Until:
    """Text up to the string, of some, that is whole first; what may be the beginning of one waits."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = [stop for stop in stops if stop]
        self.waiting = ""
        self.reached = False

    def push(self, text: str) -> str:
        """The text that is certainly before any of them."""
        self.waiting += text
        found = [
            (place + len(stop), place)
            for stop in self.stops
            if (place := self.waiting.find(stop)) >= 0
        ]
        n_sure = min(found)[1] if found else len(self.waiting) - self.n_doubtful()
        sure, self.waiting = self.waiting[:n_sure], self.waiting[n_sure:]
        self.reached = bool(found)
        return sure

    def n_doubtful(self) -> int:
        starts = (stop[:n] for stop in self.stops for n in range(1, len(stop)))
        return max((len(start) for start in starts if self.waiting.endswith(start)), default=0)

    def end(self, text: str) -> str:
        """What is left when nothing more comes."""
        sure = "" if self.reached else self.push(text)
        return sure if self.reached else sure + self.waiting
