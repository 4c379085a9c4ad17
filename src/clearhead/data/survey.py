"""One pass over a corpus that keeps a few bytes for each line: enough for every question the doctor asks afterwards."""

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clearhead.data.alignment import Traits, shifts
from clearhead.data.examples import (
    LABEL_NAMES,
    LINE_ENDS_ELSEWHERE,
    PAIR_NAMES,
    labels_in,
    parallel_files,
    table_format,
    text_in,
)
from clearhead.data.lines import Lines, Notes, files_in, is_pipe, size_on_disk
from clearhead.data.records import SURROGATE, Format, format_of, layout, records
from clearhead.errors import DataError

Kind = Literal["pairs", "labelled", "text"]
Progress = Callable[[int, int], None]

LINE_END_ELSEWHERE = re.compile(f"[{LINE_ENDS_ELSEWHERE}]")
LINES_TO_GUESS_FROM = 1_000

EAST_ASIAN = {
    "CJK": "HAN",
    "HIRAGANA": "HAN",
    "KATAKANA": "HAN",
    "KATAKANA-HIRAGANA": "HAN",
    "IDEOGRAPHIC": "HAN",
}
"""Scripts that one Japanese sentence mixes count as one."""

TROUBLE = re.compile(f"[{LINE_ENDS_ELSEWHERE}\ud800-\udfff]")
WORD = re.compile(r"\w+")
FEWEST_LETTERS = 5
"""Letters that a line needs before it can be said to be of a script."""
ASCII_LETTERS = re.compile(rf"(?:[A-Za-z][^A-Za-z]*){{{FEWEST_LETTERS}}}")
COUNT_AT_ONCE = 1_000


class Row(NamedTuple):
    """One example as doctors see it: where it stands, what stands there, and its sides if they can be read."""

    paths: tuple[str, ...]
    line: int
    raws: tuple[str, ...]
    sides: tuple[str, ...] | None
    role: Literal["example", "header", "unpaired"] = "example"


class Side:
    """What is kept of one side of a corpus."""

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
    """What is kept of a corpus: columns as long as it is, of which numpy makes arrays without a copy."""

    def __init__(self, kind: Kind, n_sides: int) -> None:
        self.kind = kind
        self.sides = [Side() for _ in range(n_sides)]
        self.labels: Counter[str] = Counter()
        self.digests = array("q")
        self.lines = array("I")
        self.label_digests = array("q")
        self.broken, self.unpaired = array("B"), array("B")
        self.invalid, self.line_ends = array("B"), array("B")
        """0, or 1 + the side that holds invalid bytes, kept as lone surrogates, or line ends of other tools."""
        self.starts: list[tuple[int, tuple[str, ...]]] = []
        """At which example each file, or each pair of files, begins."""
        self.notes: dict[str, Notes] = {}

    def add(self, row: Row) -> None:
        if not self.starts or self.starts[-1][1] != row.paths:
            self.starts.append((len(self.lines), row.paths))
        sides = row.sides or ("",) * (2 if self.kind == "labelled" else len(self.sides))
        for side, text in zip(self.sides, sides, strict=False):
            side.add(text)
        if self.kind == "labelled":
            self.label_digests.append(hash(sides[1]))
            self.labels.update(labels_in(sides[1]) if row.sides else ())
        self.lines.append(row.line)
        self.digests.append(hash(sides))
        self.broken.append(row.sides is None)
        self.unpaired.append(row.role == "unpaired")
        is_trouble = any(map(TROUBLE.search, row.raws))
        self.invalid.append(first_with(SURROGATE, row.raws) if is_trouble else 0)
        self.line_ends.append(first_with(LINE_END_ELSEWHERE, row.raws) if is_trouble else 0)

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def slipped(self) -> NDArray[np.int8]:
        """For each example by how many lines its target has slipped; 0 where all is well."""
        lines_off = np.zeros(len(self), dtype=np.int8)
        if self.kind == "pairs":
            for shift in shifts(self.sides[0].traits, self.sides[1].traits):
                lines_off[shift.start : shift.stop] = shift.offset
        return lines_off

    def place(self, index: int, side: int = 0) -> tuple[str, int]:
        """The file and line where an example stands."""
        paths = next(paths for start, paths in reversed(self.starts) if start <= index)
        return paths[min(side, len(paths) - 1)], self.lines[index]


def first_with(pattern: re.Pattern[str], texts: Sequence[str]) -> int:
    """The number of the first text that holds such a character, counted from 1, or 0."""
    return next((number for number, text in enumerate(texts, 1) if pattern.search(text)), 0)


def column(values: "array[Any]", kind: Any) -> NDArray[Any]:
    """An array over the same memory, or an empty one."""
    return np.frombuffer(values, dtype=kind) if len(values) else np.zeros(0, dtype=kind)


@cache
def script_of_letter(letter: str) -> str:
    """The script as the first word of a letter's Unicode name tells it; symbols and digits have none."""
    words = unicodedata.name(letter, "").split() if letter.isalpha() else []
    first = (
        words[1] if words and words[0] in ("FULLWIDTH", "HALFWIDTH") else words[0] if words else ""
    )
    return EAST_ASIAN.get(first, first)


SCRIPTS = (
    "", "LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "HEBREW", "ARABIC", "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI",
    "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA", "THAI", "LAO", "TIBETAN", "MYANMAR", "GEORGIAN", "HANGUL",
    "ETHIOPIC", "KHMER", "MONGOLIAN", "HAN",
)  # fmt: skip
"""A line keeps only the number; the empty one is for lines with too few letters to tell, and for rarer scripts."""


def script_of(text: str) -> int:
    """The script of most letters of a line."""
    if text.isascii():
        return int(ASCII_LETTERS.search(text) is not None)
    scripts = Counter(filter(None, map(script_of_letter, text)))
    name, count = scripts.most_common(1)[0] if scripts else ("", 0)
    is_clear = count >= FEWEST_LETTERS and 2 * count > scripts.total()
    return SCRIPTS.index(name) if is_clear and name in SCRIPTS else 0


def kind_of(paths: Sequence[str]) -> Kind:
    """Pairs, labelled texts or running text, as the files look."""
    files = [file for path in paths for file in files_in(path)]
    form = format_of(files[0])
    if form == "text":
        n_endings = len({Path(file.removesuffix(".gz")).suffix for file in files})
        return "pairs" if len(files) == 2 or n_endings == 2 else "text"
    if is_pipe(files[0]):
        return "pairs"
    sample = [
        record.raw
        for record in islice(records(Lines(files[0], "surrogateescape"), form), LINES_TO_GUESS_FROM)
    ]
    return "labelled" if looks_labelled(form, sample) else "pairs"


def looks_labelled(form: Format, sample: Sequence[str]) -> bool:
    """By the names of the fields, or by a first column of few different and short entries."""
    if not sample:
        return False
    if form == "tsv":
        cells = [raw.split("\t") for raw in sample if raw.count("\t") == 1]
        is_short = sum(len(label) for label, _ in cells) * 2 < sum(len(text) for _, text in cells)
        return is_short and len({label for label, _ in cells}) * 5 < len(cells)
    try:
        return layout(form, sample[0], LABEL_NAMES, None, (1, 0)).has_header or form == "jsonl"
    except DataError:
        return False


def survey(paths: Sequence[str], kind: Kind, progress: Progress | None = None) -> Survey:
    """The pass itself; `progress` hears of bytes done and bytes in all."""
    sources = open_sources(paths, kind)
    result = Survey(kind, 2 if kind == "pairs" else 1)
    size = size_on_disk(path for lines in sources for path in lines.paths)
    for row in rows(sources, kind):
        if row.role != "header":
            result.add(row)
        if progress and len(result) % 2_000 == 0:
            progress(sum(lines.bytes_read for lines in sources), size)
    for side in result.sides:
        side.count()
    result.notes = {path: note for lines in sources for path, note in lines.notes.items()}
    return result


def open_sources(paths: Sequence[str], kind: Kind) -> list[Lines]:
    """The files to read, source before target where two go together; invalid bytes stay recoverable."""
    sides = parallel_files(paths) if kind == "pairs" else None
    files = chain.from_iterable(sides) if sides else chain.from_iterable(map(files_in, paths))
    return [Lines(file, errors="surrogateescape") for file in files]


def rows(sources: Sequence[Lines], kind: Kind) -> Iterator[Row]:
    """Every example with its place, broken ones too: a doctor does not give up at the first wound."""
    if kind == "text":
        blocks = (block for lines in sources for block in lines.blocks())
        return (
            Row((b.path,), n, (text,), (text,))
            for b in blocks
            for n, text in enumerate(b.lines, b.first)
        )
    if kind == "pairs" and all(format_of(lines.paths[0]) == "text" for lines in sources):
        return chain.from_iterable(map(parallel_rows, sources[::2], sources[1::2]))
    return chain.from_iterable(table_rows(lines, kind) for lines in sources)


def parallel_rows(source: Lines, target: Lines) -> Iterator[Row]:
    paths = (source.paths[0], target.paths[0])
    for number, (a, b) in enumerate(zip_longest(source, target), 1):
        texts = (a or "", b or "")
        yield Row(paths, number, texts, texts, "unpaired" if a is None or b is None else "example")


def table_rows(lines: Lines, kind: Kind) -> Iterator[Row]:
    form, parse = table_format(lines.paths[0]), None
    known, order = (LABEL_NAMES, (1, 0)) if kind == "labelled" else (PAIR_NAMES, (0, 1))
    second: Callable[[Any], str] = (
        text_in if kind == "pairs" else lambda value: ",".join(labels_in(value))
    )
    for record in records(lines, form):
        sides = None
        try:
            if parse is None:
                parse, is_header = layout(form, record.raw, known, None, order)
                if is_header:
                    yield Row((record.path,), record.line, (record.raw,), None, "header")
                    continue
            cells = parse(record.raw)
            sides = (text_in(cells[0]), second(cells[1]))
        except DataError as error:
            if parse is None:
                raise error.at(f"{record.path}:{record.line}") from None
        yield Row((record.path,), record.line, (record.raw,), sides)
