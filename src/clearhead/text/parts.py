"""Text in parts: as its tokens arrive (streaming), and long text cut where a person would pause."""

import codecs
import re
from collections.abc import Callable, Iterator, Sequence

from clearhead.errors import TextError

SENTENCE_END = re.compile(r"(?<=[.!?…。！？])[\"'”’»)\]]*\s+")
SPACE = re.compile(r"\s+")


class Stream:
    """Gives out text as soon as it is certain: only half a character waits, for its other half."""

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


def bytes_of(token: int, table: Sequence[bytes]) -> bytes:
    """What an id stands for; a negative one stands for nothing, whatever Python says."""
    if not 0 <= token < len(table):
        raise TextError(
            f"Id {token} is not in the vocabulary of {len(table)} tokens.",
            "Use the tokenizer of the model that made it.",
        )
    return table[token]


def fitting_parts(text: str, fits: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Parts that fit, each with the white space after it: sentences, else words, else anything.

    All parts and spaces, put together, are the text again.
    """
    if fits(text):
        yield text, ""
        return
    cut = middle(text, SENTENCE_END) or middle(text, SPACE)
    begin, end = cut if cut else (len(text) // 2, len(text) // 2)
    *first, last = fitting_parts(text[:begin], fits)
    yield from first
    yield last[0], last[1] + text[begin:end]
    yield from fitting_parts(text[end:], fits)


def middle(text: str, pattern: re.Pattern[str]) -> tuple[int, int] | None:
    """The white space that ends the match nearest to the middle of the text, if it is inside."""
    found = pattern.finditer(text)
    spans = ((match.start() + len(match[0].rstrip()), match.end()) for match in found)
    inner = [(begin, end) for begin, end in spans if begin > 0 and end < len(text)]
    return min(inner, key=lambda span: abs(span[0] + span[1] - len(text)), default=None)
