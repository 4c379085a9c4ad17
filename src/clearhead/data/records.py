"""Tables as records: TSV, CSV and JSONL, each record with the place where it stands.

TSV has no quotes: a tab always parts two columns. CSV follows RFC 4180, so a quoted field may hold
commas, quotes and newlines. JSONL is one object per line. Every record has the same number of
columns, or it is an error. A first line with known names, or with those of two languages, is a
header.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from clearhead.config import whole_number
from clearhead.data.lines import STDIN, Lines, is_pipe
from clearhead.errors import DataError, shown
from clearhead.text.languages import COLUMN_NAMES
from clearhead.text.vocabulary import SURROGATE

Format = Literal["text", "tsv", "csv", "jsonl"]
Parser = Callable[[str], Sequence[Any]]

ENDINGS: dict[str, Format] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
LINES_TO_GUESS_FROM = 20
ATTRIBUTION = re.compile(r"CC[- ]BY|Attribution|tatoeba\.org", re.IGNORECASE)
"""What stands in the third column of pairs as Tatoeba's are passed on: who wrote them."""
LONGEST_CSV_RECORD = 10_000
"""Lines; beyond that a quote was surely left open, and the rest of the file would be one field."""


RawRecord = tuple[str, int, str]
"""A file, a line, and one example as it stands there, before anybody looks into it."""


def format_of(path: str) -> Format:
    """What the ending says, or else what the first lines look like."""
    ending = Path(path.removesuffix(".gz")).suffix.lower()
    if ending in ENDINGS:
        return ENDINGS[ending]
    if is_pipe(path):
        return "tsv" if path == STDIN else "text"
    head = list(islice(Lines(path, errors="replace"), LINES_TO_GUESS_FROM))
    if head and head[0].startswith("{") and head[0].endswith("}"):
        return "jsonl"
    tabs = {line.count("\t") for line in head}
    return "tsv" if len(tabs) == 1 and tabs != {0} else "text"


def records(lines: Lines, form: Format) -> Iterator[RawRecord]:
    """All records of the files; only in CSV can one be longer than a line."""
    if form == "csv":
        return csv_records(lines)
    return (
        (b.path, number, line)
        for b in lines.blocks()
        for number, line in enumerate(b.lines, b.first)
    )


def csv_records(lines: Lines) -> Iterator[RawRecord]:
    """Lines joined until their quotes are even, which by RFC 4180 is where a record ends."""
    held: list[str] = []
    path, first, is_open = "", 0, False
    for file, number, line in records(lines, "text"):
        if is_open and (file != path or len(held) > LONGEST_CSV_RECORD):
            raise open_quote(path, first)
        if not is_open:
            path, first, held = file, number, []
        held.append(line)
        is_open ^= line.count('"') % 2 == 1
        if not is_open:
            yield path, first, "\n".join(held)
    if is_open:
        raise open_quote(path, first)


def open_quote(path: str, line: int) -> DataError:
    return DataError(
        f'{path}:{line}: a quote (") is opened and never closed.',
        'Write a quote inside a field twice: "".',
    )


@dataclass(frozen=True)
class Fields:
    """Which fields of a record make an example: those that are asked for, or found by their names."""

    known: Sequence[tuple[str, ...]]
    """Sets of names, each of which tells what its fields are for, in the order of an example."""
    order: Sequence[int]
    """Where the fields of an example stand in a table without names."""
    asked: Sequence[str] = ()
    """Columns by number, counted from 1, or by name, in the order of an example."""

    def layout(self, form: Format, first: str) -> tuple[Parser, bool]:
        """How to read a file whose first record is `first`, and whether that is a header."""
        if form == "jsonl":
            return partial(json_values, self.json_names(json_object(first))), False
        split = SPLITTERS[form]
        cells = split(first)
        names = [cell.strip().lower() for cell in cells]
        if self.asked_names:
            header = places_of([self.asked_names], names)
            if header is None:
                raise DataError(
                    f"no column is called {shown(self.asked_names[0])}: "
                    f"the first line is {shown(first)}",
                    "Name columns of the first line, or give their numbers: --columns 1 2",
                )
        else:
            header = places_of(self.known, names) or languages(names, self.order)
        numbers = self.numbers(len(cells)) or header or self.places(cells)
        if numbers is None:
            raise DataError(
                f"expected {len(self.order)} columns, found {len(cells)}: {shown(first)}",
                "Say which to read, for example: --columns 1 2",
            )
        return partial(cells_in, split, numbers, len(cells)), header is not None

    @property
    def asked_names(self) -> tuple[str, ...]:
        is_name = [whole_number(each) is None for each in self.asked]
        return tuple(map(str.lower, self.asked)) if any(is_name) else ()

    def numbers(self, n_cells: int) -> list[int] | None:
        """The columns asked for by number."""
        if self.asked_names or not self.asked:
            return None
        numbers = [(whole_number(each) or 0) - 1 for each in self.asked]
        if len(numbers) != len(self.order) or not all(0 <= n < n_cells for n in numbers):
            raise DataError(
                f"columns {', '.join(self.asked)} cannot be taken out of {n_cells} columns.",
                f"Give {len(self.order)} numbers from 1 to {n_cells}.",
            )
        return numbers

    def places(self, cells: Sequence[str]) -> list[int] | None:
        """Where the fields stand in a table without names, also in those that Tatoeba offers."""
        if len(cells) == len(self.order):
            return list(self.order)
        if len(self.order) == 2 and len(cells) == 3 and ATTRIBUTION.search(cells[2]):
            return [0, 1]
        are_numbered = len(cells) == 4 and cells[0].isdecimal() and cells[2].isdecimal()
        return [1, 3] if len(self.order) == 2 and are_numbered else None

    def json_names(self, entry: Mapping[str, Any]) -> list[str]:
        """Names asked for or known, or else the only texts there are: {"en": …, "de": …}."""
        lowered = {name.lower(): name for name in entry}
        for wanted in (tuple(map(str.lower, self.asked)),) if self.asked else self.known:
            if set(wanted) <= lowered.keys():
                return [lowered[name] for name in wanted]
        texts = [name for name, value in entry.items() if isinstance(value, str) and name != "id"]
        if len(texts) == len(self.known[0]) > 1 and not self.asked:
            return texts
        examples = " or ".join("/".join(wanted) for wanted in self.known[:3])
        raise DataError(
            f"which fields are meant? Found {shown(', '.join(entry))}.",
            f"Call them {examples}, or say which to read: --columns NAMES",
        )


def places_of(known: Sequence[tuple[str, ...]], names: Sequence[str]) -> list[int] | None:
    """Where the first set of known names stands that is complete."""
    return next(
        (
            [names.index(name) for name in wanted]
            for wanted in known
            if wanted and set(wanted) <= set(names)
        ),
        None,
    )


def languages(names: Sequence[str], order: Sequence[int]) -> list[int] | None:
    """Where the names of two languages stand in what may be the header of a table of pairs."""
    found = [place for place, name in enumerate(names) if name in COLUMN_NAMES]
    is_header = tuple(order) == (0, 1) and len(found) == len({names[place] for place in found}) == 2
    return found if is_header else None


def split_csv(raw: str) -> list[str]:
    """The fields of a record. The limit of the csv module is shorter than some documents."""
    if len(raw) > csv.field_size_limit():
        csv.field_size_limit(len(raw))
    try:
        return next(csv.reader([raw], strict=True), [""])
    except csv.Error as error:
        raise DataError(
            f"not CSV: {error}: {shown(raw)}", "Quote fields that hold commas, quotes or newlines."
        ) from None


SPLITTERS: dict[Format, Callable[[str], list[str]]] = {
    "tsv": lambda raw: raw.split("\t"),
    "csv": split_csv,
}


def cells_in(
    split: Callable[[str], list[str]], columns: Sequence[int], width: int, raw: str
) -> list[str]:
    """Some columns of a record, which must have exactly `width` of them."""
    cells = split(raw)
    if len(cells) != width:
        raise DataError(
            f"expected {width} columns, found {len(cells)}: {shown(raw)}",
            "Correct the line, or have `clearhead doctor --fix` leave it out.",
        )
    return [cells[column] for column in columns]


def json_values(names: Sequence[str], raw: str) -> list[Any]:
    """The fields of these names in an object."""
    entry = json_object(raw)
    missing = [name for name in names if name not in entry]
    if missing:
        raise DataError(
            f"no field {shown(missing[0])}; found {shown(', '.join(entry))}.",
            f"Every line needs {', '.join(names)}.",
        )
    return [entry[name] for name in names]


def json_object(raw: str) -> dict[str, Any]:
    """One line's object; half a surrogate pair can be written in JSON but is no text."""
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"not JSON: {error}: {shown(raw)}", "Every line must hold one whole object."
        ) from None
    if not isinstance(entry, dict):
        raise DataError(
            f"not a JSON object: {shown(raw)}",
            "Every line must hold one object with named fields.",
        )
    if "\\ud" in raw.lower() and SURROGATE.search(json.dumps(entry, ensure_ascii=False)):
        raise DataError(
            f"half a surrogate pair, which is no character: {shown(raw)}",
            "Correct the line or leave it out.",
        )
    inner = entry.get("translation")
    return inner if isinstance(inner, dict) else entry
