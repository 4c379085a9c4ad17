"""What decoding answers with, and the record of how it got there."""

from dataclasses import dataclass
from typing import Literal


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


@dataclass(frozen=True)
class Candidate:
    """One way on that the search looked at; its parent is the candidate of that rank one step before."""

    rank: int
    parent: int
    token: int
    log_prob: float
    cumulative: float
    fate: Literal["kept", "finished", "pruned"]


Record = dict[int, list[list[Candidate]]]
"""For each sentence, by its place in the order given: the candidates of every step, best first."""


@dataclass(slots=True)
class Node:
    """A token in the tree of all hypotheses of a sentence; the way back to the root is its text."""

    token: int
    log_prob: float
    parent: "Node | None"
    length: int

    def path(self) -> tuple[list[int], list[float]]:
        """The tokens up to here and their log-probabilities."""
        tokens, log_probs = [0] * self.length, [0.0] * self.length
        node: Node | None = self
        while node is not None:
            tokens[node.length - 1], log_probs[node.length - 1] = node.token, node.log_prob
            node = node.parent
        return tokens, log_probs


def grown(parent: Node | None, token: int, log_prob: float) -> Node:
    """A token after those of its parent; without one, the first."""
    return Node(token, log_prob, parent, 1 if parent is None else parent.length + 1)
