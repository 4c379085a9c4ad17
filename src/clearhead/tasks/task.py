"""A task: what training has to know about examples of one kind, and knows nothing about itself."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from clearhead.config import Config, Given
from clearhead.data.batches import Batches
from clearhead.data.encoding import Encoding
from clearhead.data.examples import Examples
from clearhead.data.store import Store
from clearhead.text import Tokenizer
from clearhead.train import Judge, Loss, next_token_loss

Tokenizers = tuple[Tokenizer, Tokenizer]
"""The source's and the target's, which may be the same."""


class Task(ABC):
    """The class reads examples and resolves settings; an instance makes batches, loss and judge."""

    name: ClassVar[str]

    def __init__(self, config: Config, tokenizers: Tokenizers) -> None:
        self.config, self.tokenizers = config, tokenizers

    @staticmethod
    @abstractmethod
    def read(paths: Iterable[Path]) -> Examples[Any]:
        """The examples in files."""

    @staticmethod
    @abstractmethod
    def texts(example: Any) -> tuple[str, ...]:
        """The texts of an example, which a tokenizer learns from."""

    @classmethod
    @abstractmethod
    def resolve(cls, decided: Given, examples: Iterator[Any], /) -> Config:
        """The settings that are decided, and those that follow from the examples.

        These come but once, and need not be read to their end.
        """

    @property
    @abstractmethod
    def encoding(self) -> Encoding:
        """How examples become ids."""

    @abstractmethod
    def n_predictions(self, store: Store) -> int:
        """What the model is asked in one pass over the examples."""

    @abstractmethod
    def batches(self, store: Store) -> Batches[Any]: ...

    @property
    def loss(self) -> Loss:
        train = self.config.train
        return next_token_loss(train.label_smoothing, train.word_dropout)

    @abstractmethod
    def judge(self, examples: list[Any], store: Store) -> Judge:
        """What validation measures, on these examples."""


def with_family(config: Config, family: str) -> Config:
    return config.but(model=config.model.but(family=family))


def with_vocabularies(config: Config, tokenizers: Tokenizers) -> Config:
    """The settings of a model that reads and writes what the tokenizers know."""
    source, target = tokenizers
    model: dict[str, Any] = {"vocab_size": target.vocab_size}
    if source is not target and config.model.family == "encoder-decoder":
        model |= {"source_vocab_size": source.vocab_size, "tie": "output"}
    return config.but(model=config.model.but(**model))
