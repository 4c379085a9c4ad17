"""What all uses of a trained model share: loading, limits, decoding settings, perplexity."""

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from clearhead.config import Config, DecodeConfig
from clearhead.errors import FolderError
from clearhead.folder import RunFolder
from clearhead.look import Look
from clearhead.model import Transformer
from clearhead.tasks.task import Tokenizers

CHUNK = 2_048
"""Texts read ahead of the model: enough to find some of like length, few enough to answer soon."""
T = TypeVar("T")
V = TypeVar("V")


class User(ABC):
    """A trained model with its tokenizers and settings, ready to be used."""

    ability: ClassVar[str]
    """What it can do, after "can"."""
    remedy: ClassVar[str]
    """The command that trains one."""

    def __init__(
        self, model: Transformer, tokenizers: Tokenizers, config: Config, name: str = ""
    ) -> None:
        self.model, self.config, self.name = model, config, name
        self.tokenizers, self.tokenizer = tokenizers, tokenizers[1]
        self.source, self.target = tokenizers

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> Self:
        """The model in a run folder, refused if it cannot be used like this."""
        folder = RunFolder.open(path)
        config = folder.config()
        cls.refuse_others(folder, config)
        return cls(folder.model(device), folder.tokenizers(), config, folder.path.name)

    @classmethod
    def refuse_others(cls, folder: RunFolder, config: Config) -> None:
        if not cls.suits(config):
            raise FolderError(
                f"{folder.path} cannot {cls.ability}: its model is of the family "
                f"{config.model.family}, for {config.task}.",
                f"Train one with: {cls.remedy}",
            )

    @staticmethod
    @abstractmethod
    def suits(config: Config) -> bool:
        """Whether a run with these settings can be used like this."""

    @abstractmethod
    def look(self, text: str, /, *args: Any, **options: Any) -> Look:
        """Every number behind what the model makes of a text."""

    def asked(
        self, decode: DecodeConfig | None, changes: Mapping[str, Any], length: int | None = None
    ) -> DecodeConfig:
        """How to decode: the run's settings or those given, changed; `length` if they have none."""
        found = (decode or self.config.decode).but(**changes)
        return found.but(max_length=length) if length and found.max_length is None else found

    def limit_of(self, longest: int, n_marks: int) -> int:
        """Tokens that are read at once; learned positions must also hold the marks around them."""
        model = self.config.model
        return (
            min(longest, model.max_positions - n_marks) if model.positions == "learned" else longest
        )

    def __repr__(self) -> str:
        n_parameters = sum(weight.numel() for weight in self.model.parameters())
        return (
            f"<{type(self).__name__} {self.name or 'without a run'}: {self.config.task}, "
            f"{self.config.model.family}, {n_parameters:,} parameters>"
        )


class Kept(Generic[T, V]):
    """The items of a generator, whose value is kept for when they have all come."""

    value: V

    def __init__(self, generator: Generator[T, None, V]) -> None:
        self.generator = generator

    def __iter__(self) -> Iterator[T]:
        self.value = yield from self.generator


def value_of(generator: Generator[T, None, V]) -> V:
    """The value of a generator, all items of which are taken at once."""
    kept = Kept(generator)
    for _ in kept:
        pass
    return kept.value


@dataclass(frozen=True, kw_only=True)
class Perplexity:
    """How surprised a model is by a text; bits per byte compare across tokenizers."""

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
