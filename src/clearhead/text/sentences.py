"""Long text in pieces that a model can read, cut where a person would pause."""

import re
from collections.abc import Callable, Iterator

SENTENCE_END = re.compile(r"(?<=[.!?…。！？])[\"'”’»)\]]*\s+")
SPACE = re.compile(r"\s+")


def pieces(text: str, fits: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Pieces that fit, each with the white space after it: whole sentences, else words, else what can be cut.

    All pieces and spaces, put together, are the text again.
    """
    if fits(text):
        yield text, ""
        return
    cut = middle(text, SENTENCE_END) or middle(text, SPACE)
    begin, end = cut if cut else (len(text) // 2, len(text) // 2)
    *first, last = pieces(text[:begin], fits)
    yield from first
    yield last[0], last[1] + text[begin:end]
    yield from pieces(text[end:], fits)


def middle(text: str, pattern: re.Pattern[str]) -> tuple[int, int] | None:
    """The match nearest to the middle of the text, as the white space in it; none at its very ends."""
    spans = [match.span() for match in pattern.finditer(text)]
    spans = [
        (end - len(text[begin:end]) + len(text[begin:end].rstrip()), end) for begin, end in spans
    ]
    inner = [(begin, end) for begin, end in spans if begin > 0 and end < len(text)]
    return min(inner, key=lambda span: abs(span[0] + span[1] - len(text)), default=None)
