"""The tokenizer: what the rest of the package knows of text."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from random import Random

from tokenizers import Tokenizer as Rust

from clearhead.config import TokenizerConfig
from clearhead.errors import ConfigError, TokenizerError
from clearhead.text.document import ADVICE, MAX_BYTES, from_json, to_json
from clearhead.text.dropout import Merges
from clearhead.text.learn import learn_vocabulary
from clearhead.text.parts import Stream, bytes_of
from clearhead.text.vocabulary import (
    BOT,
    END,
    MASK,
    METHODS,
    PAD,
    START,
    UNKNOWN,
    USER,
    Vocabulary,
    refuse_surrogates,
)


class Tokenizer:
    """Text to ids and back. Text that looks like a special token is text."""

    pad, start, end, unknown, mask, user, bot = PAD, START, END, UNKNOWN, MASK, USER, BOT

    def __init__(self, vocabulary: Vocabulary, json: str | None = None) -> None:
        self.vocabulary = vocabulary
        self.json = json or to_json(vocabulary)
        """The tokenizer in the Hugging Face format, for a file."""
        self.table = vocabulary.table()
        self.vocab_size = len(self.table)
        self.spaced = METHODS[vocabulary.method].spaced
        with panics_refused():
            self.rust = Rust.from_str(self.json)
        self.rust.encode_special_tokens = True

    @classmethod
    def learn(cls, texts: Iterable[str], config: TokenizerConfig) -> "Tokenizer":
        """Tokens learned from a stream of texts."""
        with panics_refused():
            tokenizer = cls(learn_vocabulary(texts, config))
        if len(tokenizer.json.encode()) > MAX_BYTES:
            raise ConfigError(
                f"{tokenizer.vocab_size:,} tokens make a file of more than {MAX_BYTES:,} bytes.",
                "Use a smaller tokenizer.vocab_size.",
            )
        return tokenizer

    @classmethod
    def from_json(cls, text: str | bytes) -> "Tokenizer":
        """The tokenizer in a `tokenizer.json`, if it is exactly of the kind that we write."""
        return cls(*from_json(text))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the file as we write it: two tokenizers are the same if and only if it is."""
        return hashlib.sha256(self.json.encode()).hexdigest()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without start or end."""
        return self.encode_batch([text])[0]

    def encode_inside(self, text: str) -> list[int]:
        """The ids of a text that stands right after another character, with no space before it."""
        return self.encode(f"({text}")[len(self.encode("(")) :]

    def encode_batch(
        self, texts: Sequence[str], dropout: float = 0.0, seed: int = 0
    ) -> list[list[int]]:
        """The ids of many texts at once; with dropout, deterministic by texts, dropout and seed."""
        for text in texts:
            refuse_surrogates(text)
        if not dropout:
            with panics_refused():
                found = self.rust.encode_batch_fast(list(texts), add_special_tokens=False)
            return [encoded.ids for encoded in found]
        random = Random(seed)  # noqa: S311
        return [list(self.merges.encode(self.words(text), dropout, random)) for text in texts]

    @cached_property
    def merges(self) -> Merges:
        if METHODS[self.vocabulary.method].model != "BPE":
            raise ConfigError(
                f'tokenizer.dropout skips merges, and method "{self.vocabulary.method}" has none.',
                'Use tokenizer.dropout = 0, or tokenizer.method = "bpe" or "bytes".',
            )
        return Merges(self.vocabulary)

    def words(self, text: str) -> list[str]:
        """The text cut into the words within which tokens are looked for."""
        spaced = f" {text}" if self.spaced and text else text
        return [word for word, _ in self.rust.pre_tokenizer.pre_tokenize_str(spaced)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids; special tokens have none, and what is no UTF-8 becomes U+FFFD."""
        stream = self.stream()
        return "".join([*map(stream.push, ids), stream.end()])

    def stream(self) -> Stream:
        """A decoder for one text whose ids arrive one by one."""
        return Stream(self.table, self.spaced)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each token for people: spaces as ▁, the unprintable by its code, specials by name."""
        names = self.vocabulary.specials
        return [visible(bytes_of(token, self.table)) or names[token] for token in ids]


def visible(token: bytes) -> str:
    """A token's bytes as something to print."""
    try:
        text = token.decode().replace(" ", "▁")
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in token)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def panics_refused() -> Iterator[None]:
    """Make a panic in Rust, which is no `Exception` and would end a server, one of our errors."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise TokenizerError(f"The tokenizer broke down: {error}.", ADVICE) from None


PARALLELISM = "TOKENIZERS_PARALLELISM"


def before_fork() -> None:
    """Make a child encode without threads: they do not survive a fork, and it would hang."""
    os.environ.setdefault(PARALLELISM, "forked")


def after_fork_in_parent() -> None:
    if os.environ.get(PARALLELISM) == "forked":
        del os.environ[PARALLELISM]


def after_fork_in_child() -> None:
    os.environ[PARALLELISM] = "false"


os.register_at_fork(
    before=before_fork, after_in_parent=after_fork_in_parent, after_in_child=after_fork_in_child
)
