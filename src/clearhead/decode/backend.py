"""A whole decoder by somebody else beside our own search: each decodes what it can."""

from collections.abc import Generator, Iterator, Sequence
from typing import Protocol

from clearhead.config import DecodeConfig
from clearhead.decode.request import Hypothesis, Request
from clearhead.decode.search import PACED, Best, Greedy, Result, Searching
from clearhead.decode.sentence import Sentence


class Backend(Protocol):
    """A whole decoder by somebody else: sentences in, hypotheses out."""

    def lacks(self, options: DecodeConfig) -> list[str]:
        """The options that it cannot express, by name: with them, all goes to our own search."""

    def decode(self, request: Request, sentences: Sequence[Sentence]) -> Iterator[Result]:
        """Every sentence once, in any order; one without outputs goes to our own search."""


class WithBackend:
    """Searches with a backend where it can express what is asked, and on our own where not."""

    def __init__(self, backend: Backend, own: Searching = PACED) -> None:
        self.backend, self.own = backend, own

    def results(
        self, request: Request, sentences: Sequence[Sentence], way: Best
    ) -> Iterator[Result]:
        left = list(sentences)
        if self.can_express(request, way):
            left = []
            for sentence, outputs in self.backend.decode(request, sentences):
                if outputs:
                    yield sentence, outputs
                else:
                    left.append(sentence)
        if left:
            yield from self.own.results(request, left, way)

    def tokens(
        self, request: Request, sentence: Sentence, way: Best
    ) -> Generator[int, None, Hypothesis]:
        if self.can_express(request, way):
            ((_, outputs),) = self.backend.decode(request, [sentence])
            if outputs:
                yield from outputs[0].ids[sentence.n_prefix :]
                return outputs[0]
        return (yield from self.own.tokens(request, sentence, way))

    def can_express(self, request: Request, way: Best) -> bool:
        """No terms and no draws, one model, and nobody who watches or edits the search."""
        is_plain = type(way) in (Best, Greedy) and len(request.models) == 1
        unwatched = request.tap is None and request.record is None and request.watch is None
        return is_plain and unwatched and not self.backend.lacks(request.options)
