"""What decoding answers with, how outputs are ranked, and the record of how they were found."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clearhead.config import DecodeConfig

Fate = Literal["kept", "finished", "pruned"]


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens without the end token, and how likely the model finds each of them."""

    ids: tuple[int, ...]
    score: float
    """What hypotheses are ranked by: the sum of log-probabilities over the length penalty."""
    log_probs: tuple[float, ...]
    """The model's own log-probability of each token, the end token included where there is one."""
    finished: bool
    """It ended by itself and not because it was too long, or because the search was stopped."""
    notes: tuple[str, ...] = ()
    """What a person should know about it: a loop that was blocked, a term that found no place."""
    missing: tuple[int, ...] = ()
    """Which of the sentence's terms it does not hold."""

    @property
    def log_prob(self) -> float:
        """The model's log-probability of the whole."""
        return sum(self.log_probs)


@dataclass(frozen=True, kw_only=True)
class BeamCandidate:
    """One way on that the search looked at; its parent is a rank of the step before."""

    rank: int
    parent: int
    token: int
    log_prob: float
    cumulative: float
    fate: Fate


BeamRecord = dict[int, list[list[BeamCandidate]]]
"""For each sentence, by its place in the order given: the candidates of every step, best first."""


@dataclass(slots=True)
class TokenNode:
    """A token in the tree of all hypotheses of a sentence; the way back to the root is its text."""

    token: int
    log_prob: float
    parent: "TokenNode | None"
    length: int

    def path(self) -> tuple[list[int], list[float]]:
        tokens, log_probs, node = [0] * self.length, [0.0] * self.length, self
        while node.parent is not None:
            tokens[node.length - 1], log_probs[node.length - 1] = node.token, node.log_prob
            node = node.parent
        return tokens, log_probs


ROOT = TokenNode(token=-1, log_prob=0.0, parent=None, length=0)
"""The place before the first token."""


def chain(tokens: Sequence[int], log_probs: Sequence[float]) -> TokenNode:
    """A text that is already written; its log-probabilities are the last ones."""
    node, own = ROOT, log_probs[len(log_probs) - len(tokens) :]
    for length, (token, log_prob) in enumerate(zip(tokens, own, strict=True), start=1):
        node = TokenNode(token, log_prob, node, length)
    return node


@dataclass(frozen=True)
class Ranking:
    """How hypotheses compare: longer ones are not always worse, for a length penalty divides."""

    options: DecodeConfig

    def penalty(self, length: int) -> float:
        """What the sum of so many log-probabilities is divided by."""
        if self.options.penalty == "average":
            return float(length)
        return float(((5 + length) / 6) ** self.options.length_penalty)

    def score(self, total: float, length: int) -> float:
        return total / self.penalty(length)

    def best_case(self, total: float, length: int, limit: int) -> float:
        """No continuation scores better: it adds no loss and ends where the penalty is kindest."""
        return total / max(self.penalty(min(length + 1, limit)), self.penalty(limit))

    def hypothesis(self, node: TokenNode, total: float, finished: bool) -> Hypothesis:
        """The text that ends here; an end token is no part of it."""
        tokens, log_probs = node.path()
        return Hypothesis(
            ids=tuple(tokens[:-1] if finished else tokens),
            score=self.score(total, max(1, len(tokens))),
            log_probs=tuple(log_probs),
            finished=finished,
        )
