"""Tokenised examples: how they become ids, and a cache folder on disk, which is memory-mapped.

A store on disk is a folder named after all that it depends on, so it is never wrong, only absent:
it can be deleted at any time. It is written atomically, and one that is not whole is written anew.
When the cache has outgrown its size, those go that were not used for longest (LRU).
"""

import json
import mmap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, compress, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clearhead.data.examples import Conversation, LabelledText, Pair
from clearhead.data.order import N_BUCKETS, Ints, buckets
from clearhead.disk import atomic_folder, discard, disk_errors, sweep
from clearhead.errors import DataError, shown
from clearhead.text import BOT, END, USER, Tokenizer

Rows: TypeAlias = list[list[int]]

STORE_FORMAT = 2
"""Belongs into a store's name: a change of layout makes old stores invisible instead of wrong."""
AT_ONCE = 2_048
"""Texts or examples handled at a time: enough to keep every core at work and to find some of like
length, few enough for long texts and to answer soon."""
IN_USE = 3_600.0
"""Seconds for which a store just used, or one that is being written, is not removed."""
STAYS_IN_MEMORY = 1 << 25
"""Bytes up to which a file may stay in memory once read, which is faster."""
META = "meta.json"


@dataclass(frozen=True)
class Encoding:
    """A way to turn examples into ids. The first two sides are those whose lengths matter."""

    encode: Callable[[list[Any]], tuple[Rows, ...]]
    vocab_sizes: tuple[int, ...]
    fingerprint: str
    """A name for `encode`: equal fingerprints give equal rows."""


def pair_encoding(source: Tokenizer, target: Tokenizer) -> Encoding:
    def encode(pairs: list[Pair]) -> tuple[Rows, ...]:
        sources, targets = zip(*pairs, strict=True)
        return source.encode_batch(list(sources)), target.encode_batch(list(targets))

    return Encoding(
        encode,
        (source.vocab_size, target.vocab_size),
        f"pairs {source.fingerprint} {target.fingerprint}",
    )


def label_encoding(
    tokenizer: Tokenizer, names: Sequence[str], longest: int | None = None
) -> Encoding:
    """Two sides: the text, cut off where it is too long, and the numbers of its labels."""
    numbers = {name: number for number, name in enumerate(names)}

    def number(label: str) -> int:
        if label not in numbers:
            raise DataError(
                f"The label {shown(label)} is not one of the {len(numbers)} known ones.",
                f"There are: {shown(', '.join(names))}.",
            )
        return numbers[label]

    def encode(examples: list[LabelledText]) -> tuple[Rows, ...]:
        texts, labels = zip(*examples, strict=True)
        rows = tokenizer.encode_batch(list(texts))
        # without the end, which is put where batches are made
        read = [tokenizer.reading(row[:longest])[:-1] for row in rows]
        return read, [sorted(map(number, each)) for each in labels]

    return Encoding(
        encode,
        (tokenizer.vocab_size, len(names)),
        f"labels {tokenizer.fingerprint} {list(names)!r} {longest}",
    )


def text_encoding(tokenizer: Tokenizer) -> Encoding:
    """One side: the text and the end of a line, so that the side as a whole is running text."""
    return Encoding(
        lambda texts: ([[*row, *tokenizer.after_line] for row in tokenizer.encode_batch(texts)],),
        (tokenizer.vocab_size,),
        f"text {tokenizer.fingerprint}",
    )


def conversation_encoding(tokenizer: Tokenizer) -> Encoding:
    """Two sides: the turns in one row, and 1 for each token that the bot says, ends included."""

    def encode(conversations: list[Conversation]) -> tuple[Rows, ...]:
        rows = iter(tokenizer.encode_batch([turn for each in conversations for turn in each.turns]))
        ids: Rows = [[] for _ in conversations]
        counts: Rows = [[] for _ in conversations]
        for n, conversation in enumerate(conversations):
            for turn, row in enumerate(islice(rows, len(conversation.turns))):
                ids[n] += [BOT, *row] if turn % 2 else [*[END] * (turn > 0), USER, *row]
                counts[n] += (
                    [0, *[1] * len(row)] if turn % 2 else [*[1] * (turn > 0), *[0] * (len(row) + 1)]
                )
        return ids, counts

    return Encoding(encode, (tokenizer.vocab_size, 2), f"conversations {tokenizer.fingerprint}")


class Column:
    """Numbers in a memory-mapped file; of a large one, only the parts just read are in memory."""

    def __init__(self, path: Path, dtype: str = "<i8", *, writable: bool = False) -> None:
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        with path.open("r+b" if writable else "rb") as file:
            self.pages = mmap.mmap(file.fileno(), 0, access=access)
        self.values: NDArray[Any] = np.frombuffer(self.pages, dtype)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, places: Ints | slice) -> Ints:
        """A copy of some of the numbers."""
        found = self.values[places].astype(np.int64)
        self.release()
        return found

    def release(self) -> None:
        """Give a large file's pages back to the system, which keeps them while memory is free."""
        if len(self.pages) > STAYS_IN_MEMORY and hasattr(mmap, "MADV_DONTNEED"):
            self.pages.madvise(mmap.MADV_DONTNEED)


class Store:
    """Tokenised examples, in the order in which they were read and in order of length."""

    def __init__(self, folder: Path) -> None:
        self.fingerprint = folder.name
        meta = json.loads((folder / META).read_bytes())
        self.n_read: int = meta["n_read"]
        self.too_long: int = meta["too_long"]
        self.empty: int = meta["empty"]
        self.max_length: int | None = meta["max_length"]
        self.n_tokens: list[int] = meta["n_tokens"]
        self.vocab_sizes: list[int] = meta["vocab_sizes"]
        self.notes: list[str] = meta["notes"]
        """What reading the examples put right, for people."""
        sides = list(enumerate(meta["dtypes"]))
        self.ids = [Column(folder / f"{side}.ids", dtype) for side, dtype in sides]
        self.offsets = [Column(folder / f"{side}.offsets") for side, _ in sides]
        self.by_length = Column(folder / "order")
        self.buckets, self.bucket_sizes = Column(folder / "buckets")[:].reshape(2, -1)

    def __len__(self) -> int:
        return len(self.by_length)

    def rows(self, side: int, examples: Ints) -> tuple[Ints, Ints]:
        """The ids of the examples on one side, end to end, and how many each has."""
        begins, ends = self.offsets[side][np.stack([examples, examples + 1])]
        lengths = ends - begins
        shift = begins - (np.cumsum(lengths) - lengths)
        return self.ids[side][np.repeat(shift, lengths) + np.arange(lengths.sum())], lengths

    def left_out(self) -> str:
        """How many examples were left out and why, in a sentence; empty if none was."""
        reasons = why_left_out(self.too_long, self.empty, self.max_length)
        n_left = self.too_long + self.empty
        return f"{n_left:,} of {self.n_read:,} examples left out: {reasons}." if n_left else ""


def why_left_out(too_long: int, empty: int, max_length: int | None) -> str:
    reasons = {
        f"{too_long:,} longer than {max_length or 0:,} tokens": too_long,
        f"{empty:,} with an empty side": empty,
    }
    return ", ".join(reason for reason, count in reasons.items() if count)


def temporary_store(
    examples: Iterable[Any], encoding: Encoding, max_length: int | None = None
) -> tuple[Store, list[Any]]:
    """A store of a few examples that leaves nothing on disk, and the examples that are in it."""
    with TemporaryDirectory() as name, disk_errors(Path(name)):
        builder = Builder(Path(name), encoding, max_length)
        kept = [
            example for chunk in chunks(examples) for example in compress(chunk, builder.add(chunk))
        ]
        builder.finish()
        return Store(Path(name)), kept  # what is mapped stays when the files go


def prepare(
    path: Path,
    examples: Iterable[Any],
    encoding: Encoding,
    *,
    max_length: int | None = None,
    notes: Callable[[], Sequence[str]] = list,
    cache_size: float = np.inf,
) -> Store:
    """The store in this folder, built in one pass if it is not there or not whole.

    The folder's name stands for the examples and for all that shapes their ids. Those with an empty
    side, or with more than `max_length` tokens on one, are left out and counted. `notes` are asked
    for after the pass. A new store may push others out of a cache of `cache_size` bytes.
    """
    if not is_whole(path):
        sweep(path.parent, IN_USE)
        with atomic_folder(path, is_whole=is_whole) as folder:
            builder = Builder(folder, encoding, max_length)
            for chunk in chunks(examples):
                builder.add(chunk)
            builder.finish(notes)
        prune(path.parent, cache_size, keep=path)
    with suppress(OSError):  # a cache that others share may be read only
        (path / META).touch()
    return Store(path)


def chunks(examples: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(examples)
    while chunk := list(islice(rest, AT_ONCE)):
        yield chunk


class Builder:
    """A store that is being built in an empty folder; examples are appended to its columns."""

    def __init__(self, folder: Path, encoding: Encoding, max_length: int | None) -> None:
        self.folder, self.encoding, self.max_length = folder, encoding, max_length
        self.dtypes = ["<u2" if size <= 1 << 16 else "<u4" for size in encoding.vocab_sizes]
        self.n_tokens = [0] * len(self.dtypes)
        self.n_read = self.n_kept = self.too_long = self.empty = 0
        for side in range(len(self.dtypes)):
            self.append(f"{side}.offsets", np.zeros(1, "<i8"))

    def append(self, name: str, values: NDArray[Any]) -> None:
        with (self.folder / name).open("ab") as file:
            file.write(values.tobytes())

    def add(self, chunk: list[Any]) -> NDArray[np.bool_]:
        """Encode some examples; which of them were kept."""
        sides = self.encoding.encode(chunk)
        lengths = np.array([[len(row) for row in rows] for rows in sides], np.int64)
        empty = (lengths == 0).any(axis=0)
        too_long = ~empty & (lengths > (self.max_length or np.inf)).any(axis=0)
        kept: NDArray[np.bool_] = ~empty & ~too_long
        for side, rows in enumerate(sides):
            counts = lengths[side, kept]
            ends = self.n_tokens[side] + np.cumsum(counts)
            ids = chain.from_iterable(compress(rows, kept))
            self.append(f"{side}.offsets", ends.astype("<i8"))
            self.append(f"{side}.ids", np.fromiter(ids, self.dtypes[side], counts.sum()))
            self.n_tokens[side] += int(counts.sum())
        self.n_read += len(chunk)
        self.n_kept += int(kept.sum())
        self.empty += int(empty.sum())
        self.too_long += int(too_long.sum())
        return kept

    def finish(self, notes: Callable[[], Sequence[str]] = list) -> None:
        """Sort by length, and write down what is to be known about the store."""
        if not self.n_kept:
            reasons = why_left_out(self.too_long, self.empty, self.max_length)
            raise DataError(
                f"No example is left of {self.n_read:,}: {reasons or 'there was none'}.",
                "Look at the files with clearhead doctor, or raise data.max_length.",
            )
        with (self.folder / "order").open("xb") as file:
            file.truncate(8 * self.n_kept)
        self.append("buckets", self.sort_by_length())
        meta = {
            "dtypes": self.dtypes,
            "vocab_sizes": list(self.encoding.vocab_sizes),
            "max_length": self.max_length,
            "n_read": self.n_read,
            "n_tokens": self.n_tokens,
            "too_long": self.too_long,
            "empty": self.empty,
            "notes": list(notes()),
            "files": {file.name: file.stat().st_size for file in self.folder.iterdir()},
        }
        (self.folder / META).write_text(json.dumps(meta, indent=1), encoding="utf-8")

    def sort_by_length(self) -> Ints:
        """Fill the order by a counting sort that holds one chunk at a time; the buckets in use."""
        offsets = [Column(self.folder / f"{side}.offsets") for side in range(len(self.dtypes))][:2]
        places = Column(self.folder / "order", writable=True)

        def buckets_from(start: int) -> Ints:
            lengths = [np.diff(side[start : start + AT_ONCE + 1]) for side in offsets]
            return buckets(lengths[0], lengths[-1])

        starts = range(0, len(places), AT_ONCE)
        sizes = np.zeros(N_BUCKETS, np.int64)
        for start in starts:
            sizes += np.bincount(buckets_from(start), minlength=N_BUCKETS)
        # From here on: where the next example of each bucket goes.
        free = np.cumsum(sizes) - sizes
        for start in starts:
            found = buckets_from(start)
            sorting = np.argsort(found, kind="stable")
            found = found[sorting]
            among_equals = np.arange(len(found)) - np.searchsorted(found, found)
            places.values[free[found] + among_equals] = start + sorting
            places.release()
            free += np.bincount(found, minlength=N_BUCKETS)
        used = np.flatnonzero(sizes)
        return np.stack([used, sizes[used]]).astype("<i8").ravel()


def is_whole(path: Path) -> bool:
    """Whether the store is there with all its files, each as long as it was written."""
    try:
        files = json.loads((path / META).read_bytes())["files"]
        return all((path / name).stat().st_size == size for name, size in files.items())
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


def prune(cache: Path, cache_size: float, keep: Path) -> None:
    """Remove the least recently used stores until the others fit; never those used just now."""
    stores = []
    for meta in cache.glob(f"*/{META}"):
        with suppress(FileNotFoundError):  # another process may be removing it
            size = sum(file.stat().st_size for file in meta.parent.iterdir())
            stores.append((meta.stat().st_mtime, meta.parent, size))
    total = sum(size for *_, size in stores)
    for used, path, size in sorted(stores):
        if total > cache_size and path != keep and time.time() - used > IN_USE:
            discard(path)
            total -= size
