"""CTranslate2 as a backend: processes of its own decode what it can express, exactly as we would.

Its beam search ends otherwise than ours: a few more hypotheses are let finish than the beam is
wide, and ranked by our length penalty. Rules that it applies before the softmax, and we after,
would change the search; so it knows none of them, and an output that breaks one goes to our own.
"""

import json
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from clearhead.config import DecodeConfig
from clearhead.decode import Hypothesis, Ranking, Request, Sentence
from clearhead.errors import ModelError
from clearhead.model import Model

AT_ONCE = 64
"""Sentences of like length in one batch."""
AHEAD = 2
"""Batches that a process is given at a time, so that it never waits for the next."""
SPARE = 1.4
"""Finished hypotheses to wait for, as a multiple of the beam's width."""
Result = tuple[Sentence, list[Hypothesis]]
Text = tuple[list[int], list[float]]
"""Tokens with their end, and the log-probability of each of them or the sum of all."""


def lacks(options: DecodeConfig) -> list[str]:
    """The options that it cannot express, by name."""
    found = {
        "decode.temperature": options.temperature,
        "decode.min_length": options.min_length,
        # The best token is the same before and after the softmax, the best beam is not.
        "decode.no_repeat_ngram": options.no_repeat_ngram and options.beam > 1,
        "decode.repetition_penalty": options.repetition_penalty != 1,
        # Our search goes on while a longer output could still win; its own ends sooner.
        "decode.penalty": options.beam > 1 and options.penalty == "average",
        "decode.length_penalty": options.beam > 1 and options.length_penalty > 1,
    }
    return [name for name, is_asked in found.items() if is_asked]


class Worker:
    """A process that holds the model, and answers one question after the other.

    Several threads may ask: while one reads its answer, the process is at the next question.
    """

    def __init__(self, folder: Path, precision: str) -> None:
        program = Path(__file__).with_name("ct2_worker.py")
        self.process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", program, folder, precision],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.asking, self.answering = threading.Lock(), threading.Condition()
        self.n_asked = self.n_answered = 0

    def ask(self, verb: str, **asked: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        question = json.dumps({"verb": verb, **asked}) + "\n"
        try:
            with self.asking:
                self.process.stdin.write(question)
                self.process.stdin.flush()
                turn, self.n_asked = self.n_asked, self.n_asked + 1
            with self.answering:  # answers come in the order of the questions
                self.answering.wait_for(lambda: self.n_answered == turn)
                answer = self.process.stdout.readline()
                self.n_answered += 1
                self.answering.notify_all()
            return json.loads(answer)
        except (OSError, ValueError):
            raise ModelError(
                f"A process of CTranslate2 ended: {self.last_words()}.",
                "Decode without it: --engine own",
            ) from None

    def last_words(self) -> str:
        assert self.process.stderr is not None
        self.process.kill()
        return (self.process.stderr.read().strip().splitlines() or ["it said nothing"])[-1]

    def end(self) -> None:
        """Its death ends the wait of whoever has asked it."""
        with suppress(OSError), self.process:  # what it never read cannot be sent
            self.process.kill()


class CTranslate2:
    """The model in a folder of CTranslate2's, decoded by processes that start when first asked."""

    def __init__(
        self, folder: Path, model: Model, *, n_workers: int, precision: str = "float32"
    ) -> None:
        self.folder, self.n_workers, self.precision = folder, n_workers, precision
        self.reads, self.source_end = model.config.reads, model.config.source_end
        table = model.get_submodule("decoder.positions").table
        assert isinstance(table, Tensor), "positions are a table, learned or not"
        self.n_positions = len(table)
        self.workers: list[Worker] = []
        self.free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self.starting = threading.Lock()
        weakref.finalize(self, end_all, self.workers)

    lacks = staticmethod(lacks)

    @staticmethod
    def is_ready() -> bool:
        return True

    def decode(self, request: Request, sentences: Sequence[Sentence]) -> Iterator[Result]:
        able = []
        for each in sentences:
            if self.can_read(each, request):
                able.append(each)
            else:
                yield each, []
        if not able:
            return
        free = self.started()

        def work(batch: Sequence[Sentence]) -> list[Result]:
            if request.should_stop():
                return [(sentence, []) for sentence in batch]
            worker = free.get()
            try:
                return answers(worker, request, batch)
            finally:
                free.put(worker)

        batches = list(self.batches(able))
        threads = ThreadPoolExecutor(AHEAD * self.n_workers)
        try:
            if len(batches) == 1:
                yield from work(batches[0])
            waiting = [threads.submit(work, batch) for batch in batches if len(batches) > 1]
            for done in as_completed(waiting):
                yield from done.result()
        except BaseException:  # Ctrl-C, a caller that wants no more, a worker that died
            self.close()
            raise
        finally:
            threads.shutdown(cancel_futures=True)

    def can_read(self, sentence: Sentence, request: Request) -> bool:
        """Whether it can be told as it is: an end after the source, if the model reads one; no
        prefix, no least length of its own, positions enough."""
        if self.reads:
            ends = sentence.source[-1:] == (request.end,)
            fits = ends == self.source_end and len(sentence.source) <= self.n_positions
            return fits and not sentence.n_prefix and not sentence.min_length
        n_tokens = len(sentence.prompt) + sentence.limit - sentence.n_prefix
        is_plain = request.options.beam == 1 and not request.options.no_repeat_ngram
        return is_plain and n_tokens <= self.n_positions

    def batches(self, sentences: Sequence[Sentence]) -> Iterator[Sequence[Sentence]]:
        """Sentences of like length together, the longest first, so that all workers end alike."""
        n_each = min(AT_ONCE, ceil(len(sentences) / self.n_workers))
        ordered = sorted(sentences, key=lambda each: -len(each.source or each.prompt))
        return (ordered[start : start + n_each] for start in range(0, len(ordered), n_each))

    def started(self) -> "queue.SimpleQueue[Worker]":
        """The processes that can take a batch: several callers share them."""
        with self.starting:
            if not self.workers:
                self.free = queue.SimpleQueue()
                new = (Worker(self.folder, self.precision) for _ in range(self.n_workers))
                self.workers.extend(new)
                for worker in self.workers * AHEAD:
                    self.free.put(worker)
            return self.free

    def memory(self) -> float:
        """MB that the first process has needed at most; 0 where the system does not say."""
        status = Path(f"/proc/{self.workers[0].process.pid}/status")
        if not status.exists():
            return 0.0
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024

    def close(self) -> None:
        end_all(self.workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def end_all(workers: list[Worker]) -> None:
    while workers:
        workers.pop().end()


def answers(worker: Worker, request: Request, batch: Sequence[Sentence]) -> list[Result]:
    """The outputs of a batch; none, where a rule that CTranslate2 does not know would be broken."""
    beam, no_repeat = request.options.beam, request.options.no_repeat_ngram
    # it puts an end after a source by itself, if the model reads one
    n_ends = [each.source[-1:] == (request.end,) for each in batch]
    sources = [
        list(each.source[: len(each.source) - n_end] if each.source else each.prompt)
        for each, n_end in zip(batch, n_ends, strict=True)
    ]
    found = worker.ask(
        "decode",
        sources=sources,
        beam=beam,
        n_hypotheses=1 if beam == 1 else round(SPARE * beam),
        limit=max(each.limit - each.n_prefix for each in batch),
        no_repeat=no_repeat,
        end=request.end,
        scored=request.scored and not no_repeat,  # its scores are of what the rule left over
    )
    blocked = set(request.blocked) - {request.end}
    texts = [best_of(*pair, request, blocked) for pair in zip(batch, found, strict=True)]
    if request.scored and (beam > 1 or no_repeat or not batch[0].source):
        score_tokens(worker, sources, texts)
    return [
        (sentence, [hypothesis(sentence, *text, request) for text in some])
        for sentence, some in zip(batch, texts, strict=True)
    ]


def best_of(
    sentence: Sentence, found: Sequence[Text], request: Request, blocked: set[int]
) -> list[Text]:
    """As many as are asked for, by our ranking, if each is an output that our search may find."""
    ranking, n_best = Ranking(request.options), request.options.n_best
    limit, is_greedy = sentence.limit - sentence.n_prefix, request.options.beam == 1
    if is_greedy:  # a longer search begins with the same tokens
        best = [(ids[:limit], log_probs[:limit]) for ids, log_probs in found]
    else:
        ranked = sorted(found, key=lambda text: -ranking.score(sum(text[1]), len(text[0])))
        best = ranked[:n_best]
    # What is scored anew, a beam's and what blocks repetition, must have its end.
    is_whole = (is_greedy and not request.options.no_repeat_ngram) or all(
        ids[-1] == request.end and len(ids) <= limit for ids, _ in best
    )
    allowed = is_whole and len(best) == n_best and all(blocked.isdisjoint(ids) for ids, _ in best)
    return best if allowed else []


def score_tokens(worker: Worker, sources: list[list[int]], texts: list[list[Text]]) -> None:
    """Put the log-probability of each token, and of a prefix before them, in place of their sum."""
    flat = [
        (source, some, place, ids)
        for source, some in zip(sources, texts, strict=True)
        for place, (ids, _) in enumerate(some)
    ]
    if flat:
        found = worker.ask(
            "score", sources=[s for s, *_ in flat], targets=[ids for *_, ids in flat]
        )
        for (_, some, place, ids), log_probs in zip(flat, found, strict=True):
            some[place] = ids, log_probs


def hypothesis(
    sentence: Sentence, ids: Sequence[int], log_probs: Sequence[float], request: Request
) -> Hypothesis:
    finished = ids[-1:] == [request.end]
    text = (*sentence.prefix, *ids)
    own = tuple(log_probs[len(log_probs) - len(text) :] if request.scored else log_probs)
    return Hypothesis(
        ids=text[:-1] if finished else text,
        score=Ranking(request.options).score(sum(own), max(1, len(text))),
        log_probs=own if request.scored else (),
        finished=finished,
    )
