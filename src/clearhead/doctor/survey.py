"""One pass over a corpus that keeps a few bytes for each line, enough to find every fault later."""

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clearhead.data.examples import (
    LABEL_NAMES,
    LINE_ENDS_ELSEWHERE,
    TURN_NAMES,
    Conversation,
    Examples,
    LabelledText,
    Pair,
    Row,
    conversations,
    labelled,
    pairs,
    running_text,
)
from clearhead.data.lines import Lines, Progress, files_in, is_pipe, size_on_disk
from clearhead.data.records import Fields, Format, format_of, records
from clearhead.doctor.alignment import Traits, lines_off
from clearhead.errors import DataError
from clearhead.text.vocabulary import SURROGATE

Kind = Literal["pairs", "labelled", "conversations", "text"]

LINE_END_ELSEWHERE = re.compile(f"[{LINE_ENDS_ELSEWHERE}]")
LINES_TO_GUESS_FROM = 1_000

EAST_ASIAN = dict.fromkeys(
    ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC"), "HAN"
)
"""Scripts that one Japanese sentence mixes count as one."""

TROUBLE = re.compile(f"[{LINE_ENDS_ELSEWHERE}\ud800-\udfff]")
WORD = re.compile(r"\w+")
FEWEST_LETTERS = 5
"""Letters that a line needs before it can be said to be of a script."""
ASCII_LETTERS = re.compile(rf"(?:[A-Za-z][^A-Za-z]*){{{FEWEST_LETTERS}}}")
COUNT_AT_ONCE = 1_000


class Side:
    def __init__(self) -> None:
        self.traits = Traits()
        self.digests = array("q")
        self.scripts = array("B")
        self.words: Counter[str] = Counter()
        self.characters: Counter[str] = Counter()
        self._uncounted: list[str] = []

    def add(self, text: str) -> None:
        self.traits.add(text)
        self.digests.append(hash(" ".join(text.casefold().split())))
        self.scripts.append(script_of(text))
        self._uncounted.append(text)
        if len(self._uncounted) >= COUNT_AT_ONCE:
            self.count()

    def count(self) -> None:
        """Words and characters are counted for many lines at once, which is quicker."""
        text = "\n".join(self._uncounted)
        self.words.update(WORD.findall(text.casefold()))
        self.characters.update(text.replace("\n", ""))
        self._uncounted.clear()


class Survey:
    """What is kept of a corpus: columns as long as it is, which numpy reads without a copy."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.sides = [Side() for _ in range(2 if kind == "pairs" else 1)]
        self.labels: Counter[str] = Counter()
        self.digests = array("q")
        self.lines = array("I")
        self.label_digests = array("q")
        self.broken, self.unpaired = array("B"), array("B")
        self.invalid, self.line_ends = array("B"), array("B")
        """0, or 1 + the side with invalid bytes (as lone surrogates), or with other line ends."""
        self.starts: list[tuple[int, tuple[str, ...]]] = []
        """At which example each file, or each pair of files, begins."""

    def add(self, row: Row[Any]) -> None:
        if not self.starts or self.starts[-1][1] != row.paths:
            self.starts.append((len(self.lines), row.paths))
        sides = ("", "") if row.example is None else texts_of(row.example)
        for side, text in zip(self.sides, sides, strict=False):
            side.add(text)
        if self.kind == "labelled":
            self.label_digests.append(hash(sides[1]))
            self.labels.update(row.example.labels if row.example else ())
        self.lines.append(row.line)
        self.digests.append(hash(sides))
        self.broken.append(row.example is None)
        self.unpaired.append(row.example is not None and row.fault is not None)
        is_trouble = any(map(TROUBLE.search, row.raws))
        self.invalid.append(first_with(SURROGATE, row.raws) if is_trouble else 0)
        self.line_ends.append(first_with(LINE_END_ELSEWHERE, row.raws) if is_trouble else 0)

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def slipped(self) -> NDArray[np.int8]:
        """For each pair by how many lines its target has slipped; 0 where all is well."""
        return lines_off(self.sides[0].traits, self.sides[1].traits)

    def place(self, index: int, side: int = 0) -> tuple[str, int]:
        paths = next(paths for start, paths in reversed(self.starts) if start <= index)
        return paths[min(side, len(paths) - 1)], self.lines[index]


def texts_of(example: Pair | LabelledText | Conversation | str) -> tuple[str, ...]:
    """The sides of an example; several labels are one text, and so is a conversation."""
    match example:
        case str():
            return (example,)
        case Conversation():
            return ("\n".join(example.turns),)
        case LabelledText():
            return (example.text, ",".join(example.labels))
    return example


def first_with(pattern: re.Pattern[str], texts: Sequence[str]) -> int:
    """The number of the first text that holds such a character, counted from 1, or 0."""
    return next((number for number, text in enumerate(texts, 1) if pattern.search(text)), 0)


@cache
def script_of_letter(letter: str) -> str:
    """The script by the first word of a letter's Unicode name; symbols and digits have none."""
    words = unicodedata.name(letter, "").split() if letter.isalpha() else []
    first = next((word for word in words if word not in ("FULLWIDTH", "HALFWIDTH")), "")
    return EAST_ASIAN.get(first, first)


SCRIPTS = (
    "", "LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "HEBREW", "ARABIC", "DEVANAGARI", "BENGALI",
    "GURMUKHI", "GUJARATI", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA", "THAI", "LAO",
    "TIBETAN", "MYANMAR", "GEORGIAN", "HANGUL", "ETHIOPIC", "KHMER", "MONGOLIAN", "HAN",
)  # fmt: skip
"""A line keeps only the number; the first is for too few letters to tell, and for rarer scripts."""


def script_of(text: str) -> int:
    if text.isascii():
        return int(ASCII_LETTERS.search(text) is not None)
    scripts = Counter(filter(None, map(script_of_letter, text)))
    name, count = scripts.most_common(1)[0] if scripts else ("", 0)
    is_clear = count >= FEWEST_LETTERS and 2 * count > scripts.total()
    return SCRIPTS.index(name) if is_clear and name in SCRIPTS else 0


def kind_of(paths: Sequence[str]) -> Kind:
    """Pairs, labelled texts, conversations or running text, as the files look."""
    files = files_in(paths)
    form = format_of(files[0])
    if form == "text":
        n_endings = len({Path(file.removesuffix(".gz")).suffix for file in files})
        return "pairs" if len(files) == 2 or n_endings == 2 else "text"
    if is_pipe(files[0]):
        return "pairs"
    found = records(Lines(files[0], "surrogateescape"), form)
    sample = [raw for _, _, raw in islice(found, LINES_TO_GUESS_FROM)]
    if form == "tsv":
        return "labelled" if has_short_labels(sample) else "pairs"
    first = sample[0] if sample else ""
    if form == "jsonl" and names_fields(first, Fields(TURN_NAMES, (0,)), form):
        return "conversations"
    return "labelled" if names_fields(first, Fields(LABEL_NAMES, (1, 0)), form) else "pairs"


def names_fields(first: str, fields: Fields, form: Format) -> bool:
    """Whether the first record names the fields, as a header or as an object."""
    try:
        _, has_header = fields.layout(form, first)
    except DataError:
        return False
    return has_header or form == "jsonl"


def has_short_labels(sample: Sequence[str]) -> bool:
    """Whether the first of two columns has few different and short entries."""
    cells = [raw.split("\t") for raw in sample if raw.count("\t") == 1]
    is_short = sum(len(label) for label, _ in cells) * 2 < sum(len(text) for _, text in cells)
    return is_short and len({label for label, _ in cells}) * 5 < len(cells)


def corpus_of(paths: Iterable[str], kind: Kind, columns: Sequence[str] = ()) -> Examples[Any]:
    """The examples as training reads them, but invalid bytes stay recoverable."""
    read: dict[Kind, Callable[..., Examples[Any]]] = {
        "pairs": pairs,
        "labelled": labelled,
        "conversations": conversations,
        "text": running_text,
    }
    return read[kind](*paths, columns=columns, errors="surrogateescape")


def survey(examples: Examples[Any], kind: Kind, progress: Progress = lambda *_: None) -> Survey:
    """The pass itself, broken records and all; `progress` hears of bytes."""
    result = Survey(kind)
    size = size_on_disk(examples.paths)
    for row in examples.rows():
        if not row.is_header:
            result.add(row)
        if len(result) % 2_000 == 0:
            progress("reading", sum(lines.bytes_read for lines in examples.sources), size)
    for side in result.sides:
        side.count()
    return result
