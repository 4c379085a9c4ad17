"""What a tokenizer has learned: its method and its tokens (subwords), special ones first."""

import re
from dataclasses import dataclass

from clearhead.errors import TextError

SPECIALS = {
    "pad": "<pad>",
    "start": "<s>",
    "end": "</s>",
    "unknown": "<unk>",
    "mask": "<mask>",
    "user": "<user>",
    "bot": "<bot>",
}
"""The special tokens by what they are for; their ids count from 0 in this order."""
PAD, START, END, UNKNOWN, MASK, USER, BOT = range(len(SPECIALS))

MAX_TOKEN = 64
"""Characters in the longest token: no run of dashes deserves an embedding of its own."""

WORDS = r" ?\p{L}[\p{L}\p{M}]*| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""Letters, digits and marks stay apart, so no token can spell `</s>` or `<0x41>`.

A space belongs to what follows.
"""

CHARACTERS = r"[\s\S]"

CONTINUATION = "##"

SPACE_MARK, ABSENT = "▁", "\0"
"""SentencePiece's space; and what stands before tokens that no text is cut into."""

SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Method:
    """How one way of making tokens differs from the others."""

    model: str
    """Its name in the file format."""
    pattern: str = WORDS
    """Where text is cut before tokens are looked for."""
    spaced: bool = True
    """A space is put before the text, so that a word is the same token wherever it stands."""
    fallback: bool = False
    """Characters outside the vocabulary are spelled in bytes, so nothing is unknown."""
    has_lines: bool = False
    """The end of a line is a token like any other; else an end token stands for it."""
    opens: bool = False
    """An encoder reads a start token before the text, as BERT does."""


METHODS = {
    "bpe": Method("BPE", fallback=True),
    "bytes": Method("BPE", spaced=False),
    "unigram": Method("Unigram", fallback=True),
    "wordpiece": Method("WordPiece"),
    "words": Method("WordLevel"),
    "characters": Method("WordLevel", pattern=CHARACTERS, spaced=False),
    "bert": Method("WordPiece", opens=True),
    "bert-cased": Method("WordPiece", opens=True),
    "gpt2": Method("BPE", spaced=False, has_lines=True),
    "sentencepiece": Method("Unigram"),
    "sentencepiece-bpe": Method("BPE"),
    "sentencepiece-bytes": Method("Unigram", fallback=True),
    "sentencepiece-bpe-bytes": Method("BPE", fallback=True),
}
BYTE_LEVEL = ("bytes", "gpt2")
"""Methods whose tokens are bytes."""
SENTENCEPIECE = tuple(name for name in METHODS if name.startswith("sentencepiece"))
WORDPIECE = ("bert", "bert-cased")
"""Methods of BERT: words without spaces; the first has small letters without accents only."""

PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
HIDDEN = [byte for byte in range(0x100) if byte not in PRINTABLE]
BYTE_ALPHABET = {chr(byte): byte for byte in PRINTABLE} | {
    chr(0x100 + n): byte for n, byte in enumerate(HIDDEN)
}
"""How byte-level BPE spells bytes: printable ones as themselves, the others from U+0100 on."""


@dataclass(frozen=True)
class Vocabulary:
    """Everything that is learned from text; the rest of a tokenizer follows from the method."""

    method: str
    learned: tuple[str, ...] = ()
    merges: tuple[tuple[str, str], ...] = ()
    scores: tuple[float, ...] = ()
    tags: tuple[str, ...] = ()
    """Special tokens of languages (`<2de>`), which earlier versions reserved and nothing uses."""
    beyond: tuple[str, ...] = ()
    """Pieces that text is cut into and that the model does not have: they are unknown to it."""
    charsmap: str = ""
    """What SentencePiece makes of characters before it cuts, in base64."""

    @property
    def specials(self) -> list[str]:
        return [*SPECIALS.values(), *self.tags]

    @property
    def tokens(self) -> list[str]:
        return [*self.specials, *byte_tokens(self.method), *self.learned]

    @property
    def names(self) -> list[str]:
        """The tokens by the names that they have in the model, however text is cut into them."""
        return [token.removeprefix(ABSENT) for token in self.tokens]

    def ids(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    def table(self) -> list[bytes]:
        """The bytes of each token; special ones have none."""
        fallback = [bytes([byte]) for byte in range(0x100)] if byte_tokens(self.method) else []
        return [*(b"" for _ in self.specials), *fallback, *map(self.spelling, self.learned)]

    def spelling(self, token: str) -> bytes:
        """What a learned token adds to a text, a space before a word included."""
        if self.method in BYTE_LEVEL:
            return bytes(map(BYTE_ALPHABET.__getitem__, token))
        if self.method in SENTENCEPIECE:
            return token.removeprefix(ABSENT).replace(SPACE_MARK, " ").encode()
        if self.method in WORDPIECE and not token.startswith(CONTINUATION):
            return f" {token}".encode()
        mark = CONTINUATION if METHODS[self.method].model == "WordPiece" else ""
        return token.removeprefix(mark).encode()


def byte_tokens(method: str) -> list[str]:
    """The tokens that stand for the bytes from 0 to 255, if the method has them."""
    if method in BYTE_LEVEL:
        return sorted(BYTE_ALPHABET, key=BYTE_ALPHABET.__getitem__)
    return [f"<0x{byte:02X}>" for byte in range(0x100)] if METHODS[method].fallback else []


def refuse_surrogates(text: str, name: str = "The text") -> None:
    """Half a character is no text: UTF-8 cannot write it."""
    if not text.isascii() and (found := SURROGATE.search(text)):
        raise TextError(
            f"{name} holds half a character, U+{ord(found[0]):04X}, at offset {found.start()}.",
            "Decode the text strictly where it comes from, or take the half out.",
        )
