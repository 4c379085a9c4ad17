"""Files as examples: pairs, labelled texts, conversations or running text.

Each function answers with a source that can be read as often as needed and holds nothing in memory.
The format is told by the file's ending, then by its content; fields are found by their usual names
or by their place.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from clearhead.data.lines import Errors, Lines, Notes, files_in, is_pipe
from clearhead.data.records import Fields, format_of, records
from clearhead.errors import DataError, shown

E = TypeVar("E")
F = TypeVar("F")

PAIR_NAMES = (
    ("source", "target"),
    ("src", "tgt"),
    ("question", "answer"),
    ("prompt", "response"),
    ("prompt", "completion"),
    ("instruction", "output"),
    ("input", "output"),
    ("statement", "reply"),
)
LABEL_NAMES = (
    ("text", "label"),
    ("text", "labels"),
    ("sentence", "label"),
    ("text", "category"),
    ("text", "intent"),
    ("text", "class"),
    ("text", "emotion"),
    ("review", "sentiment"),
    ("utterance", "intent"),
    ("question", "label"),
)
TURN_NAMES = (
    ("turns",),
    ("messages",),
    ("dialog",),
    ("dialogue",),
    ("conversation",),
    ("conversations",),
)
TEXT_NAMES = (("text",), ("content",), ("body",))
SAID_NAMES = ("content", "text", "value", "utterance")

LINE_ENDS_ELSEWHERE = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""Characters that some tools take for the end of a line; here they are data."""


class Pair(NamedTuple):
    """A text and what it should become."""

    source: str
    target: str


class LabelledText(NamedTuple):
    """A text and its label, or several."""

    text: str
    labels: tuple[str, ...]


class Conversation(NamedTuple):
    """What was said in turn; who begins speaks every other time."""

    turns: tuple[str, ...]


class Row(NamedTuple, Generic[E]):
    """One example and where it stands, for training and for the doctor alike.

    A header has neither an example nor a fault, and a broken record has a fault only.
    """

    paths: tuple[str, ...]
    line: int
    raws: tuple[str, ...]
    example: E | None = None
    fault: Callable[[], DataError] | None = None
    """Made when asked for: to tell in what two files differ takes another pass."""

    @property
    def is_header(self) -> bool:
        return self.example is None and self.fault is None


@dataclass(frozen=True)
class Examples(Generic[E]):
    """Examples from files, to be read again and again; a pass that finds none is an error."""

    sources: Sequence[Lines]
    rows: Callable[[], Iterator[Row[E]]]
    """A pass over all rows, which does not stop at faults."""

    def __iter__(self) -> Iterator[E]:
        empty = True
        for row in self.rows():
            if row.fault is not None:
                raise row.fault()
            if row.example is not None:
                empty = False
                yield row.example
        if empty:
            raise DataError(
                f"{shown(', '.join(self.paths))}: no examples, nothing is in there.",
                "Give a file with text.",
            )

    def in_parts(self, parts: Callable[[E], Iterable[F]]) -> "Examples[F]":
        """Other examples, of which each of these gives any number."""

        def rows() -> Iterator[Row[F]]:
            for paths, line, raws, example, fault in self.rows():
                if example is None or fault is not None:
                    yield Row(paths, line, raws, fault=fault)
                else:
                    yield from (Row(paths, line, raws, part) for part in parts(example))

        return Examples(self.sources, rows)

    @property
    def paths(self) -> list[str]:
        return [path for lines in self.sources for path in lines.paths]

    @property
    def notes(self) -> dict[str, Notes]:
        """By file, what was quietly put right in the last pass."""
        return {path: note for lines in self.sources for path, note in lines.notes.items()}


def pairs(
    *paths: str | Path, columns: Sequence[str] = (), errors: Errors = "strict"
) -> Examples[Pair]:
    """Pairs from parallel files, two or more by their endings, or from tables with two fields.

    Here and below, `columns` says which columns or fields of tables to read, by name or number.
    """
    sides = parallel_files(paths)
    if sides is None:
        return from_tables(
            paths,
            lambda cells: Pair(*map(text_in, cells)),
            fields=Fields(PAIR_NAMES, (0, 1), columns),
            errors=errors,
        )
    both = [(Lines(source, errors), Lines(target, errors)) for source, target in sides]
    return Examples(
        list(chain.from_iterable(both)),
        lambda: chain.from_iterable(parallel(a, b) for a, b in both),
    )


def labelled(
    *paths: str | Path, columns: Sequence[str] = (), errors: Errors = "strict"
) -> Examples[LabelledText]:
    """Texts with labels from tables: TSV is label, tab, text; commas without spaces part labels."""
    return from_tables(
        paths,
        lambda cells: LabelledText(text_in(cells[0]), labels_in(cells[1])),
        fields=Fields(LABEL_NAMES, (1, 0), columns),
        errors=errors,
    )


def conversations(
    *paths: str | Path, columns: Sequence[str] = (), errors: Errors = "strict"
) -> Examples[Conversation]:
    """Conversations from JSONL with a list of turns, or from pairs of question and answer."""
    files = files_in(paths)
    if files and all(format_of(file) == "jsonl" for file in files):
        return from_tables(
            files,
            lambda cells: Conversation(turns_in(cells)),
            fields=Fields((*TURN_NAMES, *PAIR_NAMES), (0,), columns),
            errors=errors,
        )
    return pairs(*files, columns=columns, errors=errors).in_parts(
        lambda pair: [Conversation(tuple(pair))]
    )


def running_text(
    *paths: str | Path, columns: Sequence[str] = (), errors: Errors = "strict"
) -> Examples[str]:
    """The lines of plain files as they stand, empty ones too, or one field of JSONL and CSV."""
    files = files_in(paths)
    tables = [f for f in files if f.removesuffix(".gz").endswith((".jsonl", ".ndjson", ".csv"))]
    if tables and tables == files:
        return from_tables(
            files,
            lambda cells: text_in(cells[0]),
            fields=Fields(TEXT_NAMES, (0,), columns),
            errors=errors,
        )
    if tables:
        raise mixed_files(files)
    lines = Lines(files, errors)
    return Examples(
        [lines], lambda: (Row((path,), n, (raw,), raw) for path, n, raw in records(lines, "text"))
    )


def from_tables(
    paths: Iterable[str | Path],
    make: Callable[[Sequence[Any]], E],
    *,
    fields: Fields,
    errors: Errors,
) -> Examples[E]:
    """Examples from files of records; each file may have its own format and header."""
    files = [Lines(file, errors) for file in files_in(paths)]

    def rows(lines: Lines) -> Iterator[Row[E]]:
        found, parse = format_of(lines.paths[0]), None
        form = "tsv" if found == "text" else found  # whose error names the line
        for path, number, raw in records(lines, form):
            row: Row[E] = Row((path,), number, (raw,))
            try:
                if parse is None:
                    parse, is_header = fields.layout(form, raw)
                    if is_header:
                        yield row
                        continue
                yield row._replace(example=make(parse(raw)))
            except DataError as error:
                placed = partial(error.at, f"{path}:{number}")
                if parse is None:
                    raise placed() from None
                yield row._replace(fault=placed)

    return Examples(files, lambda: chain.from_iterable(map(rows, files)))


def text_in(value: object) -> str:
    if isinstance(value, str):
        return value
    raise DataError(
        f"a text was expected, found {shown(value)}.", "Put it in quotes, or name another field."
    )


def labels_in(value: object) -> tuple[str, ...]:
    """One label, or several: a list, or names joined by commas that no space follows."""
    if isinstance(value, list):
        return tuple(label for part in value for label in labels_in(part))
    if isinstance(value, str) and "," in value and ", " not in value:
        return tuple(part for part in value.split(",") if part)
    if isinstance(value, str | int | float):
        return (str(value),)
    raise DataError(
        f"a label was expected, found {shown(value)}.", "Give a word, a number or a list of them."
    )


def turns_in(cells: Sequence[Any]) -> tuple[str, ...]:
    """Turns as texts, or as messages with a role; a system message goes before the first."""
    if len(cells) > 1:
        return tuple(map(text_in, cells))
    if not isinstance(cells[0], list):
        raise DataError(
            f"a list of turns was expected, found {shown(cells[0])}.",
            "Give a list of texts or messages.",
        )
    told = [turn_text(turn) for turn in cells[0] if is_system(turn)]
    turns = [turn_text(turn) for turn in cells[0] if not is_system(turn)]
    return ("\n".join([*told, *turns[:1]]), *turns[1:]) if told else tuple(turns)


def is_system(turn: object) -> bool:
    return isinstance(turn, dict) and "system" in (turn.get("role"), turn.get("from"))


def turn_text(turn: object) -> str:
    if not isinstance(turn, dict):
        return text_in(turn)
    name = next((name for name in SAID_NAMES if name in turn), None)
    if name is None:
        raise DataError(
            f"a turn without text: {shown(turn)}",
            f"Its text should be called {' or '.join(SAID_NAMES)}.",
        )
    return text_in(turn[name])


def parallel_files(paths: Iterable[str | Path]) -> list[tuple[str, str]] | None:
    """Which plain files go together as source and target, or None when they are tables.

    Two files go by position; more by their endings (a.en b.en a.de b.de), of which the first file's
    is the source.
    """
    files = files_in(paths)
    plain = [file for file in files if format_of(file) == "text"]
    if not plain:
        return None
    if len(plain) < len(files):
        raise mixed_files(files)
    if len(files) == 2:
        return [(files[0], files[1])]
    sides: dict[str, list[str]] = {}
    for file in files:
        sides.setdefault(Path(file.removesuffix(".gz")).suffix, []).append(file)
    if len(sides) == 2 and len({len(side) for side in sides.values()}) == 1:
        source, target = sides.values()
        return list(zip(source, target, strict=True))
    raise DataError(
        f"Pairs need two parallel files or a table, found {len(files)}: {shown(', '.join(files))}.",
        "Give source and target, such as train.en train.de, or one .tsv, .csv or .jsonl with both.",
    )


def mixed_files(files: Sequence[str]) -> DataError:
    kinds = ", ".join(f"{Path(file).name} ({format_of(file)})" for file in files)
    return DataError(
        f"Plain text and tables cannot be mixed: {shown(kinds)}.", "Give files of one kind."
    )


def parallel(source: Lines, target: Lines) -> Iterator[Row[Pair]]:
    """Line by line from two files; a line without a partner is a fault."""
    paths = (source.paths[0], target.paths[0])
    lines = zip_longest(source, target)
    for number, (a, b) in enumerate(lines, 1):
        pair = Pair(a or "", b or "")
        fault = None
        if a is None or b is None:
            fault = partial(
                unequal, (source, target), number - 1, longer=int(a is None), rest=lines
            )
        yield Row(paths, number, raws=pair, example=pair, fault=fault)


def unequal(
    sides: tuple[Lines, Lines], n_pairs: int, *, longer: int, rest: Iterator[object]
) -> DataError:
    """Both counts, and what can be told about where the files part company."""
    names = [lines.paths[0] for lines in sides]
    counts = [n_pairs, n_pairs]
    counts[longer] += 1 + sum(1 for _ in rest)
    hints = [] if any(map(is_pipe, names)) else map(line_ends_elsewhere, sides)
    return DataError(
        f"{names[0]} has {counts[0]:,} lines and {names[1]} {counts[1]:,}: they are not parallel."
        + "".join(f" {hint}" for hint in hints if hint),
        "Lines end at \\n only; make both files again from one table. "
        "`clearhead doctor` tells at which line they begin to slip.",
    )


def line_ends_elsewhere(lines: Lines) -> str:
    """A hint when a file holds characters at which another tool may have cut it."""
    n_found = sum(line.count(mark) for line in lines for mark in LINE_ENDS_ELSEWHERE)
    names = "CR, U+2028 or the like, which other tools take for line ends"
    return f"{lines.paths[0]} holds {n_found:,} characters ({names})." if n_found else ""
