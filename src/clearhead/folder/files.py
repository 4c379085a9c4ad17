"""How the files of a run are read and written: nothing outside the folder is opened, and nothing is ever half there."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from clearhead.errors import DiskError, FolderError, shown

STRAY = re.compile(r".+\.tmp-([0-9]{1,9})")
SPARE = 2.2
"""Room that must be free before a save, as a multiple of what it writes: for this one, and the next beside it."""


def open_inside(folder: Path, name: str) -> BufferedReader:
    """A regular file of the folder, open for reading: nothing outside of it, and nothing that would keep us waiting."""
    path = folder / name
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(folder.resolve()):
            reason = "it is a link that leads out of the folder"
        elif not real.is_file():
            reason = "it is not a regular file"
        else:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            return os.fdopen(os.open(real, flags), "rb")
    except OSError as error:
        reason = error.strerror or str(error)
    except (RuntimeError, ValueError) as error:  # a ring of links; a NUL in the name
        reason = str(error)
    raise FolderError(
        f"{shown(str(path), 200)} cannot be read: {reason}.",
        "Take the folder from where it was whole.",
    )


def read_inside(folder: Path, name: str, limit: int) -> bytes:
    """A file of the folder, if it is no longer than its kind can be."""
    with open_inside(folder, name) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise FolderError(
            f"{folder / name} has more than {limit:,} bytes.",
            "Take the folder from where it was whole.",
        )
    return content


def size_inside(folder: Path, name: str) -> int:
    with open_inside(folder, name) as file:
        return os.fstat(file.fileno()).st_size


class Hashed:
    """A file being written that knows its size and its SHA-256."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size, self.sha256 = file, 0, hashlib.sha256()

    def write(self, content: bytes | memoryview) -> None:
        self.file.write(content)
        self.sha256.update(content)
        self.size += len(content)


@contextmanager
def written(path: Path) -> Iterator[Hashed]:
    """A new file that is on the disk, not only on its way, when the block ends."""
    with path.open("xb") as file:
        yield Hashed(file)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replacing(path: Path, needed: int) -> Iterator[Hashed]:
    """A file that takes the name of another when it is whole; who has the old one open keeps it."""
    stray = stray_name(path)
    with disk_errors(path, needed), removed_on_failure(stray):
        remove(stray)
        with written(stray) as file:
            yield file
        stray.replace(path)
        sync(path.parent)


@contextmanager
def removed_on_failure(stray: Path) -> Iterator[None]:
    """Leaves nothing half written behind, whatever ends the block."""
    try:
        yield
    except BaseException:
        remove(stray)
        raise


@contextmanager
def disk_errors(path: Path, needed: int) -> Iterator[None]:
    """The system's refusal to write as an error that says where, why, how much was needed and how much is free."""
    try:
        yield
    except OSError as error:
        raise disk_error(path, error.strerror or str(error), needed) from error


def require_space(path: Path, needed: int) -> None:
    """Refuse to begin what would fill the disk."""
    if free_bytes(path) < SPARE * needed:
        raise disk_error(path, f"a save needs {SPARE} times its size free", needed)


def disk_error(path: Path, reason: str, needed: int) -> DiskError:
    return DiskError(
        f"{path} cannot be written: {reason} ({needed:,} bytes needed, {free_bytes(path):,} free).",
        "What was saved before is whole: make room there, or move the folder, and run the same command again.",
    )


def free_bytes(path: Path) -> int:
    """Bytes that may still be written where the path lies, or will lie."""
    return shutil.disk_usage(next(place for place in (path, *path.parents) if place.exists())).free


def sync(folder: Path) -> None:
    """Make new names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def stray_name(path: Path) -> Path:
    """What a file or folder is called while it is being made, or being removed."""
    return path.with_name(f"{path.name}.tmp-{os.getpid()}")


def discard(path: Path) -> None:
    """Remove a folder so that it is never seen half removed under its own name."""
    remove(stray := stray_name(path))
    path.rename(stray)
    remove(stray)


def remove(path: Path) -> None:
    """Remove what may be a file, a link, a folder, or not there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove what dead processes were writing."""
    for path in folder.iterdir() if folder.is_dir() else ():
        stray = STRAY.fullmatch(path.name)
        if stray and not alive(int(stray[1])):
            remove(path)


def alive(pid: int) -> bool:
    """Whether this host runs another process of that number; our own is left from one that had it before us."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid != os.getpid()
