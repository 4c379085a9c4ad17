"""The tokenizer: what the rest of the package knows of text.

Ids become text as they arrive (streaming), and long text is cut where a person would pause.
"""

import base64
import codecs
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import pairwise
from random import Random

from tokenizers import Tokenizer as Rust
from tokenizers.models import BPE, Unigram
from tokenizers.pre_tokenizers import Metaspace

from clearhead.config import TokenizerConfig
from clearhead.errors import ConfigError, TextError, TokenizerError
from clearhead.text.document import ADVICE, MAX_BYTES, from_json, model_section, to_json
from clearhead.text.learn import LEARNERS, CountedTexts
from clearhead.text.sentencepiece import Normaliser
from clearhead.text.vocabulary import (
    ABSENT,
    BOT,
    END,
    MASK,
    METHODS,
    PAD,
    SENTENCEPIECE,
    SPACE_MARK,
    START,
    UNKNOWN,
    USER,
    Vocabulary,
    byte_tokens,
    refuse_surrogates,
)

PARALLELISM = "TOKENIZERS_PARALLELISM"
SENTENCE_END = re.compile(r"(?<=[.!?…。！？])[\"'”’»)\]]*\s+")
SPACE = re.compile(r"\s+")
N_WAYS = 16
"""Ways in which a word is cut with dropout: enough to seldom see the same, few enough to keep."""
N_KEPT = 2**18
"""Cuts that are kept: words come again, and cutting one takes longer than all else about it."""
LONGEST = 256
"""Symbols merged together at most, for the time grows with the square; longer words are cut."""


class Merges:
    """The merges of a vocabulary as ids: which pair becomes which token, and which comes first.

    For BPE-dropout, which skips merges at random, so that training sees a word cut in several ways:
    the Rust library draws from a generator that cannot be seeded, and training that resumes exactly
    needs one that can.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.ids = vocabulary.ids()
        self.first_byte = self.ids[byte_tokens(vocabulary.method)[0]]
        self.ranks: Mapping[tuple[int, int], tuple[int, int]] = {
            (self.ids[left], self.ids[right]): (rank, self.ids[left + right])
            for rank, (left, right) in enumerate(vocabulary.merges)
        }
        self.kept_cut = lru_cache(N_KEPT)(self.cut)

    def encode(self, words: Iterable[str], dropout: float, random: Random) -> Iterator[int]:
        """Ids of the words; each possible merge is left out with the probability `dropout`."""
        for word in words:
            yield from self.kept_cut(word, dropout, random.randrange(N_WAYS))

    def cut(self, word: str, dropout: float, way: int) -> tuple[int, ...]:
        """One of the ways to cut a word, the same whenever it is asked for."""
        random, symbols = Random(f"{way} {word}"), list(self.symbols(word))  # noqa: S311
        parts = (symbols[start : start + LONGEST] for start in range(0, len(symbols), LONGEST))
        return tuple(token for part in parts for token in self.merge(part, dropout, random))

    def symbols(self, word: str) -> Iterator[int]:
        """The characters of a word as ids, spelled in bytes where the vocabulary lacks them."""
        for character in word:
            if character in self.ids:
                yield self.ids[character]
            else:
                yield from (self.first_byte + byte for byte in character.encode())

    def merge(self, symbols: list[int], dropout: float, random: Random) -> list[int]:
        while True:
            possible = [
                (*self.ranks[pair], place)
                for place, pair in enumerate(pairwise(symbols))
                if pair in self.ranks and random.random() >= dropout
            ]
            if not possible:
                return symbols
            _, token, place = min(possible)
            symbols[place : place + 2] = [token]


class Stream:
    """A streaming decoder: text comes as soon as it is certain; half a character waits."""

    def __init__(self, table: Sequence[bytes], spaced: bool) -> None:
        self.table = table
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.at_padding = spaced
        """Whether the space that encoding put before the text is still to come."""

    def push(self, token: int) -> str:
        """The text that this id completes, often one piece of a word, sometimes nothing."""
        return self.unpadded(self.decoder.decode(bytes_of(token, self.table)))

    def end(self) -> str:
        """What is left: a replacement character if the last character never became whole."""
        return self.unpadded(self.decoder.decode(b"", final=True))

    def unpadded(self, text: str) -> str:
        if self.at_padding and text:
            self.at_padding = False
            return text.removeprefix(" ")
        return text


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
        self.normalise: Normaliser | None = None
        if vocabulary.method in SENTENCEPIECE:
            # ours is exact where that of the Rust library, which goes by graphemes, is not
            self.normalise = Normaliser(base64.b64decode(vocabulary.charsmap))
        with panics_refused():
            self.rust = pieces(vocabulary) if self.normalise else Rust.from_str(self.json)
        self.rust.encode_special_tokens = True

    @classmethod
    def learn(cls, texts: Iterable[str], config: TokenizerConfig) -> "Tokenizer":
        """Tokens learned from a stream of texts."""
        if config.method not in LEARNERS:
            raise ConfigError(
                f'tokenizer.method = "{config.method}" comes with imported models and is not '
                "learned here.",
                f"Use one of: {', '.join(LEARNERS)}.",
            )
        with panics_refused():
            tokenizer = cls(LEARNERS[config.method](CountedTexts(texts, config)))
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
        if self.normalise:
            return self.cut([self.normalise(text)])[0]
        return self.encode(f"({text}")[len(self.encode("(")) :]

    def encode_batch(
        self, texts: Sequence[str], dropout: float = 0.0, seed: int = 0
    ) -> list[list[int]]:
        """The ids of many texts at once; with dropout, deterministic by texts, dropout and seed."""
        for text in texts:
            refuse_surrogates(text)
        if dropout:
            random = Random(seed)  # noqa: S311
            return [list(self.merges.encode(self.words(text), dropout, random)) for text in texts]
        if self.normalise:
            texts = [self.normalise(text, before=SPACE_MARK) for text in texts]
        return self.cut(texts)

    def cut(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of texts; those that the model does not have are unknown."""
        with panics_refused():
            found = self.rust.encode_batch_fast(list(texts), add_special_tokens=False)
        rows = [row.ids for row in found]
        if self.normalise:
            return [self.own_ids(*pair) for pair in zip(texts, rows, strict=True)]
        return rows

    def own_ids(self, text: str, ids: list[int]) -> list[int]:
        """Ids of SentencePiece as those of the model, which may lack pieces and have others."""
        if UNKNOWN in ids:
            found = self.rust.encode(text, add_special_tokens=False)
            spans = zip(found.ids, found.offsets, strict=True)
            ids = [
                each
                for token, (begin, end) in spans
                for each in (self.without_piece(text[begin:end]) if token == UNKNOWN else [token])
            ]
        return [token if token < self.vocab_size else UNKNOWN for token in ids]

    def without_piece(self, text: str) -> list[int]:
        """Text that SentencePiece has no piece for: its bytes, where the model knows them."""
        if METHODS[self.vocabulary.method].fallback:
            first = len(self.vocabulary.specials)
            return [first + byte for byte in text.encode()]
        return [self.absent.get(text, UNKNOWN)]

    @cached_property
    def absent(self) -> Mapping[str, int]:
        """Tokens that SentencePiece does not know; what it cannot cut may be one of them."""
        tokens = enumerate(self.vocabulary.tokens)
        return {token[1:]: number for number, token in tokens if token.startswith(ABSENT)}

    @cached_property
    def after_line(self) -> tuple[int, ...]:
        """What ends a line of running text: an end token, or the tokens of a line feed."""
        return tuple(self.encode("\n")) if METHODS[self.vocabulary.method].has_lines else (END,)

    def reading(self, ids: Iterable[int]) -> list[int]:
        """What an encoder reads: the ids and an end; after a start, if the method asks for one."""
        return [*[START] * METHODS[self.vocabulary.method].opens, *ids, END]

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
        text = b"".join(self.spelled(ids)).decode(errors="replace")
        return text.removeprefix(" ") if self.spaced else text

    def stream(self) -> Stream:
        """A decoder for one text whose ids arrive one by one."""
        return Stream(self.table, self.spaced)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each token for people: spaces as ▁, the unprintable by its code, specials by name."""
        names = self.vocabulary.specials
        ids = list(ids)
        shown = map(visible, self.spelled(ids))
        return [text or names[token] for text, token in zip(shown, ids, strict=True)]

    def spelled(self, ids: Iterable[int]) -> list[bytes]:
        """What each id stands for; all are looked up at once, for many texts are decoded."""
        ids = list(ids)
        if ids and min(ids) >= 0 and max(ids) < self.vocab_size:
            return [self.table[token] for token in ids]
        return [bytes_of(token, self.table) for token in ids]


def pieces(vocabulary: Vocabulary) -> Rust:
    """SentencePiece's model; special tokens and bytes have names there that no text has."""
    section = model_section(vocabulary)
    n_hidden = len(vocabulary.specials) + len(byte_tokens(vocabulary.method))
    names = {
        name if place >= n_hidden else ABSENT + name: value
        for place, (name, value) in enumerate(dict(section["vocab"]).items())
    }
    if section["type"] == "Unigram":
        rust = Rust(Unigram(list(names.items()), UNKNOWN, byte_fallback=False))
    else:
        unknown = ABSENT + vocabulary.specials[UNKNOWN]
        rust = Rust(BPE(names, list(vocabulary.merges), unk_token=unknown, fuse_unk=True))
    rust.pre_tokenizer = Metaspace(prepend_scheme="never")
    return rust


def bytes_of(token: int, table: Sequence[bytes]) -> bytes:
    """The bytes of an id; a negative one is refused, and does not count from the end."""
    if not 0 <= token < len(table):
        raise TextError(
            f"Id {token} is not in the vocabulary of {len(table)} tokens.",
            "Use the tokenizer of the model that made it.",
        )
    return table[token]


@lru_cache(maxsize=1 << 16)
def visible(token: bytes) -> str:
    try:
        text = token.decode().replace(" ", "▁")
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in token)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def fitting_parts(text: str, fits: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Parts that fit, each with the white space after it: sentences, else words, else anything.

    All parts and spaces, put together, are the text again.
    """
    if fits(text):
        yield text, ""
        return
    half = len(text) // 2
    begin, end = middle(text, SENTENCE_END) or middle(text, SPACE) or (half, half)
    *first, last = fitting_parts(text[:begin], fits)
    yield from first
    yield last[0], last[1] + text[begin:end]
    yield from fitting_parts(text[end:], fits)


def middle(text: str, pattern: re.Pattern[str]) -> tuple[int, int] | None:
    """The white space that ends the match nearest to the middle of the text, if it is inside."""
    spans = ((m.start() + len(m[0].rstrip()), m.end()) for m in pattern.finditer(text))
    inner = [(begin, end) for begin, end in spans if begin > 0 and end < len(text)]
    return min(inner, key=lambda span: abs(span[0] + span[1] - len(text)), default=None)


@contextmanager
def panics_refused() -> Iterator[None]:
    """Make a panic in Rust, which is no `Exception` and would end a server, one of our errors."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise TokenizerError(f"The tokenizer broke down: {error}.", ADVICE) from None


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
