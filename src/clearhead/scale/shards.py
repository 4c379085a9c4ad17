"""A corpus in shards, for any scheduler: each process answers its own chunks of the lines.

The lines are cut into the same chunks as in a single process, and chunk c belongs to shard
c mod n: a pure function of the files and the number of shards. So batches are the same, too, and
what all shards answered, joined, is byte for byte what a single process writes.

In the folder, `parts/` holds a file for each chunk, written atomically. Each shard keeps a
manifest (JSON lines): how it answers, then a record with the checksums of every part, and at its
end what it has read. The same command again does only what is missing.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from clearhead.disk import locked, make_folder, read_inside, sweep, write_atomically
from clearhead.errors import FolderError, shown
from clearhead.folder.history import Checked, Count, Log
from clearhead.scale.chunks import Chunk

PARTS = "parts"
MANIFEST, LOCK = "shard-{}-of-{}.jsonl", "shard-{}-of-{}.lock"
MOST_SHARDS = 100_000
MAX_PART = 2**32
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Answer = Callable[[Sequence[str], int], list[str]]
"""Lines of output for some texts, the first of which has this number among all."""


class Header(Checked):
    """How a shard answers: the same for all shards that can be joined."""

    kind: Literal["shard"] = "shard"
    shards: Annotated[int, Field(ge=1, le=MOST_SHARDS)]
    made_with: dict[str, str]
    """What decides the answers: the weights, the verb and its options."""


class WrittenPart(Checked):
    """A chunk that was answered."""

    kind: Literal["part"] = "part"
    number: Count
    lines: Count
    input: Sha256
    output: Sha256


class End(Checked):
    """All that a shard has read, its own chunks and the others."""

    kind: Literal["end"] = "end"
    chunks: Count
    lines: Count
    input: Sha256


RECORDS: dict[str, type[Header | WrittenPart | End]] = {
    "shard": Header,
    "part": WrittenPart,
    "end": End,
}


class Shard:
    """Shard `number` (from 1) of `of`, in a folder that all shards share."""

    def __init__(self, folder: Path, number: int, of: int) -> None:
        self.folder, self.number, self.of = folder, number, of
        self.log = Log(folder, MANIFEST.format(number, of))
        self.header: Header | None = None
        self.parts: dict[int, WrittenPart] = {}
        self.end: End | None = None
        for values in self.log.lines():
            self.take(RECORDS.get(str(values.get("kind")), Header), values)

    def take(self, record: type[Header | WrittenPart | End], values: Mapping[str, Any]) -> None:
        found = record.parsed(json.dumps(values), self.log.path)
        if isinstance(found, WrittenPart):
            self.parts[found.number] = found
        elif isinstance(found, End):
            self.end = found
        else:
            self.header = found

    @contextmanager
    def opened(self, made_with: Mapping[str, str]) -> Iterator[Self]:
        """Be the one process that answers this shard, in the way that it was begun."""
        make_folder(self.folder / PARTS)
        with locked(self.folder / LOCK.format(self.number, self.of)):
            sweep(self.folder / PARTS, idle=3_600)
            header = Header(shards=self.of, made_with=dict(made_with))
            if self.header and self.header != header:
                raise FolderError(
                    f"{self.log.path} was begun with {difference(self.header, header)}.",
                    "Choose another --into, or remove that folder.",
                )
            # Written anew: a line that a kill cut off must not run into the next one.
            kept = [header, *self.parts.values(), *([self.end] if self.end else [])]
            content = "".join(f"{record.model_dump_json()}\n" for record in kept).encode()
            write_atomically(self.log.path, content)
            yield self

    def missing(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """The chunks of this shard that are not answered yet; when all were read, it may end."""
        n_chunks = n_lines = 0
        digest = hashlib.sha256()
        for chunk in chunks:
            sha256 = chunk.sha256
            digest.update(sha256.encode())
            n_chunks, n_lines = n_chunks + 1, n_lines + len(chunk.lines)
            if chunk.number % self.of == self.number - 1 and not self.has(chunk.number, sha256):
                yield chunk
        self.end = End(chunks=n_chunks, lines=n_lines, input=digest.hexdigest())

    def has(self, number: int, sha256: str) -> bool:
        part = self.parts.get(number)
        return part is not None and part.input == sha256 and self.content(part) is not None

    def content(self, part: WrittenPart) -> bytes | None:
        """What was answered; None if it is not there, or not what was written."""
        if not (self.folder / part_name(part.number)).is_file():
            return None
        content = read_inside(self.folder, part_name(part.number), MAX_PART)
        return content if hashlib.sha256(content).hexdigest() == part.output else None

    def save(self, chunk: Chunk, answers: Iterable[str]) -> None:
        """Write the answers to a chunk, one line each or several, and record them."""
        content = "".join(f"{line}\n" for line in answers).encode()
        write_atomically(self.folder / part_name(chunk.number), content)
        part = WrittenPart(
            number=chunk.number,
            lines=len(chunk.lines),
            input=chunk.sha256,
            output=hashlib.sha256(content).hexdigest(),
        )
        self.parts[part.number] = part
        self.log.write(part.model_dump())

    def close(self) -> None:
        """Record that all was read and answered."""
        assert self.end, "the chunks were read to their end"
        self.log.write(self.end.model_dump())


def answer_here(
    missing: Iterable[Chunk], load: Callable[[], Answer], read: Callable[[Chunk], list[str]]
) -> Iterator[tuple[Chunk, list[str]]]:
    """Every chunk with its answers, in this process; nothing is loaded if nothing is missing."""
    answer = None
    for chunk in missing:
        answer = answer or load()
        yield chunk, answer(read(chunk), chunk.first)


def join(folder: Path, made_with: Mapping[str, str]) -> Iterator[bytes]:
    """What all shards answered, in order; refused if one is missing, foreign or damaged."""
    found = [path.name for path in folder.glob(MANIFEST.format("*", "*"))]
    counts = sorted({int(n) for name in found if (n := name[:-6].rpartition("-")[2]).isdecimal()})
    if len(counts) != 1 or not 1 <= counts[0] <= MOST_SHARDS:
        several = f"parts of several divisions, into {' and '.join(map(str, counts))} shards"
        raise FolderError(
            f"{folder} holds {several if counts else 'no shards'}.",
            "Answer them first, with --into and --shard 1/N to N/N, each N the same.",
        )
    shards = [Shard(folder, number, counts[0]) for number in range(1, counts[0] + 1)]
    refuse_missing(folder, shards)
    refuse_foreign(shards, Header(shards=counts[0], made_with=dict(made_with)))
    end = shards[0].end
    assert end, "no shard is missing"
    for number in range(end.chunks):
        shard = shards[number % len(shards)]
        content = shard.content(shard.parts[number]) if number in shard.parts else None
        if content is None:
            raise FolderError(
                f"{folder / part_name(number)} is missing or damaged.",
                f"Run shard {shard.number}/{shard.of} again: it answers what is missing.",
            )
        yield content


def refuse_missing(folder: Path, shards: Sequence[Shard]) -> None:
    if missing := [f"{shard.number}/{shard.of}" for shard in shards if shard.end is None]:
        raise FolderError(
            f"{len(missing)} of {len(shards)} shards in {folder} have not ended: "
            f"{shown(', '.join(missing), 60)}.",
            "Run them, or run them again: each does only what is missing.",
        )


def refuse_foreign(shards: Sequence[Shard], header: Header) -> None:
    for shard in shards:
        if shard.header != header:
            what = difference(shard.header, header) if shard.header else "nothing"
        elif shard.end != shards[0].end:
            what = f"other input than {shards[0].log.name}"
        else:
            continue
        raise FolderError(
            f"{shard.log.path} was begun with {what}.",
            "Join with the run and the options of the shards, all of the same files.",
        )


def difference(found: Header, wanted: Header) -> str:
    """The first thing that two ways of answering do not have in common."""
    names = sorted(found.made_with.keys() | wanted.made_with.keys())
    there, here = found.made_with, wanted.made_with
    for name in names:
        if there.get(name) != here.get(name):
            return f"{name} {shown(there.get(name), 40)}, not {shown(here.get(name), 40)}"
    return f"{found.shards} shards, not {wanted.shards}"


def part_name(number: int) -> str:
    return f"{PARTS}/{number:08}"
