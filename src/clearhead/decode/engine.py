"""What search knows of a model: a batch of sentences that is decoded one more token at a time."""

import math
from collections.abc import Iterator, Sequence
from typing import Protocol, Self

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.decode.flat import FlatTransformer
from clearhead.decode.recurrent import RecurrentEngine
from clearhead.decode.request import Flat, Request
from clearhead.decode.sentence import Sentence, n_followed, padded, sources
from clearhead.model import Model, Tap


class Engine(Protocol):
    """Log-probabilities of the next token for every hypothesis, with a cache of its own.

    Where nobody asks for scores they may be logits, which have the same order.
    """

    def read(self, sentences: Sequence[Sentence], width: int) -> Float[Tensor, "N T V"]:
        """Begins with these sentences, each of which will have up to `width` hypotheses.

        Answers with what follows each of the prompts' last tokens: all tokens of the longest
        prefix, and the one before it.
        """

    def step(
        self, tokens: Int[Tensor, "N W"], parents: Int[Tensor, "N W"]
    ) -> Float[Tensor, "N W V"]:
        """What follows these tokens, whose parents are hypotheses of the step before."""

    def keep(self, sentences: Int[Tensor, " R"]) -> None:
        """The other sentences leave the batch."""

    def join(self, other: Self) -> None:
        """The sentences of another engine for the same model come in below."""


class TransformerEngine:
    """Many sentences at once through a flat Transformer; a step costs the new tokens alone."""

    def __init__(self, flat: FlatTransformer, scored: bool = True) -> None:
        self.flat, self.scored = flat, scored

    def read(self, sentences: Sequence[Sentence], width: int) -> Float[Tensor, "N T V"]:
        device, lengths = self.flat.model.device, [len(sentence.prompt) for sentence in sentences]
        # Output is seldom much longer than its source; where it is, the cache grows.
        expected = max(min(sentence.limit, len(sentence.source) + 16) for sentence in sentences)
        self.cache = self.flat.new_cache(lengths, max(lengths) + width * expected)
        if self.flat.config.reads:
            self.flat.read(*sources(sentences, device), self.cache)
        prompts = padded([sentence.prompt for sentence in sentences], device, left=True)
        return self.scores(self.flat(prompts, self.cache, n_followed(sentences)))

    def step(
        self, tokens: Int[Tensor, "N W"], parents: Int[Tensor, "N W"]
    ) -> Float[Tensor, "N W V"]:
        self.cache.grow(parents)
        return self.scores(self.flat(tokens, self.cache))

    def scores(self, logits: Float[Tensor, "N W V"]) -> Float[Tensor, "N W V"]:
        return logits.log_softmax(dim=-1) if self.scored else logits

    def keep(self, sentences: Int[Tensor, " R"]) -> None:
        self.cache.keep(sentences)

    def join(self, other: Self) -> None:
        self.cache.join(other.cache)


class TappedEngine:
    """Every step from scratch, through the model and a tap, one sentence after the other.

    It is slow, but edits see the sequences that a trace sees.
    """

    def __init__(self, model: Model, tap: Tap) -> None:
        self.model, self.tap = model, tap
        # Of each sentence its hypotheses, what the encoder made of its source, and its mask.
        self.rows: list[tuple[Int[Tensor, "W T"], Tensor | None, Tensor | None]] = []

    def read(self, sentences: Sequence[Sentence], _width: int) -> Float[Tensor, "N T V"]:
        for sentence in sentences:
            text = torch.tensor([sentence.prompt], device=self.model.device)
            self.rows.append((text, *self.memory(sentence)))
        n_last = n_followed(sentences)
        rows = [each[:, -n_last:] for each in self.log_probs()]
        return torch.cat([F.pad(each, (0, 0, n_last - each.size(1), 0)) for each in rows])

    def step(
        self, tokens: Int[Tensor, "N W"], parents: Int[Tensor, "N W"]
    ) -> Float[Tensor, "N W V"]:
        self.rows = [
            (torch.cat([text[chosen], new[:, None]], dim=1), memory, mask)
            for (text, memory, mask), chosen, new in zip(self.rows, parents, tokens, strict=True)
        ]
        return torch.stack([each[:, -1] for each in self.log_probs()])

    def keep(self, sentences: Int[Tensor, " R"]) -> None:
        self.rows = [self.rows[place] for place in sentences.tolist()]

    def join(self, other: Self) -> None:
        self.rows += other.rows

    def memory(self, sentence: Sentence) -> tuple[Tensor | None, Tensor | None]:
        if not self.model.config.reads:
            return None, None
        source, mask = sources([sentence], self.model.device)
        return self.model.encode(source, mask, tap=self.tap), mask

    def log_probs(self) -> Iterator[Float[Tensor, "W T V"]]:
        for text, memory, mask in self.rows:
            memory = None if memory is None else memory.expand(len(text), -1, -1)
            x = self.model.decode(text, memory, mask, tap=self.tap)
            yield self.model.logits(x, self.tap).log_softmax(dim=-1)


class Ensemble:
    """Several engines that decide together, by the mean of their probabilities."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = engines

    def read(self, sentences: Sequence[Sentence], width: int) -> Float[Tensor, "N T V"]:
        return log_mean([engine.read(sentences, width) for engine in self.engines])

    def step(
        self, tokens: Int[Tensor, "N W"], parents: Int[Tensor, "N W"]
    ) -> Float[Tensor, "N W V"]:
        return log_mean([engine.step(tokens, parents) for engine in self.engines])

    def keep(self, sentences: Int[Tensor, " R"]) -> None:
        for engine in self.engines:
            engine.keep(sentences)

    def join(self, other: Self) -> None:
        for mine, theirs in zip(self.engines, other.engines, strict=True):
            mine.join(theirs)


def engine_for(request: Request, scored: bool = True) -> Engine:
    """An engine for a new batch: the fast one, unless somebody wants to edit on the way.

    Several models can only be compared by their probabilities.
    """
    scored = scored or len(request.models) > 1
    engines: list[Engine] = [
        fast_engine(flat, scored) if request.tap is None else TappedEngine(flat.model, request.tap)
        for flat in request.models
    ]
    return engines[0] if len(engines) == 1 else Ensemble(engines)


def fast_engine(flat: Flat, scored: bool = True) -> Engine:
    if isinstance(flat, FlatTransformer):
        return TransformerEngine(flat, scored)
    return RecurrentEngine(flat)


def log_mean(log_probs: list[Tensor]) -> Float[Tensor, "..."]:
    return torch.stack(log_probs).logsumexp(dim=0) - math.log(len(log_probs))
