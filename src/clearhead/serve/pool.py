"""The pool: sentences of many callers, decoded together (continuous batching).

Each caller has a ticket. Its sentences wait until the batch has room for their tokens, come in
between two steps, and leave when they are done, when their time is over, or when the caller has
left. Neighbours never change an answer: the search holds every sentence apart, and a random draw is
seeded by what is asked.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import torch

from clearhead.config import DecodeConfig
from clearhead.decode import Backend, Best, Hypothesis, Ranking, Request, Search, Sentence
from clearhead.decode.search import Result
from clearhead.errors import ClearheadError, RequestError

T = TypeVar("T")
V = TypeVar("V")
BATCH_TOKENS = 4_096
"""Tokens of the inputs that are decoded together, times the beam."""
FEW, PATIENCE = 2, 6
"""Newcomers that are fewer than half of those inside wait for others, but for so many steps at
most: if they came in one by one, the KV caches of all would be copied each time.
"""
RULES = ("temperature", "top_k", "top_p", "min_p", "no_repeat_ngram", "repetition_penalty")
"""Settings that sentences must have in common to be decoded together, besides the beam."""


@dataclass(eq=False)
class PooledSentence:
    """One sentence in the pool, and where its results go."""

    ticket: "Ticket"
    request: Request
    sentence: Sentence
    way: Best
    inbox: "SimpleQueue[Any]"

    @property
    def rules(self) -> Hashable:
        """Sentences that are chosen by the same rules can share a search."""
        return (
            *map(id, self.request.models),
            type(self.way),
            self.way.width,
            self.request.end,
            self.request.blocked,
            *(getattr(self.request.options, name) for name in RULES),
        )

    @property
    def cost(self) -> int:
        """The room that it takes in the batch, in tokens."""
        return self.way.width * max(len(self.sentence.source), len(self.sentence.prompt))

    def refuse(self) -> None:
        self.inbox.put(self.ticket.refusal())


class Ticket:
    """One caller of the pool: its deadline, whether it has left, and who watches its outputs.

    It decodes in the place of `clearhead.decode.ALONE`, for a thread that waits.
    """

    def __init__(self, pool: "Pool", seconds: float, gone: threading.Event | None = None) -> None:
        self.pool, self.deadline = pool, time.monotonic() + seconds
        self.left = False
        self.gone = gone or threading.Event()  # set when the client leaves, with all its tickets
        self.watch: Callable[[int, list[int], list[float]], None] | None = None
        self.said: list[tuple[int, float]] = []
        """The new tokens of an output that is streamed, with their log-probabilities."""

    @property
    def over(self) -> bool:
        return self.left or self.gone.is_set() or time.monotonic() > self.deadline

    def leave(self) -> None:
        """The caller does not wait any longer: its sentences leave before the next step."""
        self.left = True

    def refusal(self) -> RequestError:
        if self.left or self.gone.is_set():
            return RequestError("The client has left.", status=499, code="client_left")
        return RequestError(
            "The answer took too long.", "Ask for less at once, or later.", 504, "deadline"
        )

    def take_said(self) -> list[tuple[int, float]]:
        """The tokens that a streamed output has got since the last call."""
        taken, self.said = self.said, []
        return taken

    def results(
        self, request: Request, sentences: Sequence[Sentence], way: Best
    ) -> Iterator[Result]:
        return self.pooled(self.pool, replace(request, watch=self.watch), sentences, way)

    def pooled(
        self, pool: "Pool", request: Request, sentences: Sequence[Sentence], way: Best
    ) -> Iterator[Result]:
        inbox: SimpleQueue[Any] = SimpleQueue()
        pool.add([PooledSentence(self, request, replace(each), way, inbox) for each in sentences])
        for _ in sentences:
            yield received(inbox)

    def tokens(
        self, request: Request, sentence: Sentence, way: Best
    ) -> Generator[int, None, Hypothesis]:
        inbox: SimpleQueue[Any] = SimpleQueue()
        watched = replace(request, watch=lambda *settled: inbox.put(settled))
        self.pool.add([PooledSentence(self, watched, replace(sentence), way, inbox)])
        n_seen = sentence.n_prefix
        while len(found := received(inbox)) == 3:
            _, ids, log_probs = found
            for token, log_prob in zip(ids[n_seen:], log_probs[n_seen:], strict=False):
                n_seen += 1
                if token != request.end:
                    self.said.append((token, log_prob))
                    yield token
            if request.should_stop():
                return cut_off(request, ids[:n_seen], log_probs[:n_seen])
        best: Hypothesis = found[1][0]
        return best


@dataclass(frozen=True)
class SharedBackend:
    """A backend that many callers share; what is streamed is left to our own search."""

    pool: "Pool"
    backend: Backend
    ticket: Ticket

    def lacks(self, options: DecodeConfig) -> list[str]:
        return ["watch"] if self.ticket.watch else self.backend.lacks(options)

    def decode(self, request: Request, sentences: Sequence[Sentence]) -> Iterator[Result]:
        return self.ticket.pooled(self.pool, request, sentences, Best(request))


def received(inbox: "SimpleQueue[Any]") -> Any:
    """What comes next; an error is raised here, in the thread that waits for it."""
    found = inbox.get()
    if isinstance(found, Exception):
        raise found
    return found


def cut_off(request: Request, ids: list[int], log_probs: list[float]) -> Hypothesis:
    """The tokens that were wanted; the pool may be some ahead, which must not be seen."""
    score = Ranking(request.options).score(sum(log_probs), max(1, len(ids)))
    return Hypothesis(tuple(ids), score, tuple(log_probs), finished=False)


class Group:
    """Sentences that share one search."""

    def __init__(self) -> None:
        self.search: Search | None = None
        self.inside: dict[int, PooledSentence] = {}  # by the identity of their sentences

    def begin(self, new: Sequence[PooledSentence]) -> None:
        self.inside |= {id(each.sentence): each for each in new}
        search = Search(
            new[0].request,
            [each.sentence for each in new],
            new[0].way,
            [each.request for each in new],
        )
        self.dismiss(search.take())
        if self.search:
            self.search.join(search)
        self.search = self.search or search

    def step(self) -> None:
        assert self.search is not None, "a group begins with sentences"
        for sentence, _ in self.search.take(
            lambda slot: self.inside[id(slot.sentence)].ticket.over
        ):
            self.inside.pop(id(sentence)).refuse()
        if self.search:
            self.search.advance()
            self.dismiss(self.search.take())

    def dismiss(self, results: Iterator[Result] | list[Result]) -> None:
        """Give the results of sentences that are done to who waits for them."""
        for sentence, outputs in results:
            self.inside.pop(id(sentence)).inbox.put((sentence, outputs))


class BackendGroup(Group):
    """Sentences that a backend decodes at once; meanwhile those of the next batch gather."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.backend = backend

    def begin(self, new: Sequence[PooledSentence]) -> None:
        self.inside |= {id(each.sentence): each for each in new}
        alike = grouped(new, lambda each: (each.request.options, each.request.scored))
        for some in alike.values():
            with suppress(ClearheadError):  # its process has ended: our own search goes on
                sentences = [each.sentence for each in some]
                self.dismiss(self.backend.decode(some[0].request, sentences))
        self.dismiss([(each.sentence, []) for each in self.inside.values()])


def grouped(
    sentences: Sequence[PooledSentence], key: Callable[[PooledSentence], Hashable]
) -> dict[Hashable, list[PooledSentence]]:
    found: dict[Hashable, list[PooledSentence]] = {}
    for each in sentences:
        found.setdefault(key(each), []).append(each)
    return found


class Pool:
    """Threads that decode for all callers of a model, or have a backend do it.

    Each has a batch of its own: while one thread computes, another may choose tokens.
    """

    def __init__(
        self, name: str = "", group: Callable[[], Group] = Group, n_threads: int = 1
    ) -> None:
        self.waiting: deque[PooledSentence] = deque()
        self.changed, self.closed = threading.Condition(), False
        self.threads = [DecodingThread(self, name, group) for _ in range(n_threads)]
        for thread in self.threads:
            thread.start()

    @property
    def is_alive(self) -> bool:
        return all(thread.is_alive() for thread in self.threads)

    @property
    def n_waiting(self) -> int:
        return len(self.waiting)

    @property
    def n_inside(self) -> int:
        groups = [group for thread in self.threads for group in thread.groups.copy().values()]
        return sum(len(group.inside) for group in groups)

    @property
    def n_steps(self) -> int:
        return sum(thread.n_steps for thread in self.threads)

    @property
    def n_tokens(self) -> int:
        return sum(thread.n_tokens for thread in self.threads)

    def add(self, sentences: Sequence[PooledSentence]) -> None:
        with self.changed:
            if self.closed:
                raise RequestError("The model was put away.", "Ask again.", 503, "unloaded")
            self.waiting.extend(sentences)
            self.changed.notify()

    def close(self) -> None:
        """Decode what is there, then end."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()


class DecodingThread(threading.Thread):
    """One thread of a pool, and the batch that it decodes."""

    def __init__(self, pool: Pool, name: str, group: Callable[[], Group]) -> None:
        super().__init__(name=f"decode {name}", daemon=True)
        self.pool, self.new_group = pool, group
        self.groups: dict[Hashable, Group] = {}
        self.n_steps = self.n_tokens = self.n_passed = 0

    @torch.inference_mode()
    def run(self) -> None:
        pool = self.pool
        while True:
            with pool.changed:
                pool.changed.wait_for(lambda: pool.waiting or self.groups or pool.closed)
                if not (pool.waiting or self.groups):
                    return
                new = self.admitted()
            for rules, sentences in grouped(new, lambda each: each.rules).items():
                group = self.groups.setdefault(rules, self.new_group())
                self.guarded(rules, partial(group.begin, sentences))
            for rules, group in list(self.groups.items()):
                self.n_steps += 1
                self.n_tokens += len(group.inside)
                self.guarded(rules, group.step)

    def admitted(self) -> list[PooledSentence]:
        """Those whose turn it is, as many as there is room for; those that are over are told so."""
        waiting = self.pool.waiting
        for each in [each for each in waiting if each.ticket.over]:
            waiting.remove(each)
            each.refuse()
        inside = [each for group in self.groups.values() for each in group.inside.values()]
        self.n_passed += 1
        if len(waiting) * FEW < len(inside) and self.n_passed < PATIENCE:
            return []
        self.n_passed = 0
        room, new = BATCH_TOKENS - sum(each.cost for each in inside), list[PooledSentence]()
        while waiting and (waiting[0].cost <= room or not (inside or new)):
            room -= waiting[0].cost
            new.append(waiting.popleft())
        return new

    def guarded(self, rules: Hashable, work: Callable[[], None]) -> None:
        """Do a group's work; if it fails, its callers get the error, and the others go on."""
        group = self.groups[rules]
        try:
            work()
        except Exception as error:
            for each in group.inside.values():
                each.inbox.put(error)
            group.inside.clear()
        if not group.inside:
            del self.groups[rules]


class MicroBatcher(Generic[T, V]):
    """Questions of many threads, answered at once: the first thread asks for all that wait."""

    def __init__(self, answer: Callable[[list[T]], Sequence[V]]) -> None:
        self.answer, self.turn = answer, threading.Lock()
        self.waiting: deque[tuple[list[T], Future[list[V]]]] = deque()

    def __call__(self, questions: list[T]) -> list[V]:
        mine: Future[list[V]] = Future()
        self.waiting.append((questions, mine))
        with self.turn:
            if not mine.done():
                self.answer_all([self.waiting.popleft() for _ in range(len(self.waiting))])
        return mine.result()

    def answer_all(self, asked: list[tuple[list[T], Future[list[V]]]]) -> None:
        try:
            answers = iter(self.answer([each for questions, _ in asked for each in questions]))
            found = [[next(answers) for _ in questions] for questions, _ in asked]
        except Exception as error:
            if len(asked) == 1:
                asked[0][1].set_exception(error)
            else:  # only who asked wrongly is told so
                for each in asked:
                    self.answer_all([each])
            return
        for (_, future), own in zip(asked, found, strict=True):
            future.set_result(own)
