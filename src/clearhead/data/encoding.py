"""How examples become ids: a list of rows per side, a chunk at a time, so that every core works."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeAlias

from clearhead.data.examples import Conversation, LabelledText, Pair
from clearhead.errors import DataError, shown
from clearhead.text import BOT, END, USER

Rows: TypeAlias = list[list[int]]


class TextEncoder(Protocol):
    """What is asked of a tokenizer here."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    def encode_batch(self, texts: list[str]) -> Rows: ...


@dataclass(frozen=True)
class Encoding:
    """A way to turn examples into ids. The first two sides are those whose lengths matter."""

    encode: Callable[[list[Any]], tuple[Rows, ...]]
    vocab_sizes: tuple[int, ...]
    fingerprint: str
    """Names the function: equal fingerprints give equal rows."""


def pair_encoding(source: TextEncoder, target: TextEncoder) -> Encoding:
    """Two sides: source and target."""

    def encode(pairs: list[Pair]) -> tuple[Rows, ...]:
        sources, targets = zip(*pairs, strict=True)
        return source.encode_batch(list(sources)), target.encode_batch(list(targets))

    return Encoding(
        encode,
        (source.vocab_size, target.vocab_size),
        f"pairs {source.fingerprint} {target.fingerprint}",
    )


def label_encoding(
    tokenizer: TextEncoder, names: Sequence[str], longest: int | None = None
) -> Encoding:
    """Two sides: the text, cut off where it is too long, and the numbers of its labels."""
    numbers = {name: number for number, name in enumerate(names)}

    def number(label: str) -> int:
        if label not in numbers:
            raise DataError(
                f"The label {shown(label)} is not one of the {len(numbers)} known ones.",
                f"There are: {shown(', '.join(names))}.",
            )
        return numbers[label]

    def encode(examples: list[LabelledText]) -> tuple[Rows, ...]:
        texts, labels = zip(*examples, strict=True)
        rows = [row[:longest] for row in tokenizer.encode_batch(list(texts))]
        return rows, [sorted(map(number, each)) for each in labels]

    return Encoding(
        encode,
        (tokenizer.vocab_size, len(names)),
        f"labels {tokenizer.fingerprint} {list(names)!r} {longest}",
    )


def text_encoding(tokenizer: TextEncoder) -> Encoding:
    """One side: the text and an end token, so that the side as a whole is running text."""

    def encode(texts: list[str]) -> tuple[Rows, ...]:
        return ([[*row, END] for row in tokenizer.encode_batch(texts)],)

    return Encoding(encode, (tokenizer.vocab_size,), f"text {tokenizer.fingerprint}")


def conversation_encoding(tokenizer: TextEncoder) -> Encoding:
    """Two sides: the turns in one row, and 1 for each token that the bot says, ends included."""

    def encode(conversations: list[Conversation]) -> tuple[Rows, ...]:
        rows = iter(tokenizer.encode_batch([turn for each in conversations for turn in each.turns]))
        ids: Rows = [[] for _ in conversations]
        counts: Rows = [[] for _ in conversations]
        for n, conversation in enumerate(conversations):
            for turn, row in enumerate(islice(rows, len(conversation.turns))):
                ids[n] += [BOT, *row] if turn % 2 else [*[END] * (turn > 0), USER, *row]
                counts[n] += (
                    [0, *[1] * len(row)] if turn % 2 else [*[1] * (turn > 0), *[0] * (len(row) + 1)]
                )
        return ids, counts

    return Encoding(encode, (tokenizer.vocab_size, 2), f"conversations {tokenizer.fingerprint}")
