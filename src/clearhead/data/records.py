"""Tables as records: TSV, CSV and JSONL, each record with the place where it stands.

TSV has no quotes: a tab always parts two columns. CSV follows RFC 4180, so a quoted field may hold
commas, quotes and newlines. JSONL is one object per line. Every record has the same number of
columns, or it is an error.
"""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from clearhead.data.lines import STDIN, Lines, is_pipe
from clearhead.errors import DataError, shown
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
    for block in lines.blocks():
        for number, line in enumerate(block.lines, block.first):
            if is_open and (block.path != path or len(held) > LONGEST_CSV_RECORD):
                raise open_quote(path, first)
            if not is_open:
                path, first, held = block.path, number, []
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


def layout(
    form: Format, first: str, known: Sequence[tuple[str, ...]], order: Sequence[int]
) -> tuple[Parser, bool]:
    """How to read a file whose first record is `first`, and whether that is a header.

    Fields are found by names that are `known`; without names in sight a table has one column for
    each field, in `order`. A CSV whose first record holds known names has a header; a TSV has none:
    its first line may well be an example.
    """
    if form == "jsonl":
        return json_parser(first, known), False
    split = SPLITTERS[form]
    cells = split(first)
    header = match(known, [cell.strip().lower() for cell in cells]) if form == "csv" else None
    columns, width = (header, len(cells)) if header else (list(order), len(order))
    return cell_parser(split, columns, width), header is not None


def match(known: Sequence[tuple[str, ...]], names: Sequence[str]) -> list[int] | None:
    """Where the first set of known names stands that is complete."""
    return next(
        ([names.index(name) for name in wanted] for wanted in known if set(wanted) <= set(names)),
        None,
    )


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


def cell_parser(split: Callable[[str], list[str]], columns: Sequence[int], width: int) -> Parser:
    """Takes the columns out of a record that has exactly `width` of them."""

    def parse(raw: str) -> list[str]:
        cells = split(raw)
        if len(cells) != width:
            raise DataError(
                f"expected {width} columns, found {len(cells)}: {shown(raw)}",
                "Mend the line, or have `clearhead doctor --fix` leave it out.",
            )
        return [cells[column] for column in columns]

    return parse


def json_parser(first: str, known: Sequence[tuple[str, ...]]) -> Parser:
    """Takes the fields out of an object; those of the first one decide which are meant."""
    names = json_names(json_object(first), known)

    def parse(raw: str) -> list[Any]:
        entry = json_object(raw)
        missing = [name for name in names if name not in entry]
        if missing:
            raise DataError(
                f"no field {shown(missing[0])}; found {shown(', '.join(entry))}.",
                f"Every line needs {', '.join(names)}.",
            )
        return [entry[name] for name in names]

    return parse


def json_names(entry: dict[str, Any], known: Sequence[tuple[str, ...]]) -> list[str]:
    """Known names, or else the only texts that there are, such as {"en": …, "de": …}."""
    lowered = {name.lower(): name for name in entry}
    for wanted in known:
        if set(wanted) <= lowered.keys():
            return [lowered[name] for name in wanted]
    texts = [name for name, value in entry.items() if isinstance(value, str) and name != "id"]
    if len(texts) == len(known[0]) and len(texts) > 1:
        return texts
    examples = " or ".join("/".join(wanted) for wanted in known[:3])
    raise DataError(
        f"which fields are meant? Found {shown(', '.join(entry))}.",
        f"Call them {examples}.",
    )


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
            "Mend or leave out the line.",
        )
    inner = entry.get("translation")
    return inner if isinstance(inner, dict) else entry
