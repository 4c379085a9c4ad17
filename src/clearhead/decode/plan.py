"""What is to be decoded, and how: the two values that every part of a search is given."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from clearhead.config import DecodeConfig
from clearhead.decode.flat import FlatTransformer
from clearhead.decode.hypothesis import Record
from clearhead.errors import ModelError
from clearhead.model import Tap, Transformer

Models = Transformer | FlatTransformer | Sequence[Transformer | FlatTransformer]
"""One model or an ensemble; flat ones are laid out for decoding, which is worth keeping between calls."""
Term = tuple[tuple[int, ...], ...]
"""A term that must appear, in any one of its spellings (with and without a leading space, say)."""


@dataclass(frozen=True)
class Sentence:
    """One source and what is asked of its output."""

    index: int
    """Its place in the order given."""
    source: tuple[int, ...]
    """What the encoder reads; nothing, for a model without one."""
    prompt: tuple[int, ...]
    """What the decoder has read before the first choice: the start token or a context, then the prefix."""
    n_prefix: int
    """How many of the prompt's last tokens are the beginning of the output."""
    limit: int
    """The longest output, its prefix and its end token included."""
    min_length: int = 0
    """Tokens before the output may end."""
    terms: tuple[Term, ...] = ()
    draw: int = 0
    """Which of several random outputs this is."""

    @property
    def prefix(self) -> tuple[int, ...]:
        return self.prompt[len(self.prompt) - self.n_prefix :]


def never() -> bool:
    """Nobody wants to stop."""
    return False


@dataclass(frozen=True)
class Plan:
    """What holds for all sentences of one call."""

    models: tuple[FlatTransformer, ...]
    options: DecodeConfig
    start: int = 1
    end: int = 2
    blocked: tuple[int, ...] = ()
    """Tokens that are never chosen."""
    tap: Tap | None = None
    record: Record | None = None
    should_stop: Callable[[], bool] = never

    @property
    def device(self) -> torch.device:
        return self.models[0].model.device

    @property
    def reads(self) -> bool:
        """There is an encoder, which reads the source; else the decoder goes on from it."""
        return self.models[0].config.reads

    def sentence(
        self,
        index: int,
        source: Sequence[int],
        prefix: Sequence[int] = (),
        terms: Sequence[Term] = (),
    ) -> Sentence:
        """A source as these models read it: the encoder, or the decoder where there is no encoder."""
        context = (self.start,) if self.reads or not source else tuple(source)
        longest = self.options.max_length or len(source) + self.options.max_extra
        limit = max(len(prefix) + 1, min(longest, self.positions_left(len(context))))
        return Sentence(
            index,
            tuple(source) if self.reads else (),
            (*context, *prefix),
            len(prefix),
            limit,
            self.options.min_length,
            tuple(terms),
        )

    def positions_left(self, n_context: int) -> int:
        """Tokens that learned positions allow after a context; the last one is never read, so needs none."""
        ends = [
            model.config.max_positions
            for model in self.models
            if model.config.positions == "learned"
        ]
        return min(ends, default=2**31) - n_context + 1


def laid_out(model: Transformer, int8: bool = False) -> FlatTransformer:
    """A model's weights as its engine wants them, which is worth keeping between calls."""
    return FlatTransformer(model, int8)


def checked(models: Models) -> tuple[FlatTransformer, ...]:
    """One model or an ensemble, ready to decode."""
    models = (models,) if isinstance(models, Transformer | FlatTransformer) else models
    flat = tuple(laid_out(each) if isinstance(each, Transformer) else each for each in models)
    kinds = {(each.config.family, each.config.vocab_size) for each in flat}
    if len(kinds) != 1 or not all(each.config.writes for each in flat):
        found = (
            ", ".join(f"{family} of {n_tokens} tokens" for family, n_tokens in sorted(kinds))
            or "no model"
        )
        raise ModelError(
            f"Decoding needs models that write, all of one family and with one vocabulary.\nFound: {found}.",
            "Give runs that were trained with the same tokenizer.",
        )
    assert not any(each.model.training for each in flat), "a model that decodes is in eval mode"
    return flat
