"""What is to be decoded, and how: the two values that every part of a search is given."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from clearhead.config import DecodeConfig
from clearhead.decode.flat import FlatTransformer
from clearhead.decode.hypothesis import BeamRecord
from clearhead.errors import ModelError
from clearhead.model import Tap, Transformer
from clearhead.text import END, SPECIALS, START

DEFAULTS = DecodeConfig()
BLOCKED = tuple(token for token in range(len(SPECIALS)) if token != END)
"""Tokens that no output holds: every special one but the end."""
Models = Transformer | FlatTransformer | Sequence[Transformer | FlatTransformer]
"""One model or an ensemble; those laid out for decoding are worth keeping between calls."""
Term = tuple[tuple[int, ...], ...]
"""A term that must appear, in any one of its spellings (with and without a leading space, say)."""


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """One source and what is asked of its output."""

    index: int
    """Its place in the order given."""
    source: tuple[int, ...]
    """What the encoder reads; nothing, for a model without one."""
    prompt: tuple[int, ...]
    """What the decoder reads before the first choice: the start or a context, and the prefix."""
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
    return False


@dataclass(frozen=True, kw_only=True)
class Request:
    """What holds for all sentences of one call."""

    models: tuple[FlatTransformer, ...]
    options: DecodeConfig
    end: int = END
    blocked: tuple[int, ...] = BLOCKED
    tap: Tap | None = None
    record: BeamRecord | None = None
    should_stop: Callable[[], bool] = never

    @property
    def device(self) -> torch.device:
        return self.models[0].model.device

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
        configs = [each.config for each in self.models]
        ends = [each.max_positions for each in configs if each.positions == "learned"]
        # The last token is never read, so it needs no position.
        left = min(ends, default=2**31) - len(context) + 1
        return Sentence(
            index=index,
            source=tuple(source) if reads else (),
            prompt=(*context, *prefix),
            n_prefix=len(prefix),
            limit=max(len(prefix) + 1, min(longest, left)),
            min_length=self.options.min_length,
            terms=tuple(terms),
        )


def laid_out(model: Transformer, int8: bool = False) -> FlatTransformer:
    """A model's weights as its engine wants them, which is worth keeping between calls."""
    return FlatTransformer(model, int8)


def checked(models: Models) -> tuple[FlatTransformer, ...]:
    """One model or an ensemble, ready to decode."""
    models = (models,) if isinstance(models, Transformer | FlatTransformer) else models
    flat = tuple(laid_out(each) if isinstance(each, Transformer) else each for each in models)
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
