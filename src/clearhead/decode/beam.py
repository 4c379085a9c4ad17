"""Beam search: at each step the best few continuations of the best few hypotheses.

A hypothesis that ends is put aside and its place in the beam is free until the next step; so a beam of 1 is greedy. A
sentence is done when no living hypothesis can still become better than the worst finished one that is kept.
"""

import math
from collections.abc import Sequence
from itertools import compress
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from clearhead.decode.batches import staying
from clearhead.decode.choice import top
from clearhead.decode.engine import engine_for
from clearhead.decode.hypothesis import Candidate, Hypothesis, Node, grown
from clearhead.decode.plan import Plan, Sentence
from clearhead.decode.ranking import Finished, Ranking, hypothesis
from clearhead.decode.rules import Rules
from clearhead.decode.start import read_prompts, texts

Choice = tuple[float, int, int, float]
"""Cumulative score, parent, token and its log-probability."""
Picks = tuple[Float[Tensor, "N C"], Int[Tensor, "N C"], Int[Tensor, "N C"]]
"""Cumulative scores, parents and tokens of the candidates, best first."""


class Place:
    """A sentence in the batch: its living hypotheses and its finished ones."""

    def __init__(self, sentence: Sentence, root: Node | None, plan: Plan, ranking: Ranking) -> None:
        self.sentence, self.end, self.ranking = sentence, plan.end, ranking
        self.length = sentence.n_prefix
        self.rows: list[Node | None] = [root]  # None: before the first token
        self.totals = [
            0.0 if root is None else sum(root.path()[1])
        ]  # minus infinity: ended, or never was
        self.finished = Finished(plan.options.n_best)
        self.stuck = False

    def grow(self, choices: Sequence[Choice]) -> None:
        """The hypotheses become these; those that end are put aside.

        Where the rules allow no continuation, they stay as they are.
        """
        self.stuck = all(choice[0] == -math.inf for choice in choices)
        if self.stuck:
            return
        parents, self.rows, self.totals = self.rows, [], []
        for total, parent, token, log_prob in choices:
            node = grown(parents[parent], token, log_prob)
            if token == self.end and total > -math.inf:
                self.finished.add(hypothesis(node, total, self.ranking, finished=True))
            self.rows.append(node)
            self.totals.append(-math.inf if token == self.end else total)
        self.length += 1

    @property
    def done(self) -> bool:
        best = max(self.totals)
        if self.stuck or best == -math.inf or self.length >= self.sentence.limit:
            return True
        return (
            self.ranking.best_case(best, self.length, self.sentence.limit) <= self.finished.to_beat
        )

    def result(self) -> tuple[Sentence, list[Hypothesis]]:
        """The best finished hypotheses; where there are too few, the best of the others behind them."""
        alive = [
            (total, row)
            for total, row in zip(self.totals, self.rows, strict=True)
            if total > -math.inf
        ]
        others = [hypothesis(row, total, self.ranking, finished=False) for total, row in alive]
        others.sort(key=lambda each: -each.score)
        return self.sentence, (self.finished.hypotheses + others)[: self.finished.n_best]


class Beam:
    """A batch in beam search."""

    place_type = Place

    def __init__(self, plan: Plan, sentences: Sequence[Sentence]) -> None:
        self.plan, self.rules = plan, Rules(plan)
        self.forward = engine_for(plan)
        log_probs, roots = read_prompts(self.forward, sentences, plan.options.beam)
        ranking = Ranking(plan.options)
        self.places: Sequence[Place] = [
            self.place_type(s, root, plan, ranking)
            for s, root in zip(sentences, roots, strict=True)
        ]
        totals = [place.totals for place in self.places]
        self.totals: Float[Tensor, "N W"] = torch.tensor(totals, device=plan.device)
        self.choose(log_probs)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def width(self) -> int:
        """Hypotheses that go on at most."""
        return self.plan.options.beam

    def advance(self) -> None:
        """One more token for every hypothesis."""
        self.choose(self.forward.step(self.tokens, self.parents))

    def choose(self, log_probs: Float[Tensor, "N W V"]) -> None:
        """The hypotheses of the next step, out of all continuations."""
        too_short = [
            i for i, place in enumerate(self.places) if place.length < place.sentence.min_length
        ]
        totals, parents, tokens = self.pick(self.rules(log_probs, too_short, self.written))
        chosen = log_probs.flatten(1).gather(1, parents * log_probs.size(2) + tokens)
        self.record(totals, parents, tokens, chosen)
        columns = [column[:, : self.width] for column in (totals, parents, tokens, chosen)]
        totals, self.parents, self.tokens, _ = columns
        self.totals = totals.masked_fill(self.tokens == self.plan.end, -torch.inf)
        for place, *rows in zip(self.places, *(column.tolist() for column in columns), strict=True):
            place.grow(list(zip(*rows, strict=True)))

    def pick(self, ruled: Float[Tensor, "N W V"]) -> Picks:
        """The best continuations of all hypotheses; twice as many as go on, where they are recorded."""
        n_picked = self.width * (1 if self.plan.record is None else 2)
        n_each = min(n_picked, ruled.size(2))
        values, tokens = top(ruled, n_each)
        totals = (self.totals[..., None] + values).flatten(1)
        best = totals.topk(min(n_picked, totals.size(1)))
        return best.values, best.indices // n_each, tokens.flatten(1).gather(1, best.indices)

    def record(
        self,
        totals: Float[Tensor, "N C"],
        parents: Int[Tensor, "N C"],
        tokens: Int[Tensor, "N C"],
        log_probs: Float[Tensor, "N C"],
    ) -> None:
        if self.plan.record is None:
            return
        columns = (column.tolist() for column in (totals, parents, tokens, log_probs))
        for place, *rows in zip(self.places, *columns, strict=True):
            self.plan.record.setdefault(place.sentence.index, []).append(
                [
                    Candidate(rank, parent, token, log_prob, total, self.fate(rank, token))
                    for rank, (total, parent, token, log_prob) in enumerate(zip(*rows, strict=True))
                    if total > -math.inf
                ]
            )

    def fate(self, rank: int, token: int) -> Literal["kept", "finished", "pruned"]:
        if rank >= self.width:
            return "pruned"
        return "finished" if token == self.plan.end else "kept"

    def written(self) -> Int[Tensor, "N W T"]:
        return texts([place.rows for place in self.places], self.totals.size(1), self.plan.device)

    def take_done(self) -> list[tuple[Sentence, list[Hypothesis]]]:
        """The sentences that are finished, with their outputs; they leave the batch."""
        done = [place.done for place in self.places]
        if not any(done):
            return []
        results = [place.result() for place in compress(self.places, done)]
        indices = staying(done)
        self.places = [self.places[index] for index in indices]
        if indices:
            rows = torch.tensor(indices, device=self.plan.device)
            self.totals, self.parents, self.tokens = (
                x[rows] for x in (self.totals, self.parents, self.tokens)
            )
            self.forward.keep(rows)
        return results

    def take_all(self) -> list[tuple[Sentence, list[Hypothesis]]]:
        """All sentences, finished or not."""
        places, self.places = self.places, []
        return [place.result() for place in places]

    def join(self, other: "Beam") -> None:
        """Sentences that have just begun come in below."""
        self.places = [*self.places, *other.places]
        width = max(self.tokens.size(1), other.tokens.size(1))
        self.totals = below(self.totals, other.totals, width, -math.inf)
        self.tokens = below(self.tokens, other.tokens, width, 0)
        self.parents = below(self.parents, other.parents, width, 0)
        self.forward.join(other.forward)


def below(
    upper: Shaped[Tensor, "N W"], lower: Shaped[Tensor, "M X"], width: int, fill: float | int
) -> Shaped[Tensor, "R Y"]:
    """Two sets of rows, made equally wide."""
    return torch.cat(
        [F.pad(rows, (0, width - rows.size(1)), value=fill) for rows in (upper, lower)]
    )
