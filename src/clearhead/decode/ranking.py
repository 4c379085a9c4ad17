"""Which hypothesis is better: log-probabilities, divided by a penalty so that longer outputs are not always worse."""

from bisect import insort

from clearhead.config import DecodeConfig
from clearhead.decode.hypothesis import Hypothesis, Node


class Ranking:
    """How hypotheses compare."""

    def __init__(self, options: DecodeConfig) -> None:
        self.options = options

    def penalty(self, length: int) -> float:
        """What the sum of so many log-probabilities is divided by."""
        if self.options.penalty == "average":
            return float(length)
        return float(((5 + length) / 6) ** self.options.length_penalty)

    def score(self, total: float, length: int) -> float:
        return total / self.penalty(length)

    def best_case(self, total: float, length: int, limit: int) -> float:
        """No continuation can score better: it would add no loss, and end where the penalty is the kindest."""
        return total / max(self.penalty(min(length + 1, limit)), self.penalty(limit))


class Finished:
    """The best finished hypotheses of a sentence."""

    def __init__(self, n_best: int) -> None:
        self.n_best = n_best
        self.hypotheses: list[Hypothesis] = []

    def add(self, hypothesis: Hypothesis) -> None:
        insort(self.hypotheses, hypothesis, key=lambda each: -each.score)
        del self.hypotheses[self.n_best :]

    @property
    def to_beat(self) -> float:
        """The score that a new hypothesis must exceed to be among them."""
        return self.hypotheses[-1].score if len(self.hypotheses) == self.n_best else -float("inf")


def hypothesis(node: Node | None, total: float, ranking: Ranking, finished: bool) -> Hypothesis:
    """The text that ends here; an end token is no part of it."""
    tokens, log_probs = ([], []) if node is None else node.path()
    ids = tokens[:-1] if finished else tokens
    return Hypothesis(
        tuple(ids), ranking.score(total, max(1, len(tokens))), tuple(log_probs), finished
    )
