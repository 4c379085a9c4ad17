"""The search: at each step the hypotheses of every sentence go on, in one of several ways.

Greedy search takes the best token, sampling one drawn at random, beam search the best few
continuations of the best few hypotheses. A hypothesis that ends is put aside and its place in the
beam is free until the next step; so a beam of 1 is greedy. A sentence is done when no living
hypothesis can still become better than the worst finished one that is kept (early stopping).

Sentences are decoded together with those of their length, the longest first. Those that are done
leave. The others are mostly done soon after, so new ones wait for a batch of their own; only when a
few go on for much too long do new ones come in beside them (continuous batching). A batch never
changes what comes out of it.
"""

import math
import random
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from clearhead.decode.choose import NOTHING, Rules, best_tokens, drawn_tokens, top
from clearhead.decode.engine import Engine, engine_for
from clearhead.decode.request import (
    ROOT,
    BeamCandidate,
    BeamRecord,
    Fate,
    Hypothesis,
    Ranking,
    Request,
    TokenNode,
    chain,
)
from clearhead.decode.sentence import Sentence, padded
from clearhead.decode.threads import Steps, Threads

Result = tuple[Sentence, list[Hypothesis]]
"""A sentence and its outputs, best first."""
Pick = tuple[float, int, int, float]
"""A continuation: cumulative score, parent, token and the token's own log-probability."""
PATIENCE = 16
"""Steps more than the longest source has tokens, after which a batch is no longer waited for."""


class Slot:
    """A sentence in the batch: its living hypotheses and its finished ones."""

    def __init__(self, sentence: Sentence, root: TokenNode, request: Request) -> None:
        self.sentence, self.request, self.ranking = sentence, request, Ranking(request.options)
        self.width, self.n_best = request.options.beam, request.options.n_best
        self.end, self.length = request.end, sentence.n_prefix
        self.rows = [root]
        self.parents: list[int] = []
        self.tokens: list[int] = []
        # Minus infinity: it has ended, or never was.
        self.totals = [sum(root.path()[1], 0.0)]
        self.finished: list[Hypothesis] = []
        self.done = False

    def grow(self, picks: Sequence[Pick]) -> None:
        """The hypotheses become the first of these, which come best first; those that end leave.

        Where the rules allow no continuation, they stay as they are.
        """
        if self.request.record is not None:
            self.note(picks, self.request.record)
        if not picks or picks[0][0] == -torch.inf:
            self.done = True
            return
        before, self.rows, self.totals, end = self.rows, [], [], self.end
        self.parents, self.tokens, self.length = [], [], self.length + 1
        for total, parent, token, log_prob in picks[: self.width]:
            node = TokenNode(token, log_prob, before[parent], self.length)
            self.rows.append(node)
            self.parents.append(parent)
            self.tokens.append(token)
            if token == end and total > -torch.inf:
                ended = self.ranking.hypothesis(node, total, finished=True)
                best_first = sorted([*self.finished, ended], key=lambda each: -each.score)
                self.finished = best_first[: self.n_best]
            self.totals.append(-torch.inf if token == end else total)
        limit, best = self.sentence.limit, max(self.totals)
        self.done = self.length >= limit or best == -torch.inf
        if not self.done and len(self.finished) == self.n_best:
            self.done = self.ranking.best_case(best, self.length, limit) <= self.finished[-1].score

    def texts(self) -> list[list[int]]:
        """What each hypothesis has written."""
        return [row.path()[0] for row in self.rows]

    def result(self) -> Result:
        """The best finished hypotheses; where there are too few, the best of the others follow."""
        others = [
            self.ranking.hypothesis(row, total, finished=False)
            for total, row in zip(self.totals, self.rows, strict=True)
            if total > -torch.inf
        ]
        return self.sentence, (self.finished + sorted(others, key=lambda each: -each.score))[
            : self.n_best
        ]

    def settled(self) -> tuple[list[int], list[float]]:
        """What every hypothesis that may still be the best begins with, and its log-probabilities.

        No later step can change it, so it may be shown while the rest is being searched for. When
        all is done, an end token follows, also where the output was cut off.
        """
        if self.done:
            outputs = self.result()[1]
            return (
                ([*outputs[0].ids, self.end], list(outputs[0].log_probs)) if outputs else ([], [])
            )
        paths = [
            row.path()
            for row, total in zip(self.rows, self.totals, strict=True)
            if total > -torch.inf
        ]
        paths += [([*each.ids, self.end], list(each.log_probs)) for each in self.finished]
        tokens, log_probs = min(paths, key=lambda path: len(path[0]), default=([], []))
        n_same = next(
            (i for i, token in enumerate(tokens) if any(path[i] != token for path, _ in paths)),
            len(tokens),
        )
        return tokens[:n_same], log_probs[:n_same]

    def note(self, picks: Sequence[Pick], record: BeamRecord) -> None:
        candidates = [
            BeamCandidate(
                rank=rank,
                parent=parent,
                token=token,
                log_prob=log_prob,
                cumulative=total,
                fate=self.fate(rank, token),
            )
            for rank, (total, parent, token, log_prob) in enumerate(picks)
            if total > -torch.inf
        ]
        record.setdefault(self.sentence.index, []).append(candidates)

    def fate(self, rank: int, token: int) -> Fate:
        if rank >= self.width:
            return "pruned"
        return "finished" if token == self.end else "kept"

    @cached_property
    def random(self) -> random.Random:
        """Seeded by what is asked, so that neighbours in a batch and the order do not matter."""
        asked = self.sentence.source, self.sentence.prompt, self.sentence.draw
        return random.Random(repr((self.request.options.seed, asked)))  # noqa: S311

    def chance(self) -> float:
        """From 0 to below 1, in steps coarse enough never to be rounded up to 1."""
        return self.random.getrandbits(32) / 2**32


class UnscoredSlot(Slot):
    """A sentence in the batch with one hypothesis, of which only the tokens are wanted."""

    def __init__(self, sentence: Sentence, root: TokenNode, request: Request) -> None:
        super().__init__(sentence, root, request)
        self.ids, self.parents = list(sentence.prefix), [0]

    def grow(self, picks: Sequence[Pick]) -> None:
        ((logit, _, token, _),) = picks
        if logit == -torch.inf:
            self.done = True
            return
        self.ids.append(token)
        self.tokens, self.length = [token], self.length + 1
        self.done = token == self.end or self.length >= self.sentence.limit

    def texts(self) -> list[list[int]]:
        return [self.ids]

    def result(self) -> Result:
        is_ended = self.tokens == [self.end]
        ids = tuple(self.ids[:-1] if is_ended else self.ids)
        return self.sentence, [Hypothesis(ids, math.nan, log_probs=(), finished=is_ended)]


class Best:
    """A way of choosing: the best continuations; greedy where there is one hypothesis."""

    slot: type[Slot] = Slot
    scored = True

    def __init__(self, request: Request) -> None:
        self.options, self.width = request.options, request.options.beam
        # Where the search is recorded, as many that do not go on are noted as do.
        self.n_picked = self.width * (1 if request.record is None else 2)

    def pick(
        self,
        slots: Sequence[Slot],
        ruled: Float[Tensor, "N W V"],
        log_probs: Float[Tensor, "N W V"],
    ) -> list[list[Pick]]:
        """For each sentence its continuations, best first; `ruled` is what to choose by."""
        if self.n_picked == 1:
            return one_each(slots, best_tokens(ruled), log_probs)
        n_each = min(self.n_picked, ruled.size(2))
        values, tokens = top(ruled, n_each)
        totals = (totals_of(slots, ruled)[..., None] + values).flatten(1)  # (N, W * n_each)
        best = totals.topk(min(self.n_picked, totals.size(1)))
        parents = best.indices // n_each
        tokens = tokens.flatten(1).gather(1, best.indices)
        chosen = log_probs.flatten(1).gather(1, parents * log_probs.size(2) + tokens)
        columns = (column.tolist() for column in (best.values, parents, tokens, chosen))
        return [list(zip(*rows, strict=True)) for rows in zip(*columns, strict=True)]


class Greedy(Best):
    """A way of choosing: the one best token, which needs no softmax; it has no score."""

    slot = UnscoredSlot
    scored = False

    def pick(
        self,
        _slots: Sequence[Slot],
        ruled: Float[Tensor, "N 1 V"],
        _log_probs: Float[Tensor, "N 1 V"],
    ) -> list[list[Pick]]:
        tokens = best_tokens(ruled)
        logits = ruled.gather(2, tokens[..., None]).flatten().tolist()
        chosen = zip(logits, tokens.flatten().tolist(), strict=True)
        return [[(logit, 0, token, logit)] for logit, token in chosen]


def way_for(request: Request) -> Best:
    """The way of choosing that does no more than what is asked for."""
    options = request.options
    is_greedy = options.beam == options.n_best == options.repetition_penalty == 1
    is_watched = request.record is not None or request.watch is not None
    return Best(request) if request.scored or is_watched or not is_greedy else Greedy(request)


class Drawn(Best):
    """A way of choosing: one continuation, drawn at random (sampling)."""

    def pick(
        self,
        slots: Sequence[Slot],
        ruled: Float[Tensor, "N 1 V"],
        log_probs: Float[Tensor, "N 1 V"],
    ) -> list[list[Pick]]:
        tokens = drawn_tokens(ruled, self.options, [slot.chance() for slot in slots])
        return one_each(slots, tokens, log_probs)


def one_each(
    slots: Sequence[Slot], tokens: Int[Tensor, "N 1"], log_probs: Float[Tensor, "N 1 V"]
) -> list[list[Pick]]:
    chosen = log_probs.gather(2, tokens[..., None]).flatten().tolist()
    return [
        [(slot.totals[0] + log_prob, 0, token, log_prob)]
        for slot, token, log_prob in zip(slots, tokens.flatten().tolist(), chosen, strict=True)
    ]


def totals_of(slots: Sequence[Slot], like: Float[Tensor, "N W V"]) -> Float[Tensor, "N W"]:
    """The cumulative scores of all hypotheses; sentences with fewer are filled up."""
    return filled([slot.totals for slot in slots], -torch.inf, like.device).to(like.dtype)


def filled(
    rows: Sequence[list[Any]], fill: float | int, device: torch.device
) -> Shaped[Tensor, "N W"]:
    """Rows made as long as the longest; numpy reads lists several times faster than torch."""
    width = max(map(len, rows))
    full = [row if len(row) == width else row + [fill] * (width - len(row)) for row in rows]
    return torch.from_numpy(np.array(full)).to(device)


class Search:
    """Sentences that are decoded together, and may come and go."""

    def __init__(
        self,
        request: Request,
        sentences: Sequence[Sentence],
        way: Best,
        requests: Sequence[Request] = (),
    ) -> None:
        """`requests` are those of each sentence, where they come from several calls.

        Their choices must have the same rules; seeds and numbers of outputs may differ.
        """
        self.request, self.way, self.rules = request, way, Rules(request)
        self.engine, self.device = engine_for(request, way.scored), request.device
        log_probs, roots = read_prompts(self.engine, sentences, way.width)
        own = requests or [request] * len(sentences)
        self.slots = [way.slot(*each) for each in zip(sentences, roots, own, strict=True)]
        self.choose(log_probs)

    def __len__(self) -> int:
        return len(self.slots)

    def advance(self) -> None:
        """One more token for every hypothesis."""
        tokens = filled([slot.tokens for slot in self.slots], 0, self.device)
        parents = filled([slot.parents for slot in self.slots], 0, self.device)
        self.choose(self.engine.step(tokens, parents))

    def choose(self, log_probs: Float[Tensor, "N W V"]) -> None:
        slots = self.slots
        short = [i for i, slot in enumerate(slots) if slot.length < slot.sentence.min_length]
        ruled = self.rules(log_probs, short, self.written)
        for slot, picks in zip(slots, self.way.pick(slots, ruled, log_probs), strict=True):
            slot.grow(picks)
            if slot.request.watch is not None:
                slot.request.watch(slot.sentence.index, *slot.settled())

    def written(self) -> Int[Tensor, "N W T"]:
        """What each hypothesis has written, ending in one column; shorter texts are filled up."""
        paths = [slot.texts() for slot in self.slots]
        width, length = max(map(len, paths)), max(len(path) for rows in paths for path in rows)
        full = [
            [[NOTHING] * (length - len(path)) + path for path in rows + [[]] * (width - len(rows))]
            for rows in paths
        ]
        texts = torch.tensor(full, dtype=torch.long, device=self.device)
        return texts.view(len(full), width, length)  # also where nothing is written yet

    def take(self, leaves: Callable[[Slot], bool] | None = None) -> list[Result]:
        """The sentences that are done, or others, leave the batch; their outputs as they are."""
        leaving = [slot.done if leaves is None else leaves(slot) for slot in self.slots]
        if not any(leaving):
            return []
        results = [slot.result() for slot, goes in zip(self.slots, leaving, strict=True) if goes]
        places = staying(leaving)
        self.slots = [self.slots[place] for place in places]
        if places:
            self.engine.keep(torch.tensor(places, device=self.device))
        return results

    def join(self, other: "Search") -> None:
        """The sentences of another search, for the same models and options, come in below."""
        if not self.slots:
            self.engine, self.slots = other.engine, other.slots
        elif other.slots:
            self.engine.join(other.engine)
            self.slots += other.slots


def read_prompts(
    engine: Engine, sentences: Sequence[Sentence], width: int
) -> tuple[Float[Tensor, "N 1 V"], list[TokenNode]]:
    """The log-probabilities of the first token to choose, and the prefixes already written."""
    log_probs = engine.read(sentences, width)
    if log_probs.size(1) == 1:
        return log_probs, [ROOT] * len(sentences)
    prefixes = [sentence.prefix for sentence in sentences]
    tokens = padded(prefixes, log_probs.device, left=True)
    written = log_probs[:, :-1].gather(2, tokens[..., None])[..., 0].tolist()
    return log_probs[:, -1:], [chain(*pair) for pair in zip(prefixes, written, strict=True)]


def staying(leaving: Sequence[bool]) -> list[int]:
    """The places of those that stay; the last fill the gaps, so that the fewest are moved."""
    n_staying = len(leaving) - sum(leaving)
    last = iter([place for place in range(n_staying, len(leaving)) if not leaving[place]])
    return [next(last) if leaving[place] else place for place in range(n_staying)]


def in_batches(
    request: Request, sentences: Sequence[Sentence], way: Best, steps: Steps
) -> Iterator[Result]:
    """Every sentence with its outputs, in the order in which they are done."""
    waiting = deque(sorted(sentences, key=lambda sentence: -size(sentence)))
    batch: Search | None = None
    room = n_steps = overdue = 0
    while (waiting or batch) and not request.should_stop():
        done: list[Result] = []
        with torch.inference_mode():  # while computing: between results the mode is the caller's
            if batch:
                with steps.step():
                    batch.advance()
                    done += batch.take()
                n_steps += 1
            if waiting and not batch:
                room, n_steps = room_for(waiting[0], request, way.width), 0
                overdue = size(waiting[0]) + PATIENCE
            n_inside = len(batch) if batch else 0
            if waiting and (n_inside == 0 or (n_steps > overdue and n_inside <= room // 2)):
                n_new = min(room - n_inside, len(waiting))
                with steps.reading():
                    new = Search(request, [waiting.popleft() for _ in range(n_new)], way)
                    done += new.take()
                    if batch:
                        batch.join(new)
                batch, n_steps = batch or new, 0
        yield from done
    with torch.inference_mode():
        left = batch.take(lambda _: True) if batch else []
    yield from (stopped(*result) for result in left)
    nothing = Hypothesis(ids=(), score=0.0, log_probs=(), finished=False)
    yield from (stopped(sentence, [nothing]) for sentence in waiting)


def room_for(longest: Sentence, request: Request, width: int) -> int:
    options = request.options
    return max(1, min(options.batch_size, options.batch_tokens // (width * size(longest))))


def size(sentence: Sentence) -> int:
    return max(len(sentence.source), len(sentence.prompt))


def stopped(sentence: Sentence, hypotheses: list[Hypothesis]) -> Result:
    """What there was when the caller did not want to wait any longer."""
    return sentence, [replace(each, notes=(*each.notes, "stopped")) for each in hypotheses]


class Searching(Protocol):
    """Who decodes, and beside what: `ALONE`, or a pool that many callers share."""

    def results(
        self, request: Request, sentences: Sequence[Sentence], way: Best
    ) -> Iterator[Result]:
        """Every sentence with its outputs, in the order in which they are done."""

    def tokens(
        self, request: Request, sentence: Sentence, way: Best
    ) -> Generator[int, None, Hypothesis]:
        """The tokens of one output (beam 1), each as soon as it is decided; then the whole."""


class Alone:
    """The sentences of one call, decoded by the thread that asks.

    With `threads`, as many compute as prove faster beside what else the machine does.
    """

    def __init__(self, threads: Threads | None = None) -> None:
        self.threads = threads

    def results(
        self, request: Request, sentences: Sequence[Sentence], way: Best
    ) -> Iterator[Result]:
        return in_batches(request, sentences, way, self.steps(request))

    def steps(self, request: Request) -> Steps:
        return Steps(self.threads if request.device.type == "cpu" else None)

    def tokens(
        self, request: Request, sentence: Sentence, way: Best
    ) -> Generator[int, None, Hypothesis]:
        steps = self.steps(request)
        # Only while computing: between tokens the mode is the caller's.
        with torch.inference_mode(), steps.reading():
            search = Search(request, [sentence], way)
        (slot,), n_written = search.slots, sentence.n_prefix
        while True:
            (row,), (total,) = slot.rows, slot.totals
            if slot.length > n_written and total > -torch.inf:
                yield row.token
            n_written = slot.length
            if slot.done or request.should_stop():
                return slot.result()[1][0]
            with torch.inference_mode(), steps.step():
                search.advance()


ALONE = Alone()
"""With the caller's threads, so that training decodes the same when it is repeated."""
PACED = Alone(Threads())
"""With as many threads as this process finds to be faster."""
