"""What every architecture shares: token vectors below, a head on top, and the way through both.

A model reads whole sequences, teacher-forced, and has no modes. Training and looking inside call
the same methods; looking hands in a tap. Nothing is stored on the modules, so threads may share a
model (it is thread-safe). Decoding has an engine of its own, the same arithmetic for one more
token.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.config import ModelConfig
from clearhead.errors import ModelError
from clearhead.model import masks
from clearhead.model.block import ACTIVATIONS, norm
from clearhead.model.dropout import Dropout
from clearhead.model.init import initialise
from clearhead.model.ngrams import NGrams
from clearhead.model.tap import SILENT, Tap


class Model(nn.Module, ABC):
    """Encoder and decoder (translate), the encoder alone (read), or the decoder alone (write)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        if config.reads and config.writes and config.tie != "all":
            self.source_tokens = nn.Embedding(
                config.source_vocab_size or config.vocab_size, config.d_model
            )
        self.make_stacks(config)
        if config.n_classes:
            self.classifier = ClassifierHead(config)
            if config.n_grams:
                self.ngrams = NGrams(config)
        elif not config.vectors:
            self.head = TokenHead(config, transform=not config.writes)
        initialise(self, config)

    @abstractmethod
    def make_stacks(self, config: ModelConfig) -> None:
        """Make the encoder and the decoder, as far as the family has them."""

    @abstractmethod
    def encode(
        self,
        source: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B 1 1 S"] | None = None,
        *,
        tap: Tap = SILENT,
    ) -> Float[Tensor, "B S D"]:
        """What the encoder makes of the source: a vector for each of its tokens."""

    @abstractmethod
    def decode(
        self,
        target: Int[Tensor, "B T"],
        memory: Float[Tensor, "B S D"] | None = None,
        mask: Bool[Tensor, "#B 1 1 S"] | None = None,
        tap: Tap = SILENT,
    ) -> Float[Tensor, "B T D"]:
        """For each target token, the vector that predicts the next; `mask` is the source's."""

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.tokens.weight.device

    def forward(
        self,
        source: Int[Tensor, "B S"] | None = None,
        target: Int[Tensor, "B T"] | None = None,
        real: Bool[Tensor, "B S"] | None = None,
        tap: Tap = SILENT,
    ) -> Float[Tensor, "..."]:
        """All logits at once, as in training; `real` tells the source's tokens from its padding.

        An encoder without a head answers with its vectors.
        """
        mask = None if real is None else masks.padding(real)
        memory = None if source is None else self.encode(source, mask, tap=tap)
        if target is not None:
            return self.logits(self.decode(target, memory, mask, tap=tap), tap)
        assert source is not None, "a source, a target or both"
        assert memory is not None, "made of the source"
        if self.config.vectors:
            return memory
        return (
            self.classify(memory, mask, tap, source=source, real=real)
            if self.config.n_classes
            else self.logits(memory, tap)
        )

    def logits(self, x: Float[Tensor, "B T D"], tap: Tap = SILENT) -> Float[Tensor, "B T V"]:
        """A score for every token of the vocabulary, from each vector of the last stack."""
        tap = tap.into("decoder" if self.config.writes else "encoder")
        return tap("logits", self.head(x, self.tokens.weight))

    def classify(
        self,
        memory: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B 1 1 S"] | None = None,
        tap: Tap = SILENT,
        *,
        source: Int[Tensor, "B S"],
        real: Bool[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B C"]:
        """A score for every class.

        Training leaves out those of the n-grams, as dropout would: they fit what they were fitted
        to, and would leave the encoder nothing to learn.
        """
        tap, classes = tap.into("encoder"), self.classifier(memory, mask)
        if self.config.n_grams and not self.training:
            wide = tap("ngrams", self.config.ngram_weight * self.ngrams(source, real))
            classes = classes + wide
        return tap("classes", classes)

    def source_vectors(self, source: Int[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """The vectors of the source's tokens, from a table of its own where it has one."""
        own = self.source_tokens if hasattr(self, "source_tokens") else self.tokens
        return self.look_up(own, source)

    def look_up(self, tokens: nn.Embedding, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Token vectors, times √d_model: beside positions, with entries of about 1, they count."""
        try:
            vectors: Tensor = tokens(ids)
        except IndexError:
            raise ModelError(
                f"Token ids from {ids.min()} to {ids.max()} do not fit a vocabulary of "
                f"{tokens.num_embeddings}, whose ids are 0 to {tokens.num_embeddings - 1}.",
                "Use the tokenizer that the model was trained with.",
            ) from None
        return vectors * math.sqrt(self.config.d_model) if self.config.scale_embeddings else vectors


POOLED: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}


class TokenHead(nn.Module):
    """Scores against each token's vector; for masked tokens it has one more layer, as in BERT."""

    def __init__(self, config: ModelConfig, transform: bool) -> None:
        super().__init__()
        self.tokens = (
            nn.Embedding(config.vocab_size, config.d_model) if config.tie == "none" else None
        )
        self.bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.logit_bias else None
        self.dense = nn.Linear(config.d_model, config.d_model) if transform else None
        if transform:
            self.norm = norm(config)
        self.activation = ACTIVATIONS[config.activation]

    def forward(
        self, x: Float[Tensor, "... D"], tokens: Float[Tensor, "V D"]
    ) -> Float[Tensor, "... V"]:
        return F.linear(self.transform(x), self.matrix(tokens), self.bias)

    def transform(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """What is compared with the tokens' vectors."""
        return x if self.dense is None else self.norm(self.activation(self.dense(x)))

    def matrix(self, tokens: Float[Tensor, "V D"]) -> Float[Tensor, "V D"]:
        """The vectors of all tokens: those of the embedding, where the two are tied."""
        return tokens if self.tokens is None else self.tokens.weight


class ClassifierHead(nn.Module):
    """One vector for the whole text, then a score per class."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pooling = config.pooling
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.activation = POOLED[config.pooled]
        self.dropout = Dropout(config.dropout)
        self.out = nn.Linear(config.d_model, config.n_classes)

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B 1 1 S"] | None
    ) -> Float[Tensor, "B C"]:
        pooled = self.dense(self.dropout(pool(x, mask, self.pooling)))
        classes: Tensor = self.out(self.dropout(self.activation(pooled)))
        return classes


def pool(
    x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B 1 1 S"] | None, how: str
) -> Float[Tensor, "B D"]:
    """One vector for a whole text: that of its first token, or the mean of all (pooling)."""
    if how == "first":
        return x[:, 0]
    if mask is None:
        return x.mean(dim=1)
    real = mask[:, 0, 0, :, None]
    return (x * real).sum(dim=1) / real.sum(dim=1)
