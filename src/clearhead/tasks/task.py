"""What a task is: what training has to know about its examples, and how a trained model is used."""

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.config import PRESETS, Config, DecodeConfig, Given, layered, spelled_out
from clearhead.data.batches import Batches
from clearhead.data.examples import Examples
from clearhead.data.store import Encoding, Store
from clearhead.decode import PACED, Searching
from clearhead.errors import FolderError
from clearhead.folder import RunFolder
from clearhead.look import Look
from clearhead.model import Model
from clearhead.text import Tokenizer
from clearhead.text.words import Words, told_of_new_words
from clearhead.training import Judge, Loss, next_token_loss

Tokenizers = tuple[Tokenizer, Tokenizer]
"""The source's and the target's, which may be the same."""
BATCH_TOKENS = 8_192
"""Tokens of the texts that are read together, padding included."""
N_SAMPLES = 3
"""Examples whose outputs are shown at each validation."""
T = TypeVar("T")
V = TypeVar("V")
DEFAULTS: dict[str, Given] = {
    "chat": {
        "train": {"label_smoothing": 0.0},
        "decode": {"beam": 1, "temperature": 0.6, "top_p": 0.9, "max_length": 60, "guard": False},
    },
    "classification": {
        "model": {"n_encoder_layers": 2, "dropout": 0.3},
        "tokenizer": {"method": "wordpiece", "vocab_size": 4_000},
        "data": {"batch_tokens": 512, "validation_share": 0.1, "max_n_grams": 100_000},
        "train": {"optimizer": "adamw", "learning_rate": 1e-3, "word_dropout": 0.1},
    },
    "pretraining": {
        "data": {"max_length": 1_000_000},
    },
    "writing": {
        "tokenizer": {"method": "bytes"},
        # a line of any length is text; windows are cut elsewhere
        "data": {"max_length": 1_000_000},
        "train": {"label_smoothing": 0.0},
        "decode": {"beam": 1, "temperature": 0.8, "min_p": 0.05, "max_length": 200, "guard": False},
    },
}
"""Where a task does better with other settings than those of `config.py`."""

FINE_TUNING: Given = {
    "data": {"max_n_grams": 0},
    "train": {"learning_rate": 1e-3, "muon_learning_rate": 0.005},
}
"""For fine-tuning, whatever the task: smaller steps, and the encoder alone, without n-grams beside
it, since other programs know its layout."""
FINE_WIDTH = 128
"""The width of a model that these learning rates suit; wider ones need lower rates."""


def decide(task: str, given: Given, inherited: Given | None = None) -> Given:
    """All settings that are decided for a new run of a task: what is given wins over all else.

    `inherited` are settings of the run that it begins with. What is not decided here is open: the
    plan may choose it, and else the default in `config.py` holds.
    """
    said = spelled_out(given)
    size = PRESETS[given["size"]] if "size" in given else {}
    beginnings = () if inherited is None else (inherited, fine_tuning(inherited))
    return layered(DEFAULTS.get(task, {}), size, *beginnings, said, {"task": task})


def fine_tuning(inherited: Given) -> Given:
    """The settings of fine-tuning; docs/LOG.md says why learning rates fall with the width."""
    share = min(1.0, FINE_WIDTH / inherited.get("model", {}).get("d_model", FINE_WIDTH))
    rates = {name: share * rate for name, rate in FINE_TUNING["train"].items()}
    return layered(FINE_TUNING, {"train": rates})


class Task(ABC):
    """What training has to know of a task: how to read examples, batches, loss, validation.

    The class reads examples and resolves settings; an instance has settings and tokenizers.
    """

    name: ClassVar[str]
    unit: ClassVar[str]
    """What its examples are called, in the plural."""
    predicted: ClassVar[str] = "tokens"
    """What the model is asked to predict, in the plural."""
    families: ClassVar[tuple[str, ...]]
    """The families of models that can do it."""
    enough: ClassVar[int]
    """With fewer predictions than this in the training examples, nobody should expect much."""

    def __init__(self, config: Config, tokenizers: Tokenizers) -> None:
        self.config, self.tokenizers = config, tokenizers

    @staticmethod
    @abstractmethod
    def read(*paths: Path, columns: Sequence[str] = ()) -> Examples[Any]:
        """The examples in files, of tables from these columns."""

    @staticmethod
    @abstractmethod
    def texts(example: Any) -> tuple[str, ...]:
        """The texts of an example, which a tokenizer learns from."""

    @classmethod
    def read_text(cls, example: Any) -> str:
        """The text of an example that the model reads, where it does not write all of them."""
        return cls.texts(example)[0]

    @classmethod
    @abstractmethod
    def resolve(cls, decided: Given, examples: Iterator[Any], /) -> Config:
        """The settings that are decided, and those that follow from the examples.

        The examples can be read only once, and need not be read to their end.
        """

    @property
    @abstractmethod
    def encoding(self) -> Encoding:
        """How examples become ids."""

    @abstractmethod
    def n_predictions(self, store: Store) -> int:
        """How many predictions the model is asked for in one pass over the examples."""

    @abstractmethod
    def batches(self, store: Store) -> Batches[Any]: ...

    def sized(self, store: Store) -> Config:  # noqa: ARG002
        """The settings with the sizes that depend on the encoded examples."""
        return self.config

    def begin(self, model: Model, store: Store) -> str:  # noqa: ARG002
        """Fit the parts of a new model that need no training; what was done, in a sentence."""
        return ""

    @property
    def loss(self) -> Loss:
        return next_token_loss(self.config.train.label_smoothing, self.config.train.word_dropout)

    def baseline(self, training: list[Any], validation: list[Any]) -> str:  # noqa: ARG002
        """The score of a model without a neural network on the validation examples, in words."""
        return ""

    @abstractmethod
    def judge(self, examples: list[Any], store: Store) -> Judge:
        """What validation measures: loss, score and samples on these examples."""


def with_vocabularies(config: Config, tokenizers: Tokenizers) -> Config:
    """The settings of a model that reads and writes what the tokenizers know."""
    source, target = tokenizers
    two = source.vocabulary.names != target.vocabulary.names
    has_own = two and config.model.family == "encoder-decoder"
    own = {"source_vocab_size": source.vocab_size, "tie": "output"} if has_own else {}
    return config.but(model=config.model.but(vocab_size=target.vocab_size, **own))


class User(ABC):
    """A trained model with its tokenizers and settings, ready to be used."""

    ability: ClassVar[str]
    """What it can do, after "can"."""
    remedy: ClassVar[str]
    """The command that trains one."""

    def __init__(
        self,
        model: Model,
        tokenizers: Tokenizers,
        config: Config,
        name: str = "",
        words: Words | None = None,
    ) -> None:
        self.model, self.config, self.name = model, config, name
        self.tokenizers, self.tokenizer = tokenizers, tokenizers[1]
        self.source, self.target = tokenizers
        self.words = words
        """The words that it has seen in training, where the run knows them."""
        self.searching: Searching = PACED
        self._prepare()

    def _prepare(self) -> None:  # noqa: B027  # most need something, not all
        """Compute once what every call needs: the flat weights, the longest input."""

    def by(self, searching: Searching) -> Self:
        """A shallow copy that has its outputs searched for elsewhere, for example in a pool."""
        other = copy(self)
        other.searching = searching
        return other

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu", checkpoint: str = "") -> Self:
        """The model in a run folder; a run that cannot be used like this is refused.

        `checkpoint` names other weights than those to use: "last", or the number of a step.
        """
        folder = RunFolder.open(path)
        config = folder.config()
        cls.refuse_others(folder, config)
        model = folder.model(device, checkpoint)
        return cls(model, folder.tokenizers(), config, folder.path.name, folder.words())

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
        """Every number behind what the model does with a text."""

    def note_on(self, text: str) -> str:
        """What a person should know before believing the answer: words new to the model."""
        return "" if self.words is None else told_of_new_words(text, self.words)

    def asked(
        self, decode: DecodeConfig | None, changes: Mapping[str, Any], length: int | None = None
    ) -> DecodeConfig:
        """How to decode: the settings given, or else the run's, with some changed.

        An output is at most `length` tokens long where they name no number.
        """
        found = (decode or self.config.decode).but(**changes)
        return found.but(max_length=length) if length and found.max_length is None else found

    def limit_of(self, longest: int, n_marks: int) -> int:
        """The longest input in tokens: learned positions must also have room for special tokens."""
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


def by_length(
    rows: Sequence[Sequence[int]],
) -> Iterator[tuple[list[int], Int[Tensor, "B S"], Bool[Tensor, "B S"]]]:
    """Rows of ids collated by length (length buckets): their numbers, padded ids, padding mask."""
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    while order:
        size = max(1, BATCH_TOKENS // len(rows[order[-1]]))
        some, order = order[-size:], order[:-size]
        ids = [torch.tensor(rows[number]) for number in some]
        source = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
        yield some, source, torch.arange(source.size(1)) < torch.tensor([[len(row)] for row in ids])


class Kept(Generic[T, V]):
    """A generator to iterate over, which keeps its return value in `value`."""

    value: V

    def __init__(self, generator: Generator[T, None, V]) -> None:
        self.generator = generator

    def __iter__(self) -> Iterator[T]:
        self.value = yield from self.generator


def value_of(generator: Generator[T, None, V]) -> V:
    """The return value of a generator, after all its items were taken."""
    kept = Kept(generator)
    deque(kept, maxlen=0)
    return kept.value


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a model wrote; `str()` is the text."""

    text: str
    tokens: tuple[str, ...] = ()
    """A space is shown as ▁."""
    ids: tuple[int, ...] = ()
    """The tokens by their numbers in the vocabulary."""
    log_probs: tuple[float, ...] = ()
    """The log-probability that the model itself gives to each token, and to the end."""
    notes: tuple[str, ...] = ()
    """What a person should know: what could not be read, a loop that was blocked …"""

    def __str__(self) -> str:
        return self.text


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
