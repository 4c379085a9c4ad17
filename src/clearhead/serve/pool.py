"""The pool: sentences of many callers, decoded together (continuous batching).

Each caller has a ticket. Its sentences wait until the batch has room for their tokens, come in
between two steps, and leave when they are done, when their time is over, or when the caller has
left. Neighbours never change an answer: the search holds every sentence apart, and a random draw is
seeded by what is asked.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import torch

from clearhead.config import DecodeConfig
from clearhead.decode import Backend, Best, Hypothesis, Ranking, Request, Search, Sentence
from clearhead.errors import ClearheadError, RequestError

Result = tuple[Sentence, list[Hypothesis]]
T = TypeVar("T")
V = TypeVar("V")
BATCH_TOKENS = 4_096
"""Tokens of the inputs that are decoded together, times the beam."""
FEW, PATIENCE = 2, 6
"""Newcomers that are fewer than half of those inside wait for others, but for so many steps at
most: coming in one by one, each would have the caches of all copied.
"""
RULES = ("temperature", "top_k", "top_p", "min_p", "no_repeat_ngram", "repetition_penalty")
"""Settings that sentences must have in common to be decoded together, besides the beam."""


@dataclass(eq=False)
class Job:
    """One sentence in the pool, and where its results go."""

    ticket: "Ticket"
    request: Request
    sentence: Sentence
    way: Best
    inbox: "SimpleQueue[Any]"
    left: bool = False

    @property
    def kind(self) -> tuple[Any, ...]:
        """Jobs of one kind are chosen by the same rules, so they can share a search."""
        rules = [getattr(self.request.options, name) for name in RULES]
        models = tuple(map(id, self.request.models))
        return (
            models,
            type(self.way),
            self.request.end,
            self.request.blocked,
            self.way.width,
            *rules,
        )

    @property
    def cost(self) -> int:
        return self.way.width * max(len(self.sentence.source), len(self.sentence.prompt))

    @property
    def over(self) -> bool:
        return self.left or self.ticket.over


class Ticket:
    """One caller: how long it waits, whether it is still there, and who watches its outputs.

    It decodes in the place of `clearhead.decode.ALONE`, for a thread that waits.
    """

    def __init__(self, pool: "Pool", seconds: float) -> None:
        self.pool, self.deadline = pool, time.monotonic() + seconds
        self.left = False
        self.watch: Callable[[int, list[int], list[float]], None] | None = None
        self.said: list[tuple[int, float]] = []
        """The tokens of an output that is streamed, with their log-probabilities, so far."""

    @property
    def over(self) -> bool:
        return self.left or time.monotonic() > self.deadline

    def leave(self) -> None:
        """The caller does not wait any longer: its sentences leave before the next step."""
        self.left = True

    def refusal(self) -> RequestError:
        if self.left:
            return RequestError("The client has left.", status=499, code="client_left")
        return RequestError(
            "The answer took too long.", "Ask for less at once, or later.", 504, "deadline"
        )

    def results(
        self, request: Request, sentences: Sequence[Sentence], way: Best
    ) -> Iterator[Result]:
        return self.pooled(self.pool, replace(request, watch=self.watch), sentences, way)

    def pooled(
        self, pool: "Pool", request: Request, sentences: Sequence[Sentence], way: Best
    ) -> Iterator[Result]:
        inbox: SimpleQueue[Any] = SimpleQueue()
        pool.add([Job(self, request, replace(each), way, inbox) for each in sentences])
        for _ in sentences:
            yield received(inbox)

    def tokens(
        self, request: Request, sentence: Sentence, way: Best
    ) -> Generator[int, None, Hypothesis]:
        inbox: SimpleQueue[Any] = SimpleQueue()
        watched = replace(request, watch=lambda *settled: inbox.put(settled))
        job = Job(self, watched, replace(sentence), way, inbox)
        self.pool.add([job])
        n_seen = sentence.n_prefix
        try:
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
        finally:
            job.left = True


@dataclass(frozen=True)
class Handing:
    """The backend of a pool, as one caller of many sees it; what is watched is left to our own."""

    pool: "Pool"
    backend: Backend
    ticket: Ticket

    def lacks(self, options: DecodeConfig) -> list[str]:
        return self.backend.lacks(options)

    def decode(self, request: Request, sentences: Sequence[Sentence]) -> Iterator[Result]:
        if self.ticket.watch is not None:
            return ((sentence, []) for sentence in sentences)
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
    """Jobs of one kind, in one search."""

    def __init__(self) -> None:
        self.search: Search | None = None
        self.jobs: dict[int, Job] = {}  # by the identity of their sentences

    def begin(self, jobs: Sequence[Job]) -> None:
        self.jobs |= {id(job.sentence): job for job in jobs}
        new = Search(
            jobs[0].request,
            [job.sentence for job in jobs],
            jobs[0].way,
            [job.request for job in jobs],
        )
        self.dismiss(new)
        if self.search:
            self.search.join(new)
        self.search = self.search or new

    def step(self) -> None:
        assert self.search is not None, "a group begins with jobs"
        self.search.take(
            lambda slot: self.jobs[id(slot.sentence)].over and self.refuse(slot.sentence)
        )
        if self.search:
            self.search.advance()
            self.dismiss(self.search)

    def dismiss(self, search: Search) -> None:
        for sentence, outputs in search.take():
            self.jobs.pop(id(sentence)).inbox.put((sentence, outputs))

    def refuse(self, sentence: Sentence) -> bool:
        job = self.jobs.pop(id(sentence))
        job.inbox.put(job.ticket.refusal())
        return True


class Handed(Group):
    """Jobs that a backend decodes at once; meanwhile those of the next turn gather."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.backend = backend

    def begin(self, jobs: Sequence[Job]) -> None:
        self.jobs |= {id(job.sentence): job for job in jobs}
        left = list(jobs)
        while left:
            asked = left[0].request
            same = [job for job in left if is_alike(job.request, asked)]
            left = [job for job in left if not is_alike(job.request, asked)]
            with suppress(ClearheadError):  # its process has ended: our own search goes on
                for sentence, outputs in self.backend.decode(asked, [job.sentence for job in same]):
                    self.jobs.pop(id(sentence)).inbox.put((sentence, outputs))
        for job in self.jobs.values():
            job.inbox.put((job.sentence, []))
        self.jobs.clear()


def is_alike(one: Request, other: Request) -> bool:
    return one.options == other.options and one.scored == other.scored


class Pool:
    """Threads that decode for all callers of a model, or have a backend do it.

    Each has a batch of its own: while one thread computes, another may choose tokens.
    """

    def __init__(
        self, name: str = "", group: Callable[[], Group] = Group, n_threads: int = 1
    ) -> None:
        self.waiting: deque[Job] = deque()
        self.changed, self.closed = threading.Condition(), False
        self.hands = [Hand(self, group) for _ in range(n_threads)]
        self.threads = [
            threading.Thread(target=hand.run, name=f"decode {name}", daemon=True)
            for hand in self.hands
        ]
        for thread in self.threads:
            thread.start()

    @property
    def is_alive(self) -> bool:
        return all(thread.is_alive() for thread in self.threads)

    @property
    def n_inside(self) -> int:
        groups = [group for hand in self.hands for group in hand.groups.copy().values()]
        return sum(len(group.jobs) for group in groups)

    @property
    def n_steps(self) -> int:
        return sum(hand.n_steps for hand in self.hands)

    @property
    def n_tokens(self) -> int:
        return sum(hand.n_tokens for hand in self.hands)

    def add(self, jobs: Sequence[Job]) -> None:
        with self.changed:
            if self.closed:
                raise RequestError("The model was put away.", "Ask again.", 503, "unloaded")
            self.waiting.extend(jobs)
            self.changed.notify()

    def close(self) -> None:
        """Decode what is there, then end."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()


class Hand:
    """One thread of a pool, and the batch that it decodes."""

    def __init__(self, pool: Pool, group: Callable[[], Group]) -> None:
        self.pool, self.new_group = pool, group
        self.groups: dict[tuple[Any, ...], Group] = {}
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
            for kind, jobs in by_kind(new).items():
                group = self.groups.setdefault(kind, self.new_group())
                self.guarded(kind, partial(group.begin, jobs))
            for kind, group in list(self.groups.items()):
                self.n_steps += 1
                self.n_tokens += len(group.jobs)
                self.guarded(kind, group.step)

    def admitted(self) -> list[Job]:
        """Those whose turn it is, as many as there is room for; those that are over are told so."""
        waiting = self.pool.waiting
        for job in [job for job in waiting if job.over]:
            waiting.remove(job)
            job.inbox.put(job.ticket.refusal())
        inside = [job for group in self.groups.values() for job in group.jobs.values()]
        self.n_passed += 1
        if len(waiting) * FEW < len(inside) and self.n_passed < PATIENCE:
            return []
        self.n_passed = 0
        room, new = BATCH_TOKENS - sum(job.cost for job in inside), list[Job]()
        while waiting and (waiting[0].cost <= room or not (inside or new)):
            room -= waiting[0].cost
            new.append(waiting.popleft())
        return new

    def guarded(self, kind: tuple[Any, ...], work: Callable[[], None]) -> None:
        """Do a group's work; if it fails, its callers hear of it, and the others go on."""
        group = self.groups[kind]
        try:
            work()
        except Exception as error:
            for job in group.jobs.values():
                job.inbox.put(error)
            group.jobs.clear()
        if not group.jobs:
            del self.groups[kind]


def by_kind(jobs: Sequence[Job]) -> dict[tuple[Any, ...], list[Job]]:
    found: dict[tuple[Any, ...], list[Job]] = {}
    for job in jobs:
        found.setdefault(job.kind, []).append(job)
    return found


class Together(Generic[T, V]):
    """Questions of many threads, answered at once: whoever comes first asks for all who wait."""

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
