"""One process at a time writes to a run: the kernel keeps the lock until the process ends or dies.

The file says who holds it, for people, and for the file systems whose kernel keeps no locks.
"""

import fcntl
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clearhead.disk import alive, disk_errors
from clearhead.errors import FolderInUseError, shown

OWNER = re.compile(r"([0-9]{1,9}) (\S{1,255})\n")
HELD: set[int] = set()
"""Descriptors of the locks that this process holds."""


def let_go() -> None:
    """A forked child owns no lock, or an orphan would keep that of its dead parent."""
    for descriptor in HELD:
        os.close(descriptor)
    HELD.clear()


os.register_at_fork(after_in_child=let_go)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock, or refuse at once, naming who does."""
    with disk_errors(path):
        descriptor = acquire(path)
    try:
        yield
    finally:
        if descriptor in HELD:
            HELD.remove(descriptor)
            path.unlink(missing_ok=True)
            os.close(descriptor)


def acquire(path: Path) -> int:
    """A locked descriptor of the file that has this name now, and of none that was just removed."""
    while True:
        descriptor = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666
        )
        owner = OWNER.fullmatch(os.read(descriptor, 300).decode("utf-8", "replace"))
        if is_taken(descriptor, owner):
            os.close(descriptor)
            who = f"process {owner[1]} on {shown(owner[2])}" if owner else "another process"
            raise FolderInUseError(
                f"{path.parent} is in use by {who}.", "Wait until it ends, or stop it."
            )
        if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
            break
        os.close(descriptor)
    HELD.add(descriptor)
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
    return descriptor


def is_taken(descriptor: int, owner: re.Match[str] | None) -> bool:
    """Whether another process holds the lock; if the kernel cannot say, whether it may be alive."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return owner is not None and (owner[2] != socket.gethostname() or alive(int(owner[1])))
    return False
