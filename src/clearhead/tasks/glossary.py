"""Terms that a translation must hold: a glossary's, and what must come out as it went in."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from clearhead.data.examples import pairs
from clearhead.errors import ConfigError

PATTERNS: dict[str, re.Pattern[str]] = {
    "urls": re.compile(r"https?://[^\s<>\"']+[^\s<>\"'.,;:!?)\]]"),
    "tags": re.compile(r"</?[A-Za-z][^<>]*>|\{[^{}\s]+\}|%[sd]"),
    "numbers": re.compile(r"(?<![\w.,])\d+(?:[.,:]\d+)*(?![\w])"),
}
"""What each kind looks like; tags are also the placeholders of program texts."""


def required_terms(text: str, glossary: Mapping[str, str], protect: Sequence[str]) -> list[str]:
    """The target terms that the translation of this text must hold."""
    terms = [
        target
        for source, target in glossary.items()
        if re.search(rf"(?<!\w){re.escape(source)}(?!\w)", text)
    ]
    for kind in protect:
        if kind not in PATTERNS:
            raise ConfigError(
                f"protect = {kind} is not known.", f"There are: {', '.join(PATTERNS)}."
            )
        terms += PATTERNS[kind].findall(text)
    return terms


def read_glossary(path: Path) -> dict[str, str]:
    """A glossary from a TSV file: source term, tab, target term."""
    return {pair.source: pair.target for pair in pairs(path, fields=(1, 2))}
