"""SentencePiece model files, read without trust, and their normalisation, done exactly.

The file is a protocol buffer; of its fields we read those that shape a segmentation, and refuse
what we do not know. Its character map is data (a trie of strings and what they become), no program.
"""

import base64
import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from typing import Any

from clearhead.errors import TokenizerError, shown
from clearhead.text import document
from clearhead.text.vocabulary import ABSENT, SPACE_MARK, SURROGATE, Vocabulary

ADVICE = "Take the SentencePiece model that was written with the model."
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""What a piece is for."""
METHODS = {1: "sentencepiece", 2: "sentencepiece-bpe"}
"""The kinds of models that we know, by their numbers: unigram and BPE."""
SPELLED = "-bytes"
"""How the method's name goes on where characters without a piece are spelled in bytes."""
FEW, FIRST_RANK = 0.9, 10
"""The share of a vocabulary that a model must know to be made for all of it; and the rank of the
first token, where ranks tell how frequent tokens are."""
MAX_PIECES, MAX_PIECE = 1_000_000, 256
MAX_KEY, MAX_KNOWN = 32, 100_000
"""Characters of the longest string of a character map, and how many lookups are remembered."""
require = partial(document.require, name="The SentencePiece model", advice=ADVICE)
VARINT = re.compile(rb"[\x80-\xff]{0,9}[\x00-\x7f]")
"""An integer of a protocol buffer: seven bits in each byte, the last of which is below 128."""


@dataclass(frozen=True)
class SentencePiece:
    """What a model file says: its pieces with their scores, and how text is normalised."""

    method: str
    pieces: Mapping[str, tuple[float, int]]
    """In the order of the file, each with its score and what it is for."""
    charsmap: bytes

    @classmethod
    def read(cls, content: bytes) -> "SentencePiece":
        """The model in a file; what would make it cut text in a way unknown here is refused."""
        parts: dict[int, list[Any]] = {1: [], 2: [], 3: []}
        for number, value in fields(content):
            if number in parts:
                parts[number].append(value)
                require(len(parts[number]) <= MAX_PIECES, f"has more than {MAX_PIECES:,} pieces")
        pieces = dict(map(piece_of, parts[1]))
        trainer, normaliser = (dict(chain.from_iterable(map(fields, parts[n]))) for n in (2, 3))
        kind, charsmap = trainer.get(3, 1), normaliser.get(2, b"")
        for holds, what in (
            (pieces, "holds no pieces"),
            (len(pieces) == len(parts[1]), "has the same piece twice"),
            (kind in METHODS, f"is of kind {shown(kind)}, and unigram (1) and BPE (2) are known"),
            (not trainer.get(24), "puts white space at the end of words"),
            (normaliser.get(3, 1), "puts no space before the text"),
            (normaliser.get(4, 1), "keeps runs of spaces"),
            (normaliser.get(5, 1), "does not mark spaces"),
            (
                all(use != USER_DEFINED for _, use in pieces.values()),
                "has symbols defined by a user",
            ),
            (all(SPACE_MARK not in piece[1:] for piece in pieces), "has pieces of several words"),
            (isinstance(charsmap, bytes), "has a character map that is a number"),
        ):
            require(bool(holds), what)
        Normaliser(charsmap)
        return cls(METHODS[kind] + (SPELLED if trainer.get(35) else ""), pieces, charsmap)

    def for_target(self, tokens: list[str]) -> "SentencePiece":
        """What cuts the target, where the file is known to cut the source and there is no other.

        It is this model, unless it lacks many tokens: those are of the target language then, which
        had a model of its own. In the list they stand by frequency, and with a score by their rank
        (Zipf's law) nearly all text is cut as that model did.
        """
        if len({*tokens} & {*self.pieces}) >= FEW * len(tokens):
            return self
        ranked = enumerate(tokens, start=FIRST_RANK)
        pieces = {token: (-math.log(rank), NORMAL) for rank, token in ranked}
        method = METHODS[1] + (SPELLED if self.method.endswith(SPELLED) else "")
        return SentencePiece(method, pieces, self.charsmap)

    def vocabulary(self, tokens: list[str]) -> Vocabulary:
        """How this model cuts text, with ids as in a list of tokens.

        Such a list may lack pieces, which are unknown then, and may hold tokens that this model
        never makes (those of the other language), which stand there under a name that no text has.
        """
        normal = {piece: score for piece, (score, use) in self.pieces.items() if use == NORMAL}
        listed = set(tokens)
        learned = tuple(token if token in normal else ABSENT + token for token in tokens)
        beyond = tuple(piece for piece in normal if piece not in listed)
        names = [*learned, *beyond]
        unigram = self.method.removesuffix(SPELLED) == METHODS[1]
        return Vocabulary(
            self.method,
            learned=learned,
            beyond=beyond,
            scores=tuple(min(normal.get(name, 0.0), 0.0) for name in names) if unigram else (),
            merges=() if unigram else tuple(merges(normal)),
            charsmap=base64.b64encode(self.charsmap).decode(),
        )


def merges(scores: dict[str, float]) -> Iterator[tuple[str, str]]:
    """The pairs that become a piece, the best piece first, as BPE of SentencePiece joins them."""
    for piece in sorted(scores, key=lambda each: -scores[each]):
        for cut in range(1, len(piece)):
            if piece[:cut] in scores and piece[cut:] in scores:
                yield piece[:cut], piece[cut:]


def fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protocol buffer by their numbers: integers, floats and bytes."""
    require(isinstance(content, bytes), "has a number where a part of it should be")
    place = 0
    while place < len(content):
        key, place = read_varint(content, place)
        number, wire = key >> 3, key & 7
        require(
            wire in (0, 1, 2, 5), f"holds a field of type {wire}, which is no SentencePiece model"
        )
        if wire == 0:
            integer, place = read_varint(content, place)
            yield number, integer
            continue
        length, place = read_varint(content, place) if wire == 2 else ({1: 8, 5: 4}[wire], place)
        require(place + length <= len(content), "is cut off")
        value, place = content[place : place + length], place + length
        yield number, struct.unpack("<f", value)[0] if wire == 5 else value


def read_varint(content: bytes, place: int) -> tuple[int, int]:
    """The integer at a place, and the place after it."""
    if not (found := VARINT.match(content, place)):
        raise TokenizerError(
            "The SentencePiece model is cut off, or has an endless number.", ADVICE
        )
    return sum((byte & 0x7F) << 7 * n for n, byte in enumerate(found[0])), found.end()


def piece_of(content: Any) -> tuple[str, tuple[float, int]]:
    found = {1: b"", 2: 0.0, 3: NORMAL, **dict(fields(content))}
    try:
        piece = found[1].decode()
    except (UnicodeDecodeError, AttributeError):
        raise TokenizerError(
            "The SentencePiece model has a piece that is no text.", ADVICE
        ) from None
    fits = 0 < len(piece) <= MAX_PIECE and "\0" not in piece and not SURROGATE.search(piece)
    require(fits, f"has a piece that cannot be one: {shown(piece)}")
    is_score = type(found[2]) is float and -1e9 < found[2] < 1e9
    require(is_score and type(found[3]) is int, f"has no score or kind for {shown(piece)}")
    return piece, (found[2], found[3])


class Normaliser:
    """Text as SentencePiece sees it: characters mapped, longest match first; spaces single.

    The map is a double-array trie (Darts) of UTF-8, then the replacements, each ended by a zero. It
    is walked as far as a text asks, and never outside itself.
    """

    def __init__(self, charsmap: bytes) -> None:
        size = int.from_bytes(charsmap[:4], "little")
        fits = not charsmap or (0 < size <= len(charsmap) - 4 and size % 4 == 0)
        require(fits, "has a character map that is cut off")
        self.units = memoryview(charsmap)[4 : 4 + size].cast("I")
        self.replacements = charsmap[4 + size :]
        try:
            self.replacements.decode()  # the Rust library panics if this is no text
        except UnicodeDecodeError:
            require(False, "maps characters to what is no text")
        self.known_node = lru_cache(MAX_KNOWN)(self.node)
        self.ascii = {code: self.map(chr(code)) for code in range(128)}

    def __call__(self, text: str, before: str = "") -> str:
        """The text, after what is put `before` any that is not empty."""
        mapped = text.translate(self.ascii) if text.isascii() else self.map(text)
        single = re.sub(" +", " ", mapped.replace(ABSENT, "")).strip(" ")
        return before + single if single else ""

    def map(self, text: str) -> str:
        parts, place = list[str](), 0
        while place < len(text):
            best, n_read = text[place], 1
            for end in range(place + 1, min(place + MAX_KEY, len(text)) + 1):
                node = self.known_node(text[place:end])
                if node is None:
                    break
                if node[1] is not None:
                    best, n_read = node[1], end - place
            parts.append(best)
            place += n_read
        return "".join(parts)

    def node(self, key: str) -> tuple[int, str | None] | None:
        """Where the trie stands after a key, and what this becomes; None: no string begins so."""
        if not key:
            return (offset(self.units[0]) if self.units else 0), None
        before = self.known_node(key[:-1])
        return None if before is None else self.walk(before[0], key[-1])

    def walk(self, place: int, character: str) -> tuple[int, str | None] | None:
        unit = 0
        for byte in character.encode():
            place ^= byte
            if place >= len(self.units):
                return None
            unit = self.units[place]
            if unit & (1 << 31 | 0xFF) != byte:
                return None
            place ^= offset(unit)
        return place, self.replacement(place) if unit >> 8 & 1 else None

    def replacement(self, leaf: int) -> str:
        start = self.units[leaf] & 0x7FFFFFFF if leaf < len(self.units) else -1
        end = self.replacements.find(b"\0", start) if start >= 0 else -1
        require(end >= 0, "has a character map that points outside itself")
        return self.replacements[start:end].decode(errors="replace")


def offset(unit: int) -> int:
    """How far from a cell of the trie its children lie."""
    return unit >> 10 << ((unit & 1 << 9) >> 6)
