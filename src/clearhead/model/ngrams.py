"""A linear model beside the encoder: the scores of the n-grams that a text is made of (wide & deep).

Tokens, pairs of neighbours, and runs of characters inside tokens tell much about a text by being
there at all. What they tell is known in seconds, for a linear model has one best solution; what
depends on order and context is left to the encoder. Whoever trains fits the one before the other.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.config import ModelConfig

PIECES = 48
"""Entries of a token in the table of pieces: itself, and runs of characters in its spelling."""
NO_TOKEN = -1.0
"""Where there is no pair: pairs come first, and other n-grams have none."""


class NGrams(nn.Module):
    """TF-IDF of the known n-grams of a text, times a weight for each class.

    All that is fitted is kept as float32, also what are numbers of tokens and columns: the mean of
    several checkpoints leaves it as it is.
    """

    pairs: Float[Tensor, "N 2"]
    """Neighbouring tokens, in ascending order; the n-gram's place here is its column."""
    pieces: Float[Tensor, "V P"]
    """The columns of each token and of its runs of characters; the last column says none."""
    rarity: Float[Tensor, " N+1"]
    """The inverse document frequency of each n-gram; 0 in the last column."""
    weight: Float[Tensor, "N+1 C"]
    bias: Float[Tensor, " C"]

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        n, self.vocab_size = config.n_grams, config.vocab_size
        self.register_buffer("pairs", torch.full((n, 2), NO_TOKEN))
        self.register_buffer("pieces", torch.full((config.vocab_size, PIECES), float(n)))
        self.register_buffer("rarity", torch.zeros(n + 1))
        self.register_buffer("weight", torch.zeros(n + 1, config.n_classes))
        self.register_buffer("bias", torch.zeros(config.n_classes))

    def forward(
        self, source: Int[Tensor, "B S"], real: Bool[Tensor, "B S"] | None
    ) -> Float[Tensor, "B C"]:
        columns, values = self.features(source, real)
        return F.embedding_bag(columns, self.weight, mode="sum", per_sample_weights=values) + (
            self.bias
        )

    def features(
        self, source: Int[Tensor, "B S"], real: Bool[Tensor, "B S"] | None
    ) -> tuple[Int[Tensor, "B K"], Float[Tensor, "B K"]]:
        """The column of every n-gram of each text, and its value; each text has the length 1."""
        real = torch.ones_like(source, dtype=torch.bool) if real is None else real
        none = len(self.pairs)
        # a file may hold any number: no column is outside the table
        pieces = self.pieces[source].long().clamp(0, none)  # (B, S, P)
        pieces = pieces.masked_fill(~real[:, :, None], none)
        columns = torch.cat([pieces.flatten(1), self.pair_columns(source, real)], dim=1)
        values = self.rarity[columns]
        return columns, F.normalize(values, dim=1)

    def pair_columns(
        self, source: Int[Tensor, "B S"], real: Bool[Tensor, "B S"]
    ) -> Int[Tensor, "B S-1"]:
        """The columns of neighbouring tokens, found by binary search."""
        none = len(self.pairs)
        left, right = self.pairs.long().unbind(dim=1)
        # those without a pair come last, behind every key
        known = torch.where(left < 0, self.vocab_size**2, left * self.vocab_size + right)
        asked = pair_keys(source, self.vocab_size)
        place = torch.searchsorted(known, asked).clamp_max(none - 1)
        return torch.where((known[place] == asked) & real[:, 1:], place, none)


def pair_keys(source: Int[Tensor, "B S"], vocab_size: int) -> Int[Tensor, "B S-1"]:
    """A number for each two neighbouring tokens."""
    return source[:, :-1] * vocab_size + source[:, 1:]
