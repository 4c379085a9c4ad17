"""Files cut into chunks: lines of text, or of tables (JSONL, Parquet) with a column of texts.

A row of Parquet becomes a line of JSON, so that a chunk is always some lines, and what is wrong
with one of them is found by the shard that answers it and by no other.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clearhead.data.examples import text_in
from clearhead.data.lines import LineBlock, Lines, invalid_utf8, is_pipe
from clearhead.data.records import json_values
from clearhead.data.store import AT_ONCE
from clearhead.errors import ConfigError, DataError, shown

PARQUET_MAGIC = b"PAR1"


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some consecutive lines of the corpus, which are answered together."""

    number: int
    first: int
    """How many lines come before it, in all files."""
    path: str
    line: int
    """The number of its first line (or row) in its file, from 1."""
    lines: list[str]
    """Bytes that are not UTF-8 are kept as lone surrogates."""

    @property
    def sha256(self) -> str:
        text = "\n".join(self.lines)
        return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()

    def read(self, errors: Literal["strict", "replace"], column: str = "") -> list[str]:
        """Its lines, or their texts in a column; bytes not UTF-8 are an error or become �."""
        data = "\n".join(self.lines).encode(errors="surrogateescape")
        try:
            data.decode()
        except UnicodeDecodeError as error:
            if errors == "strict":
                raise invalid_utf8(data, error.start, self.path, self.line) from None
        lines = data.decode(errors="replace").split("\n")
        return list(self.texts(lines, column)) if column else lines

    def texts(self, lines: Iterable[str], column: str) -> Iterator[str]:
        for number, line in enumerate(lines, self.line):
            try:
                yield text_in(*json_values([column], line))
            except DataError as error:
                raise error.at(f"{self.path}:{number}") from None


def chunks_of(files: Sequence[str], column: str = "") -> Iterator[Chunk]:
    """The lines of files, cut as in a single process; errors in them are raised by `Chunk.read`."""
    paths = Lines(files).paths
    if any(map(is_pipe, paths)):
        raise DataError(
            "Shards cannot be read from stdin or a pipe: every shard reads all of it.",
            "Give files with --input.",
        )
    number = first = 0
    for path in paths:
        for block in blocks_of(path, column):
            yield Chunk(number=number, first=first, path=path, line=block.first, lines=block.lines)
            number, first = number + 1, first + len(block.lines)


def blocks_of(path: str, column: str) -> Iterator[LineBlock]:
    with Path(path).open("rb") as file:
        is_parquet = file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    if not is_parquet:
        return Lines(path, "surrogateescape").chunks(AT_ONCE)
    if not column:
        raise DataError(f"{path} is a Parquet file.", "Name its column of texts with --column.")
    return parquet_rows(path, column)


def parquet_rows(path: str, column: str) -> Iterator[LineBlock]:
    """The rows of a Parquet file as lines of JSON, with one column alone."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise ConfigError(
            "pyarrow, which reads Parquet, is not installed.",
            "It comes with Ray: pip install 'clearhead[ray]'",
        ) from None
    number = 1
    try:
        with ParquetFile(path) as file:
            types = {field.name: str(field.type) for field in file.schema_arrow}
            if "string" not in types.get(column, ""):
                raise DataError(
                    f"{path} has no column of texts {shown(column)}; found {shown(str(types))}.",
                    "Name another with --column.",
                )
            for batch in file.iter_batches(AT_ONCE, columns=[column]):
                texts = batch.column(0).to_pylist()
                yield LineBlock(path, number, [json.dumps({column: text}) for text in texts])
                number += len(texts)
    except (ArrowException, OSError) as error:
        raise DataError(
            f"{path}:{number}: damaged Parquet: {error}.", "Copy or download it again."
        ) from None
