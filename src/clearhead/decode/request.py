"""What is to be decoded, and how; what comes out, how it is ranked, and how it was found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch

from clearhead.config import DecodeConfig
from clearhead.decode.flat import FlatTransformer
from clearhead.decode.recurrent import FlatRecurrent
from clearhead.decode.sentence import Sentence, Term
from clearhead.errors import ModelError
from clearhead.model import Model, Recurrent, Tap, Transformer
from clearhead.text import END, SPECIALS, START

DEFAULTS = DecodeConfig()
BLOCKED = tuple(token for token in range(len(SPECIALS)) if token != END)
"""Tokens that no output holds: every special one but the end."""
Flat = FlatTransformer | FlatRecurrent
"""A model laid out for decoding."""
Models = Model | Flat | Sequence[Model | Flat]
"""One model or an ensemble; those laid out for decoding are worth keeping between calls."""
Watch = Callable[[int, list[int], list[float]], None]
"""Takes a sentence's index, the first tokens of its output, and their log-probabilities."""
Fate = Literal["kept", "finished", "pruned"]


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens without the end token, and how likely the model finds each of them."""

    ids: tuple[int, ...]
    score: float
    """What hypotheses are ranked by: the sum of log-probabilities over the length penalty.

    Where no scores were asked for it may be nan, and the log-probabilities empty.
    """
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


def never() -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class Request:
    """What holds for all sentences of one call."""

    models: tuple[Flat, ...]
    options: DecodeConfig
    end: int = END
    blocked: tuple[int, ...] = BLOCKED
    tap: Tap | None = None
    record: BeamRecord | None = None
    should_stop: Callable[[], bool] = never
    watch: Watch | None = None
    """Is told after every step what each sentence's output begins with for certain."""
    scored: bool = True
    """Whether scores and log-probabilities are asked for; greedy search is faster without."""

    @property
    def device(self) -> torch.device:
        return self.models[0].model.device

    @cached_property
    def reach(self) -> int:
        """Positions that all models have."""
        ends = [each.config.reach for each in self.models if each.config.reach]
        return min(ends, default=2**31)

    def sentence(
        self,
        index: int,
        source: Sequence[int],
        prefix: Sequence[int] = (),
        terms: Sequence[Term] = (),
    ) -> Sentence:
        """A source as these models read it: their encoder, or their decoder where there is none."""
        reads = self.models[0].config.reads
        context = (START,) if reads or not source else tuple(source)
        longest = self.options.max_length or len(source) + self.options.max_extra
        # The last token is never read, so it needs no position.
        left = self.reach - len(context) + 1
        return Sentence(
            index=index,
            source=tuple(source) if reads else (),
            prompt=(*context, *prefix),
            n_prefix=len(prefix),
            limit=max(len(prefix) + 1, min(longest, left)),
            min_length=self.options.min_length,
            terms=tuple(terms),
        )


def laid_out(model: Model, int8: bool = False) -> Flat:
    """A model's weights as its engine wants them, which is worth keeping between calls."""
    if isinstance(model, Recurrent):
        return FlatRecurrent(model, int8)
    assert isinstance(model, Transformer), "an architecture without an engine"
    return FlatTransformer(model, int8)


def checked(models: Models) -> tuple[Flat, ...]:
    """One model or an ensemble, ready to decode."""
    models = (models,) if isinstance(models, Model | Flat) else models
    flat = tuple(laid_out(each) if isinstance(each, Model) else each for each in models)
    kinds = {(each.config.family, each.config.vocab_size) for each in flat}
    if len(kinds) != 1 or not all(each.config.writes for each in flat):
        found = ", ".join(f"{family} of {n_tokens} tokens" for family, n_tokens in sorted(kinds))
        raise ModelError(
            "Decoding needs models that write, all of one family and with one vocabulary.\n"
            f"Found: {found or 'no model'}.",
            "Give runs that were trained with the same tokenizer.",
        )
    assert not any(each.model.training for each in flat), "a model that decodes is in eval mode"
    return flat


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
