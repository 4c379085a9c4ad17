"""What a model could have said, and how likely that was."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Guess:
    """A token or a class that the model could have said, and how likely that was."""

    id: int
    text: str
    logit: float
    prob: float

    @property
    def log_prob(self) -> float:
        return math.log(self.prob) if self.prob else -math.inf


@dataclass(frozen=True)
class Step:
    """One row of logits: what was said, and what else could have been."""

    chosen: Guess
    top: tuple[Guess, ...]
    max_logit: float
    log_sum_exp: float
    """The logarithm of the sum that the softmax divides by."""

    @property
    def rest(self) -> float:
        """The probability of everything that is not among the top."""
        return max(0.0, 1 - sum(guess.prob for guess in self.top))


def guesses(
    logits: Float[Tensor, " V"], ids: Sequence[int], texts: Sequence[str]
) -> tuple[Guess, ...]:
    """Some tokens of a row of logits with their probabilities."""
    probs = logits.softmax(dim=0)
    return tuple(
        Guess(id_, text, float(logits[id_]), float(probs[id_]))
        for id_, text in zip(ids, texts, strict=True)
    )
