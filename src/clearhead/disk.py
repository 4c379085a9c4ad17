"""Files and folders that are written atomically (whole or not at all), locked, read without trust.

What is being made has a stray's name, `NAME.tmp-PROCESS-TOKEN`, until all of it is on the disk;
then it takes its own name in one rename. So a kill or a power cut at any moment leaves the old or
the new, and perhaps a stray, which `sweep` removes. One process at a time holds a lock: the kernel
keeps it until the process ends or dies. The file that is locked says who holds it, for people, and
for the file systems whose kernel keeps no locks.
"""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from clearhead.errors import DiskError, FolderError, FolderInUseError, shown

STRAY = re.compile(r".+\.tmp-([0-9]{1,9})(-[0-9a-f]{8})?")
OWNER = re.compile(r"([0-9]{1,9}) (\S{1,255})\n")
HELD: set[int] = set()
"""Descriptors of the locks that this process holds."""
SPARE = 2.2
"""Free space that a save asks for, as a multiple of its size: for this one and the next."""
UNTRUSTED = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""How a file is opened that may be anything: no link is followed, no pipe is waited for."""


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

    Who has the old file open keeps it. Of the `needed` bytes, several times as many must be free.
    """
    with disk_errors(path, needed), under_stray_name(path) as stray:
        require_space(path, needed)
        with new_file(stray) as file:
            yield file
        sync(stray)
        stray.replace(path)
        sync(path.parent)


def write_atomically(path: Path, content: bytes) -> None:
    with atomic_file(path, len(content)) as file:
        file.write(content)


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """A file that a person has named, to be written piece by piece; it appears when it is whole.

    Until then it is `NAME.partial`, which stays if the program is stopped, for what is in it is
    whole as far as it goes. A device or a pipe is written to as it is.
    """
    with disk_errors(path):
        if os.path.exists(path) and not path.is_file():  # noqa: PTH110  # of any name
            with path.open("wb") as file:
                yield file
            return
        partial = path.with_name(f"{path.name}.partial")
        with partial.open("wb") as file:
            try:
                yield file
                file.flush()
            except Exception:
                partial.unlink()
                raise
        partial.replace(path)


def write_output(path: Path, content: str | bytes) -> None:
    """Write a file that a person has named, whole or not at all."""
    with output_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_folder(
    path: Path, needed: int = 0, is_whole: Callable[[Path], bool] = lambda _: False
) -> Iterator[Path]:
    """A new folder to fill, under another name; at the end of the block it takes its own.

    If a folder of this name is there by then, because another process was quicker, it stays if it
    `is_whole`, and is replaced if not. The folder around it is made if it is missing.
    """
    with disk_errors(path, needed), under_stray_name(path) as stray:
        require_space(path, needed)
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
def under_stray_name(path: Path) -> Iterator[Path]:
    """A temporary name (a stray's), which nobody else uses, for what is being made or removed.

    Nothing has it any more when the block ends, in whatever way.
    """
    stray = path.with_name(f"{path.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        yield stray
    finally:
        remove(stray)


@contextmanager
def disk_errors(path: Path, needed: int = 0) -> Iterator[None]:
    """The system's refusal to write as a DiskError that says where, why, and how much is free."""
    try:
        yield
    except OSError as error:
        raise disk_error(path, error.strerror or str(error), needed) from error


def disk_error(path: Path, reason: str, needed: int) -> DiskError:
    wanted = f"{needed:,} bytes needed, " if needed else ""
    advice = (
        "What was saved before is whole: make room there, or move the folder, "
        "and run the same command again."
    )
    if not os.path.isdir(path.parent):  # noqa: PTH112  # of any name
        advice = "Name a folder that is there; one that was moved meanwhile, where it is now."
    return DiskError(
        f"{path} cannot be written: {reason} ({wanted}{free_bytes(path):,} free).", advice
    )


def require_space(path: Path, needed: int) -> None:
    """Refuse to begin what would fill the disk."""
    if free_bytes(path) < SPARE * needed:
        raise disk_error(path, f"a save needs {SPARE} times its size free", needed)


def free_bytes(path: Path) -> int:
    """Bytes that may still be written where the path lies, or will lie."""
    there = next(place for place in (path, *path.parents, Path()) if os.path.exists(place))  # noqa: PTH110
    return shutil.disk_usage(there).free


def seen_from_here(path: Path) -> Path:
    """The path as a person would type it here: relative or absolute, whichever is shorter."""
    return Path(min(os.path.relpath(path), os.path.abspath(path), key=len))  # noqa: PTH100


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Have the system put a file, or the names in a folder, on the disk now (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    with disk_errors(path):
        if not path.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            sync(path.parent)


def discard(path: Path) -> None:
    """Remove a folder that may be there; it is never seen half removed under its own name."""
    with suppress(FileNotFoundError), under_stray_name(path) as stray:
        path.rename(stray)  # not found: another process was quicker


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


def drop_locks() -> None:
    """Let a forked child hold no lock, or an orphan would keep that of its dead parent."""
    for descriptor in HELD:
        os.close(descriptor)
    HELD.clear()


os.register_at_fork(after_in_child=drop_locks)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file lock, or refuse at once and name who holds it."""
    with disk_errors(path):
        descriptor = acquire(path)
    try:
        yield
    finally:
        if descriptor in HELD:
            HELD.remove(descriptor)
            with suppress(OSError):  # the folder may have been moved, and another be in its place
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    path.unlink()
            os.close(descriptor)


def acquire(path: Path) -> int:
    """A locked descriptor of the file that has this name now, and of none that was just removed."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | UNTRUSTED, 0o666)
        owner = OWNER.fullmatch(os.read(descriptor, 300).decode("utf-8", "replace"))
        if is_taken(descriptor, owner):
            os.close(descriptor)
            who = f"process {owner[1]} on {shown(owner[2])}" if owner else "another process"
            raise FolderInUseError(
                f"{path.parent} is in use by {who}.", "Wait until it ends, or stop it."
            )
        if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
            HELD.add(descriptor)
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
            return descriptor
        os.close(descriptor)


def is_taken(descriptor: int, owner: re.Match[str] | None) -> bool:
    """Whether another process holds the lock; if the kernel cannot say, whether it may be alive."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return owner is not None and (owner[2] != socket.gethostname() or alive(int(owner[1])))
    return False


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
            return os.fdopen(os.open(real, os.O_RDONLY | UNTRUSTED), "rb")
    except (OSError, RuntimeError, ValueError) as error:  # no ring of links, no NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
    raise FolderError(
        f"{shown(str(path), 200)} cannot be read: {reason}.",
        "Copy the folder again from where it is undamaged.",
    )


def read_inside(folder: Path, name: str, limit: int) -> bytes:
    """The content of a file of a folder, if it is no longer than its kind can be."""
    with open_inside(folder, name) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise FolderError(
            f"{folder / name} has more than {limit:,} bytes.",
            "Copy the folder again from where it is undamaged.",
        )
    return content
