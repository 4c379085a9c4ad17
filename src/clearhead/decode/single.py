"""One hypothesis per sentence: at each step the best token, or one drawn at random."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.decode.batches import staying
from clearhead.decode.choice import draw, top
from clearhead.decode.engine import engine_for
from clearhead.decode.hypothesis import Hypothesis, Node, grown
from clearhead.decode.plan import Plan, Sentence
from clearhead.decode.ranking import Ranking, hypothesis
from clearhead.decode.rules import Rules
from clearhead.decode.start import read_prompts, texts


@dataclass
class Draft:
    """A sentence's output so far."""

    sentence: Sentence
    node: Node | None
    random: random.Random
    ended: bool = False
    stuck: bool = False

    def take(self, token: int, log_prob: float, end: int) -> None:
        """Goes on with a token; where the rules allow none, the best one has no probability left."""
        self.stuck = log_prob == -math.inf
        if not self.stuck:
            self.node = grown(self.node, token, log_prob)
            self.ended = token == end

    @property
    def length(self) -> int:
        return 0 if self.node is None else self.node.length

    @property
    def done(self) -> bool:
        return self.ended or self.stuck or self.length >= self.sentence.limit

    def chance(self) -> float:
        """From 0 to below 1, in steps coarse enough never to be rounded up to 1."""
        return self.random.getrandbits(32) / 2**32


class Single:
    """A batch in greedy search or in sampling."""

    def __init__(self, plan: Plan, sentences: Sequence[Sentence]) -> None:
        self.plan, self.rules, self.ranking = plan, Rules(plan), Ranking(plan.options)
        self.forward = engine_for(plan)
        log_probs, nodes = read_prompts(self.forward, sentences, 1)
        self.drafts = [
            Draft(
                sentence,
                node,
                random.Random(f"{plan.options.seed} {sentence.index} {sentence.draw}"),  # noqa: S311
            )
            for sentence, node in zip(sentences, nodes, strict=True)
        ]
        self.tokens: Int[Tensor, "N 1"] = self.choose(log_probs)

    def __len__(self) -> int:
        return len(self.drafts)

    def advance(self) -> None:
        """One more token for every sentence."""
        self.tokens = self.choose(self.forward.step(self.tokens, None))

    def choose(self, log_probs: Float[Tensor, "N 1 V"]) -> Int[Tensor, "N 1"]:
        too_short = [
            i for i, draft in enumerate(self.drafts) if draft.length < draft.sentence.min_length
        ]
        ruled = self.rules(log_probs, too_short, self.written)
        if self.plan.options.temperature:
            tokens = draw(ruled, self.plan.options, [draft.chance() for draft in self.drafts])
        else:
            tokens = top(ruled, 1)[1][..., 0]
        chosen = log_probs.gather(2, tokens[..., None])
        for draft, token, log_prob in zip(
            self.drafts, tokens[:, 0].tolist(), chosen.flatten().tolist(), strict=True
        ):
            draft.take(token, log_prob, self.plan.end)
        return tokens

    def written(self) -> Int[Tensor, "N 1 T"]:
        return texts([[draft.node] for draft in self.drafts], 1, self.plan.device)

    def take_done(self) -> list[tuple[Sentence, list[Hypothesis]]]:
        """The sentences that are finished, with their outputs; they leave the batch."""
        done = [draft.done for draft in self.drafts]
        if not any(done):
            return []
        results = [self.result(draft) for draft in compress(self.drafts, done)]
        places = staying(done)
        self.drafts = [self.drafts[place] for place in places]
        if places:
            rows = torch.tensor(places, device=self.plan.device)
            self.tokens = self.tokens[rows]
            self.forward.keep(rows)
        return results

    def take_all(self) -> list[tuple[Sentence, list[Hypothesis]]]:
        """All sentences, finished or not."""
        drafts, self.drafts = self.drafts, []
        return [self.result(draft) for draft in drafts]

    def result(self, draft: Draft) -> tuple[Sentence, list[Hypothesis]]:
        total = sum(draft.node.path()[1]) if draft.node else 0.0
        return draft.sentence, [hypothesis(draft.node, total, self.ranking, draft.ended)]

    def join(self, other: "Single") -> None:
        """Sentences that have just begun come in below."""
        self.drafts += other.drafts
        self.tokens = torch.cat([self.tokens, other.tokens])
        self.forward.join(other.forward)
