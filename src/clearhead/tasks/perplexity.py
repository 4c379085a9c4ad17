"""How surprised a model is by text, in units that can be compared across tokenizers."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from clearhead.data.batches import TextBatch

TOKENS_AT_ONCE = 8_192


@dataclass(frozen=True)
class Perplexity:
    """What a model finds in a text; `str()` says it in one line."""

    nats: float
    """The sum over all tokens of minus the logarithm of their probability."""
    tokens: int
    bytes: int
    """Bytes of the text in UTF-8, an end of line being one: they do not depend on the tokenizer."""

    @property
    def nats_per_token(self) -> float:
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """As many tokens, equally likely, would be as hard to guess from."""
        return math.exp(min(self.nats_per_token, 700))

    @property
    def bits_per_byte(self) -> float:
        return self.nats / self.bytes / math.log(2)

    def __str__(self) -> str:
        return (
            f"perplexity {self.perplexity:.2f} ({self.nats_per_token:.4f} nats per token), "
            f"{self.bits_per_byte:.4f} bits per byte; {self.tokens:,} tokens, {self.bytes:,} bytes"
        )


def sliding(ids: Sequence[int], window: int) -> Iterator[TextBatch]:
    """Windows that overlap by half: every token but the first is predicted once, from half a window at least."""
    text, n_predicted = torch.tensor(ids), len(ids) - 1
    window = min(window, n_predicted)
    stride = max(1, window // 2)
    starts = torch.arange(0, max(1, n_predicted - window + stride), stride)
    for some in torch.split(starts, max(1, TOKENS_AT_ONCE // window)):
        places = some[:, None] + torch.arange(window + 1)
        seen_before = torch.where(some > 0, some + window - stride, 0)[:, None]
        rows = text[places.clamp_max(n_predicted)]
        judged = (places[:, :-1] >= seen_before) & (places[:, :-1] < n_predicted)
        yield TextBatch(indices=some, target_in=rows[:, :-1], target_out=rows[:, 1:], judged=judged)
