"""Files and folders that are written atomically (whole or not at all), and read without trust.

What is being made has a stray's name, `NAME.tmp-PROCESS-TOKEN`, until all of it is on the disk;
then it takes its own name in one rename. So a kill or a power cut at any moment leaves the old or
the new, and perhaps a stray, which `sweep` removes.
"""

import errno
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from clearhead.errors import DiskError, FolderError, shown

STRAY = re.compile(r".+\.tmp-([0-9]{1,9})(-[0-9a-f]{8})?")
SPARE = 2.2
"""Free space that a save asks for, as a multiple of its size: for this one and the next."""


class HashedFile:
    """A file being written that knows its size and its SHA-256."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size, self.sha256 = file, 0, hashlib.sha256()

    def write(self, content: bytes | memoryview) -> None:
        self.file.write(content)
        self.sha256.update(content)
        self.size += len(content)


@contextmanager
def new_file(path: Path) -> Iterator[HashedFile]:
    """A file that is not there yet, for a folder that is being made."""
    with path.open("xb") as file:
        yield HashedFile(file)


@contextmanager
def atomic_file(path: Path, needed: int = 0) -> Iterator[HashedFile]:
    """A new file, which at the end of the block takes the place of one that may have its name.

    Who has the old file open keeps it. `needed` bytes are named in the error if the disk is full.
    """
    with disk_errors(path, needed), being_made(path) as stray:
        with new_file(stray) as file:
            yield file
        sync(stray)
        stray.replace(path)
        sync(path.parent)


@contextmanager
def atomic_folder(
    path: Path, needed: int = 0, is_whole: Callable[[Path], bool] = lambda _: False
) -> Iterator[Path]:
    """A new folder to fill, under another name; at the end of the block it takes its own.

    If a folder of this name is there by then, because another process was quicker, it stays if it
    `is_whole`, and is replaced if not. The folder around it is made if it is missing.
    """
    with disk_errors(path, needed), being_made(path) as stray:
        make_folder(path.parent)
        stray.mkdir()
        yield stray
        for file in (*stray.iterdir(), stray):
            sync(file)
        while not is_whole(path):
            try:
                stray.rename(path)
                break
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                    raise
                if not is_whole(path):  # it may have become whole just now
                    discard(path)
        sync(path.parent)


@contextmanager
def being_made(path: Path) -> Iterator[Path]:
    """The stray's name for a path; nothing has it any more when the block ends, in whatever way."""
    stray = stray_name(path)
    try:
        yield stray
    finally:
        remove(stray)


def stray_name(path: Path) -> Path:
    """A name for what is being made or removed: nobody else uses it, and it says whose it is."""
    return path.with_name(f"{path.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")


@contextmanager
def disk_errors(path: Path, needed: int = 0) -> Iterator[None]:
    """The system's refusal to write as a DiskError that says where, why, and how much is free."""
    try:
        yield
    except OSError as error:
        raise disk_error(path, error.strerror or str(error), needed) from error


def disk_error(path: Path, reason: str, needed: int) -> DiskError:
    wanted = f"{needed:,} bytes needed, " if needed else ""
    return DiskError(
        f"{path} cannot be written: {reason} ({wanted}{free_bytes(path):,} free).",
        "What was saved before is whole: make room there, or move the folder, "
        "and run the same command again.",
    )


def require_space(path: Path, needed: int) -> None:
    """Refuse to begin what would fill the disk."""
    if free_bytes(path) < SPARE * needed:
        raise disk_error(path, f"a save needs {SPARE} times its size free", needed)


def free_bytes(path: Path) -> int:
    """Bytes that may still be written where the path lies, or will lie."""
    return shutil.disk_usage(next(place for place in (path, *path.parents) if place.exists())).free


def sync(path: Path) -> None:
    """Have the system put a file, or the names in a folder, on the disk now (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder, and those around it, where there is none."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        sync(path.parent)


def discard(path: Path) -> None:
    """Remove a folder that may be there; it is never seen half removed under its own name."""
    stray = stray_name(path)
    with suppress(FileNotFoundError):  # another process was quicker
        path.rename(stray)
        remove(stray)


def remove(path: Path) -> None:
    """Remove what may be a file, a link, a folder, or not there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sweep(folder: Path, idle: float | None = None) -> None:
    """Remove the strays of processes that have died.

    In a folder that several machines may share, the number of a process says nothing: there, give
    the `idle` seconds after which a stray that nobody has written to is taken for one of the dead.
    """
    for path in folder.iterdir() if folder.is_dir() else ():
        if stray := STRAY.fullmatch(path.name):
            with suppress(FileNotFoundError):  # another process is sweeping, too
                if not alive(int(stray[1])) if idle is None else idle < seconds_idle(path):
                    remove(path)


def seconds_idle(path: Path) -> float:
    """Seconds since a file, or any file in a folder, was written to."""
    return time.time() - max(file.stat().st_mtime for file in (path, *path.rglob("*")))


def alive(pid: int) -> bool:
    """Whether this host runs another process of that number; an earlier one may have had ours."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid != os.getpid()


def open_inside(folder: Path, name: str) -> BufferedReader:
    """A regular file of a folder, open for reading: nothing outside it, and nothing that blocks."""
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
    """The content of a file of a folder, if it is no longer than its kind can be."""
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
