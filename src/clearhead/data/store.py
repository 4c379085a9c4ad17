"""Examples as ids on disk, read through the system's page cache: memory stays flat however large they are."""

import json
import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.data.order import Ints

KEPT = 1 << 25
"""Bytes up to which a file may stay in memory once read, which is faster."""


class Mapped:
    """A file of numbers; of a large one, only the parts just read are in memory."""

    def __init__(self, path: Path, dtype: str, writable: bool = False) -> None:
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        with path.open("r+b" if writable else "rb") as file:
            self.pages = mmap.mmap(file.fileno(), 0, access=access) if path.stat().st_size else None
        self.values: NDArray[Any] = np.frombuffer(self.pages or b"", dtype)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, places: Ints | slice) -> Ints:
        """A copy of some of the numbers."""
        found = self.values[places].astype(np.int64)
        self.release()
        return found

    def release(self) -> None:
        """Give a large file's pages back; the system still keeps them while it has room, but not as our memory."""
        if self.pages is not None and len(self.pages) > KEPT and hasattr(mmap, "MADV_DONTNEED"):
            self.pages.madvise(mmap.MADV_DONTNEED)


class Store:
    """Tokenised examples, in the order in which they were read and in order of length."""

    def __init__(self, path: Path) -> None:
        meta = json.loads((path / "meta.json").read_bytes())
        self.fingerprint: str = path.name
        """Stands for the examples, the tokenizer and the settings."""
        self.too_long: int = meta["too_long"]
        self.empty: int = meta["empty"]
        self.n_tokens: list[int] = meta["n_tokens"]
        """Tokens on each side."""
        self.vocab_sizes: list[int] = meta["vocab_sizes"]
        self.ids = [
            Mapped(path / f"{side}.ids", dtype) for side, dtype in enumerate(meta["dtypes"])
        ]
        self.offsets = [Mapped(path / f"{side}.offsets", "<i8") for side in range(len(self.ids))]
        self.by_length = Mapped(path / "order", "<i8")
        self.cells, self.cell_sizes = Mapped(path / "cells", "<i8")[:].reshape(2, -1)
        self.dropped = Mapped(path / "dropped", "<i8")

    def __len__(self) -> int:
        return len(self.by_length)

    def rows(self, side: int, examples: Ints) -> tuple[Ints, Ints]:
        """The ids of the examples on one side, end to end, and how many each has."""
        begins, ends = self.offsets[side][np.stack([examples, examples + 1])]
        lengths = ends - begins
        shift = begins - (np.cumsum(lengths) - lengths)
        return self.ids[side][np.repeat(shift, lengths) + np.arange(lengths.sum())], lengths

    def origin(self, examples: Ints) -> Ints:
        """The places that the examples had among all that were read, those left out included."""
        left_out = self.dropped[:]
        return examples + np.searchsorted(
            left_out - np.arange(len(left_out)), examples, side="right"
        )
