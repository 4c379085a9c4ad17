"""Lines in, lines out: what `translate`, `classify` and `embed` read, and how their answers are written.

A large corpus is answered in parts: one shard of it in each process, or all of it on Ray.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import clearhead
from clearhead.cli import options
from clearhead.data.lines import Lines
from clearhead.disk import output_file
from clearhead.errors import ConfigError, DataError, shown

if TYPE_CHECKING:
    from clearhead.scale import Answer

Text = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", help="One text; without it, lines of --input or of stdin."),
]


@dataclass(frozen=True, kw_only=True)
class LineOptions:
    """Which lines to answer, and with which weights."""

    input: Annotated[
        list[str] | None,
        typer.Option(metavar="FILES", help="Text files to read line by line; .gz files too."),
    ] = None
    errors: Annotated[
        Literal["strict", "replace"],
        typer.Option(help="If bytes are not UTF-8: stop with an error, or read them as �."),
    ] = "strict"
    checkpoint: options.Checkpoint = ""
    quiet: options.Quiet = False

    def chunks(
        self, text: str | None, user: "clearhead.User | None" = None
    ) -> Iterable[Sequence[str]]:
        """The text, or the lines of files, a terminal or a pipe, as many at a time as have come.

        After a text that was typed, the user, if there is one, tells which words are new to its model.
        """
        from clearhead.data.store import AT_ONCE

        user = None if self.quiet else user
        if text is not None:
            if self.input:
                raise DataError(
                    "There is a text and --input, and only one of them can be read.",
                    "Leave one out.",
                )
            return with_notes(user, [[text]])
        if folders := [file for file in self.input or () if Path(file).is_dir()]:
            raise DataError(
                f"--input {folders[0]} is a folder, and lines are read from files.",
                "Name its files.",
            )
        if not self.input and sys.stdin.isatty():
            return with_notes(user, typed_lines())
        return (chunk.lines for chunk in Lines(self.input or "-", self.errors).chunks(AT_ONCE))


def with_notes(
    user: "clearhead.User | None", texts: Iterable[Sequence[str]]
) -> Iterator[Sequence[str]]:
    """The texts as they are, and after the answer to each what should be known about it."""
    for some in texts:
        yield some
        options.tell(user.note_on(some[0]) if user else "")


def typed_lines() -> Iterator[list[str]]:
    """Lines from a terminal, with arrow keys and earlier lines; Ctrl-D ends them."""
    with suppress(ImportError):
        import readline  # noqa: F401  # input() then knows them
    options.tell("Type a text and Enter; Ctrl-D ends.")
    is_seen = sys.stdout.isatty()  # else a prompt would be a part of the output
    while True:
        if not is_seen:
            print("> ", end="", file=sys.stderr, flush=True)
        try:
            line = input("> " if is_seen else "")
        except EOFError:
            sys.stderr.write("\n")
            return
        yield [line]


def write_lines(
    results: Iterable[Any],
    lines: Callable[[int, Any], Iterable[str]],
    output: Path | None = None,
    *,
    quiet: bool = False,
) -> None:
    """Write the lines of each result as it comes; then tell each note once, for all its lines."""
    notes: dict[str, list[int]] = {}
    with output_file(output) if output else nullcontext() as file:
        for number, result in enumerate(counted(results) if output and not quiet else results):
            text = "".join(f"{line}\n" for line in lines(number, result))
            if file:
                file.write(text.encode())
            else:
                sys.stdout.write(text)
                sys.stdout.flush()
            for note in result.notes:
                notes.setdefault(note, []).append(number + 1)
    for note, numbers in () if quiet else notes.items():
        others = f" and {len(numbers) - 1:,} more" if len(numbers) > 1 else ""
        options.tell(f"line {numbers[0]:,}{others}: {note}")


def counted(results: Iterable[Any]) -> Iterator[Any]:
    """The results as they are, while a progress bar shows their number."""
    with options.progress_bar("{task.completed:,} lines", stays=True) as show:
        for number, result in enumerate(results, 1):
            yield result
            show("translating", number, None)


@dataclass(frozen=True, kw_only=True)
class ShardOptions:
    """A corpus that is answered in parts: where they go, which of them, and on what machines."""

    into: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write the answers in parts into this folder; after an interruption, the same "
            "command does the rest.",
        ),
    ] = None
    shard: Annotated[
        str,
        typer.Option(
            metavar="K/N",
            help="With --into: do only shard K of N (every N-th part, from the K-th).",
        ),
    ] = "1/1"
    join: Annotated[
        bool, typer.Option("--join", help="With --into: put the parts of all shards together.")
    ] = False
    on: Annotated[
        Literal["here", "ray"],
        typer.Option(help="With --into: work in this process, or on a Ray cluster."),
    ] = "here"
    address: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="With --on ray: the cluster; else one is started here."
        ),
    ] = ""
    column: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="With --into: the column of texts, if FILES are JSONL or Parquet."
        ),
    ] = ""

    def answer(
        self,
        lines: LineOptions,
        *,
        runs: Sequence[str],
        deciding: dict[str, Any],
        load: "Callable[[], Answer]",
        output: Path | None = None,
    ) -> None:
        """Answer what is missing of the shard, or join what all shards have answered.

        `deciding` holds all that decides the answers besides the runs.
        """
        from clearhead.scale import Shard, answer_here, answer_on_ray, chunks_of, join

        assert self.into, "without a folder nothing is answered in parts"
        if self.join:
            parts = join(self.into, self.made_with(lines, runs, deciding))
            with output_file(output) if output else nullcontext(sys.stdout.buffer) as file:
                file.writelines(parts)
            return
        if not lines.input:
            raise DataError("There are no files to read.", "Name them with --input.")
        shard, n_parts, n_lines = Shard(self.into, *shard_number(self.shard)), 0, 0
        answer = partial(answer_on_ray, address=self.address) if self.on == "ray" else answer_here
        with shard.opened(self.made_with(lines, runs, deciding)):
            missing = shard.missing(chunks_of(lines.input, self.column))
            found = answer(missing, load, lambda chunk: chunk.read(lines.errors, self.column))
            with options.busy(f"shard {self.shard}"):
                for chunk, answers in found:
                    shard.save(chunk, answers)
                    n_parts, n_lines = n_parts + 1, n_lines + len(chunk.lines)
            shard.close()
        done = f"{n_parts:,} parts ({n_lines:,} lines) answered"
        there = f"{len(shard.parts) - n_parts:,} were there already"
        options.tell("" if lines.quiet else f"shard {self.shard}: {done}, {there}")

    def made_with(
        self, lines: LineOptions, runs: Sequence[str], deciding: dict[str, Any]
    ) -> dict[str, str]:
        """What must be the same for all shards that are joined."""
        from clearhead.folder import RunFolder

        digests = [RunFolder.open(run).digest(lines.checkpoint) for run in runs]
        deciding = {**deciding, "errors": lines.errors, "column": self.column}
        told = {name: json.dumps(value, default=str) for name, value in deciding.items()}
        return {"clearhead": clearhead.__version__, "runs": " ".join(digests), **told}


def shard_number(shard: str) -> tuple[int, int]:
    """The number of a shard and how many there are: "3/100"."""
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", shard)
    number, of = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= of:
        raise ConfigError(
            f"--shard {shown(shard)} is no part of a whole.",
            "Write K/N, K from 1 to N: --shard 3/100",
        )
    return number, of
