"""Examples as ids on disk: tokenised once, reused by every later run, and never all in memory.

A store is a folder named after all that it depends on, so it is never wrong, only absent: it can be deleted at any
time. It is written under another name and renamed when whole; what is damaged or unfinished is written anew.
"""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clearhead.data import order
from clearhead.data.encoding import Encoding
from clearhead.data.order import Ints
from clearhead.data.store import Mapped, Store
from clearhead.errors import DataError, DiskError

FORMAT = 1
"""Part of every store's name: a change of layout makes old stores invisible instead of wrong."""
CHUNK = 2_048
"""Examples handled at a time: enough to keep every core at work, few enough for long texts."""
STALE = 3_600.0
"""Seconds after which an unfinished store that nobody writes to is cleared away."""

Progress: TypeAlias = Callable[[int, int | None], None]
"""Told the examples done, and their number as soon as it is known."""


def prepare(
    cache: Path,
    examples: Iterable[Any],
    encoding: Encoding,
    max_length: int | None = None,
    progress: Progress = lambda *_: None,
) -> Store:
    """The store of these examples in `cache`, built if it is not there or not whole.

    The examples are gone through twice, once to name the store and once to fill it. Those with an empty side, or with
    more than `max_length` tokens on one, are left out and counted.
    """
    assert iter(examples) is not examples, "the examples must be readable twice"
    digest = hashlib.sha256()
    total = 0
    for chunk in chunks(examples, digest):
        progress(total := total + len(chunk), None)
    settings = [FORMAT, encoding.fingerprint, encoding.vocab_sizes, max_length, digest.hexdigest()]
    path = cache / digest_of(settings)[:32]
    if not whole(path):
        try:
            cache.mkdir(parents=True, exist_ok=True)
            clear_strays(cache)
            build(
                path,
                examples,
                encoding,
                max_length,
                lambda done: progress(done, total),
                digest.digest(),
            )
        except OSError as error:
            raise DiskError(
                f"Tokenised examples cannot be kept in {cache}: {error.strerror}.",
                f"Free there: {free_space(cache)}. Make room or choose another folder; it holds nothing of yours.",
            ) from error
    return Store(path)


def build(
    path: Path,
    examples: Iterable[Any],
    encoding: Encoding,
    max_length: int | None,
    progress: Callable[[int], None],
    expected: bytes,
) -> None:
    """Write a store under a name of its own, then give it its real one."""
    folder = temporary(path)
    try:
        folder.mkdir()
        writer = Writer(folder, encoding, max_length)
        digest = hashlib.sha256()
        for chunk in chunks(examples, digest):
            writer.add(chunk)
            progress(writer.n_read)
        if digest.digest() != expected:
            raise DataError(
                "The examples changed while they were being read.",
                "Run again when nothing writes to them.",
            )
        writer.finish()
        publish(folder, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Writer:
    """Appends examples to the files of a store that is being built."""

    def __init__(self, folder: Path, encoding: Encoding, max_length: int | None) -> None:
        self.folder, self.encoding, self.max_length = folder, encoding, max_length
        self.dtypes = ["<u2" if size <= 1 << 16 else "<u4" for size in encoding.vocab_sizes]
        self.n_tokens = [0] * len(self.dtypes)
        self.n_read = self.n_kept = self.too_long = self.empty = 0
        for side in range(len(self.dtypes)):
            self.append(f"{side}.ids", np.zeros(0))
            self.append(f"{side}.offsets", np.zeros(1, "<i8"))
        self.append("dropped", np.zeros(0))

    def append(self, name: str, values: NDArray[Any]) -> None:
        with (self.folder / name).open("ab") as file:
            file.write(values.tobytes())

    def add(self, chunk: list[Any]) -> None:
        sides = self.encoding.encode(chunk)
        lengths = np.array([[len(row) for row in rows] for rows in sides], np.int64)
        empty = (lengths == 0).any(axis=0)
        too_long = ~empty & (lengths > (self.max_length or np.inf)).any(axis=0)
        kept = ~empty & ~too_long
        self.append("dropped", np.flatnonzero(~kept) + self.n_read)
        for side, rows in enumerate(sides):
            self.add_rows(side, compress(rows, kept), lengths[side, kept])
        self.n_read += len(chunk)
        self.n_kept += int(kept.sum())
        self.empty += int(empty.sum())
        self.too_long += int(too_long.sum())

    def add_rows(self, side: int, rows: Iterable[list[int]], lengths: Ints) -> None:
        ends = self.n_tokens[side] + np.cumsum(lengths)
        self.append(f"{side}.offsets", ends.astype("<i8"))
        count = int(lengths.sum())
        self.append(f"{side}.ids", np.fromiter(chain.from_iterable(rows), self.dtypes[side], count))
        self.n_tokens[side] += count

    def finish(self) -> None:
        if not self.n_kept:
            raise DataError(
                f"No example is left to learn from: {self.n_read:,} read, {self.empty:,} with an empty side, "
                f"{self.too_long:,} longer than {self.max_length} tokens.",
                "Look at the files with clearhead doctor, or raise data.max_length.",
            )
        self.append("order", np.zeros(0))
        os.truncate(self.folder / "order", 8 * self.n_kept)
        self.append("cells", sort_by_length(self.folder, len(self.dtypes)))
        files = {path.name: checksum(path) for path in sorted(self.folder.iterdir())}
        meta: dict[str, Any] = {
            "files": files,
            "dtypes": self.dtypes,
            "vocab_sizes": self.encoding.vocab_sizes,
        }
        meta |= {"n_tokens": self.n_tokens, "too_long": self.too_long, "empty": self.empty}
        meta["sha256"] = digest_of(meta)
        (self.folder / "meta.json").write_text(json.dumps(meta, indent=1), encoding="utf-8")
        for file in self.folder.iterdir():
            sync(file)
        sync(self.folder)


def sort_by_length(folder: Path, n_sides: int) -> Ints:
    """Fill the order file by a counting sort that holds one chunk at a time; the cells in use and their sizes."""
    offsets = [Mapped(folder / f"{side}.offsets", "<i8") for side in range(n_sides)][:2]
    places = Mapped(folder / "order", "<i8", writable=True)

    def cells_from(start: int) -> Ints:
        lengths = [np.diff(side[start : start + CHUNK + 1]) for side in offsets]
        return order.cells(lengths[0], lengths[-1])

    starts = range(0, len(places), CHUNK)
    sizes = np.zeros(order.N_CELLS, np.int64)
    for start in starts:
        sizes += np.bincount(cells_from(start), minlength=order.N_CELLS)
    free = np.cumsum(sizes) - sizes
    for start in starts:
        cells = cells_from(start)
        sorting = np.argsort(cells, kind="stable")
        cells = cells[sorting]
        places.values[free[cells] + np.arange(len(cells)) - np.searchsorted(cells, cells)] = (
            start + sorting
        )
        places.release()
        free += np.bincount(cells, minlength=order.N_CELLS)
    used = np.flatnonzero(sizes)
    return np.stack([used, sizes[used]]).astype("<i8")


def chunks(examples: Iterable[Any], digest: "hashlib._Hash") -> Iterator[list[Any]]:
    """The examples some at a time, taken into the digest as they pass."""
    rest = iter(examples)
    while chunk := list(islice(rest, CHUNK)):
        digest.update(repr(chunk).encode())
        yield chunk


def publish(folder: Path, path: Path) -> None:
    """Give a finished store its name; one that another process has finished meanwhile is as good."""
    while not whole(path):
        try:
            folder.rename(path)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            with contextlib.suppress(
                FileNotFoundError
            ):  # Another process may be quicker here, too.
                path.rename(damaged := temporary(path))
                shutil.rmtree(damaged, ignore_errors=True)
    sync(path.parent)


def temporary(path: Path) -> Path:
    """A name next to the store that nobody else uses."""
    return path.with_name(f"{path.name}.tmp-{secrets.token_hex(8)}")


def whole(path: Path) -> bool:
    """Whether the store is there with every byte as it was written."""
    try:
        meta: dict[str, Any] = json.loads((path / "meta.json").read_bytes())
        if meta.pop("sha256") != digest_of(meta):
            return False
        return all(checksum(path / name) == written for name, written in meta["files"].items())
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


def digest_of(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Have the system put a file or a folder's names on the disk now."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def clear_strays(cache: Path) -> None:
    """Remove what processes that died while building left behind."""
    for folder in cache.glob("*.tmp-*"):
        with contextlib.suppress(OSError):  # Another process may be clearing, too.
            if (
                time.time() - max(file.stat().st_mtime for file in [folder, *folder.iterdir()])
                > STALE
            ):
                shutil.rmtree(folder)


def free_space(cache: Path) -> str:
    try:
        return f"{shutil.disk_usage(cache).free / 1e6:,.0f} MB"
    except OSError:
        return "unknown"
