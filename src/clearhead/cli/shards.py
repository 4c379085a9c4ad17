"""A corpus in parts, for verbs that answer line by line: one shard of it, Ray, or all joined."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clearhead.cli import options
from clearhead.errors import ConfigError, DataError, shown

if TYPE_CHECKING:
    from clearhead.scale import Answer, Chunk


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A corpus answered in parts: where they go, which of them, and where they are made."""

    into: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write parts, which survive an interruption."),
    ] = None
    shard: Annotated[
        str, typer.Option(metavar="K/N", help="With --into: every N-th part, from the K-th.")
    ] = "1/1"
    join: Annotated[
        bool, typer.Option("--join", help="With --into: put the parts of all shards together.")
    ] = False
    on: Annotated[
        Literal["here", "ray"],
        typer.Option(help="With --into: in this process, or on a Ray cluster."),
    ] = "here"
    address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="With --on ray: the cluster; else one made here.")
    ] = ""
    column: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="With --into: the column of texts, if FILES are JSONL or Parquet."
        ),
    ] = ""


@dataclass(frozen=True, kw_only=True)
class ShardedFiles:
    """Files whose lines are answered in parts, and how."""

    parts: Parts
    files: Sequence[str]
    errors: Literal["strict", "replace"]
    runs: Sequence[str]
    checkpoint: str
    options: dict[str, Any]
    """All that decides the answers besides the runs."""
    load: "Callable[[], Answer]"
    quiet: bool = False

    @property
    def into(self) -> Path:
        assert self.parts.into is not None, "without a folder nothing is answered in parts"
        return self.parts.into

    def made_with(self) -> dict[str, str]:
        from clearhead import __version__
        from clearhead.folder import RunFolder

        digests = [RunFolder.open(run).digest(self.checkpoint) for run in self.runs]
        deciding = {**self.options, "errors": self.errors, "column": self.parts.column}
        told = {name: json.dumps(value, default=str) for name, value in deciding.items()}
        return {"clearhead": __version__, "runs": " ".join(digests), **told}

    def answer_or_join(self, output: Path | None = None) -> None:
        if self.parts.join:
            self.join(output)
        else:
            self.answer()

    def answer(self) -> None:
        """Answer what is missing of the shard, and tell how much that was."""
        from clearhead.scale import Shard, answer_here, answer_on_ray, chunks_of

        if not self.files:
            raise DataError("There are no files to read.", "Name them with --input.")
        shard, n_parts, n_lines = Shard(self.into, *numbers(self.parts.shard)), 0, 0
        with shard.opened(self.made_with()):
            missing = shard.missing(chunks_of(self.files, self.parts.column))
            if self.parts.on == "ray":
                found = answer_on_ray(missing, self.load, self.read, address=self.parts.address)
            else:
                found = answer_here(missing, self.load, self.read)
            with options.busy(f"shard {self.parts.shard}"):
                for chunk, lines in found:
                    shard.save(chunk, lines)
                    n_parts, n_lines = n_parts + 1, n_lines + len(chunk.lines)
            shard.close()
        done = f"{n_parts:,} parts ({n_lines:,} lines) answered"
        there = f"{len(shard.parts) - n_parts:,} were there already"
        options.tell("" if self.quiet else f"shard {self.parts.shard}: {done}, {there}")

    def read(self, chunk: "Chunk") -> list[str]:
        return chunk.read(self.errors, self.parts.column)

    def join(self, output: Path | None) -> None:
        """Write what all shards answered to a file, or to stdout."""
        from clearhead.disk import output_file
        from clearhead.scale import join

        parts = join(self.into, self.made_with())
        if output is None:
            sys.stdout.buffer.writelines(parts)
            sys.stdout.buffer.flush()
            return
        with output_file(output) as file:
            for part in parts:
                file.write(part)


def numbers(shard: str) -> tuple[int, int]:
    """The number of a shard and how many there are: "3/100"."""
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", shard)
    number, of = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= of:
        raise ConfigError(
            f"--shard {shown(shard)} is no part of a whole.",
            "Write K/N, K from 1 to N: --shard 3/100",
        )
    return number, of
