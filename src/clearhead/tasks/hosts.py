"""Hosts that share no disk: the first process sends its run folder to the others.

What they get lies in a temporary folder and goes with them: only the first process writes to the
run. Where the disk is shared, nothing is sent.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from clearhead.errors import FolderError, shown
from clearhead.folder import RunFolder
from clearhead.folder.run import LOCK
from clearhead.training import Ranks

PIECE = 1 << 24
"""Bytes sent at a time."""


@contextmanager
def seen_by_all(folder: RunFolder, ranks: Ranks) -> Iterator[tuple[RunFolder, Callable[[], None]]]:
    """The run as this process can read it, and what all must call to see newer files of it."""
    if ranks.world == 1 or is_shared(folder, ranks):
        yield folder, lambda: None
        return
    with tempfile.TemporaryDirectory(prefix="clearhead-") as place:
        copy = folder if ranks.first else RunFolder(Path(place) / folder.path.name)

        def send() -> None:
            send_files(folder, copy.path, ranks)

        send()
        yield copy, send


def is_shared(folder: RunFolder, ranks: Ranks) -> bool:
    """Whether all processes see the lock that the first one holds."""
    path = folder.path / LOCK
    here = path.read_bytes() if path.exists() else b""
    n_without = torch.tensor(float(here != ranks.bytes_from_first(here)), device=ranks.device)
    return not ranks.add_up(n_without)


def send_files(folder: RunFolder, copy: Path, ranks: Ranks) -> None:
    """Copy the files of the first process's folder to each of the others."""
    files = [*folder.path.glob("*"), *folder.checkpoints.path.glob("*/*")]
    names = [str(file.relative_to(folder.path)) for file in files if file.is_file()]
    for name in json.loads(ranks.bytes_from_first(json.dumps(names).encode())):
        path = copy / name
        if not path.resolve().is_relative_to(copy.resolve()):
            raise FolderError(
                f"The first process sent a file {shown(name)}.", "Trust no such host."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb" if ranks.first else "wb") as file:
            while piece := ranks.bytes_from_first(file.read(PIECE) if ranks.first else b""):
                if not ranks.first:
                    file.write(piece)
