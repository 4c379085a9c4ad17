"""Checkpoints: each is a folder, written atomically and never again, that proves its content.

A manifest, written last, names every file with its size and SHA-256; the folder has a stray's name
until all of it is on the disk. So a kill at any moment leaves the checkpoints that there were, or
those and the new one.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from clearhead.config import FORMAT
from clearhead.disk import (
    STRAY,
    HashedFile,
    atomic_folder,
    discard,
    disk_errors,
    new_file,
    open_inside,
    read_inside,
)
from clearhead.errors import ClearheadError, FolderError, shown
from clearhead.folder.history import SavedState
from clearhead.tensors import read_tensors, write_tensors

MANIFEST, STATE = "manifest.json", "state.json"
FILE = re.compile(r"[a-z][a-z0-9_-]{0,63}\.(json|safetensors)")
STEP = re.compile(r"[0-9]{8}|[1-9][0-9]{8,14}")
MAX_MANIFEST, MAX_STATE = 2**20, 8 * 2**20
KEPT = 2
"""Whole checkpoints that are never removed: should the disk spoil one, there is another."""


class Checkpoint:
    """A checkpoint of a run; a file is refused that differs from what its manifest says."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name, self.path = root, name, root / name
        self.step = int(self.path.name)
        self.is_verified = False
        """Whether the content of all files has been hashed, and need not be as they are read."""
        self.warnings: tuple[str, ...] = ()
        """Why newer checkpoints were passed over."""
        self.files = self.manifest()
        self.state = self.read_state()

    def manifest(self) -> dict[str, tuple[int, str]]:
        """Size and hash of each file, from a manifest that is to the byte as we would write it."""
        content = read_inside(self.root, f"{self.name}/{MANIFEST}", MAX_MANIFEST)
        try:
            files = json.loads(content)["files"]
            is_ours = content == manifest(self.step, files) and all(map(FILE.fullmatch, files))
            if is_ours and STATE in files:
                return {name: (proof["size"], proof["sha256"]) for name, proof in files.items()}
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            pass
        raise self.damaged(MANIFEST, "it does not say what a manifest says")

    def read_state(self) -> dict[str, Any]:
        """All that is not a tensor."""
        content = read_inside(self.root, f"{self.name}/{STATE}", MAX_STATE)
        if hashlib.sha256(content).hexdigest() != self.files[STATE][1]:
            raise self.damaged(STATE, "its SHA-256 is not that of the manifest")
        state = SavedState.parsed(content, self.path / STATE)
        if state.counters.step != self.step:
            raise self.damaged(STATE, f"it is of step {state.counters.step}")
        return state.model_dump()

    def tensors(self, name: str, expected: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """The tensors of a file; with some `expected`, only the same names, dtypes and shapes."""
        file = f"{name}.safetensors"
        if file not in self.files:
            raise FolderError(
                f"{self.path} holds no {shown(name)}.",
                f"It holds: {', '.join(sorted(self.files))}.",
            )
        return read_tensors(
            self.root,
            f"{self.name}/{file}",
            sha256=self.files[file][1],
            is_verified=self.is_verified,
            expected=expected,
        )

    def verify(self) -> None:
        """Refuse if a file is not what the manifest says, in size and, once, in content."""
        for name, (size, sha256) in self.files.items():
            with open_inside(self.root, f"{self.name}/{name}") as file:
                found = os.fstat(file.fileno()).st_size
                if found != size:
                    raise self.damaged(name, f"it has {found:,} bytes instead of {shown(size)}")
                if (
                    not self.is_verified
                    and hashlib.file_digest(file, "sha256").hexdigest() != sha256
                ):
                    raise self.damaged(name, "its SHA-256 is not that of the manifest")
        self.is_verified = True

    def damaged(self, file: str, reason: str) -> FolderError:
        return FolderError(
            f"{self.path / file} is damaged: {reason}.",
            f"Remove {self.path} to resume from an older one.",
        )


class Checkpoints:
    """The checkpoints of a run. One process writes them, and holds the folder's lock."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name, self.path = root, name, root / name
        self.whole: set[int] = set()
        """Steps of which this process has written or hashed every byte: sizes are enough then."""

    def save(
        self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
    ) -> Path:
        """Commit a checkpoint: named files of tensors, and a state that JSON can hold.

        The manifest is written last.
        """
        path = self.path / f"{step:08d}"
        if step in self.found() and isinstance(self.tried(step), Checkpoint):
            return path
        needed = sum(tensor.nbytes for file in tensors.values() for tensor in file.values())
        with disk_errors(path, needed):
            self.root.stat()  # a run that was moved or deleted meanwhile is not made anew, by half
        with atomic_folder(path, needed) as folder:
            files: dict[str, Any] = {}
            for name, group in tensors.items():
                assert FILE.fullmatch(f"{name}.safetensors"), name
                with new_file(folder / f"{name}.safetensors") as file:
                    write_tensors(file, group)
                files[f"{name}.safetensors"] = proof(file)
            with new_file(folder / STATE) as file:
                file.write(json.dumps(state).encode())
            files[STATE] = proof(file)
            with new_file(folder / MANIFEST) as file:
                file.write(manifest(step, files))
        self.whole.add(step)
        return path

    def newest(self) -> Checkpoint | None:
        """The newest that is whole, with warnings about newer ones that are not.

        None, if there is nothing; where there is something, a run never begins anew in silence.
        """
        warnings: list[str] = []
        for step in reversed(self.found()):
            found = self.tried(step)
            if isinstance(found, Checkpoint):
                found.warnings = tuple(warnings)
                return found
            warnings.append(str(found))
        if entries := self.entries():
            reason = warnings[0] if warnings else f"{shown(entries[0])} is not a checkpoint."
            raise FolderError(
                f"{self.path} holds no checkpoint that is whole: {reason}",
                f"Put back what belongs there, or remove {self.path} to start over.",
            )
        return None

    def at(self, step: int) -> Checkpoint | None:
        return self.open(step) if step in self.found() else None

    def open(self, step: int) -> Checkpoint:
        return Checkpoint(self.root, f"{self.name}/{step:08d}")

    def tried(self, step: int) -> Checkpoint | ClearheadError:
        """The checkpoint of a step, or why it is not whole; it is hashed once in a process."""
        try:
            checkpoint = self.open(step)
            checkpoint.is_verified = step in self.whole
            checkpoint.verify()
        except ClearheadError as error:
            return error
        self.whole.add(step)
        return checkpoint

    def steps(self) -> list[int]:
        """The steps of all that are whole, oldest first."""
        return [step for step in self.found() if isinstance(self.tried(step), Checkpoint)]

    def prune(self, keep_last: int, best: int | None) -> None:
        """Remove what is older than the last few whole ones, if there are some; the best stays."""
        kept = self.steps()[-max(keep_last, KEPT) :]
        for step in self.found() if len(kept) >= KEPT else ():
            if step < kept[0] and step != best:
                with disk_errors(self.path):
                    discard(self.path / f"{step:08d}")

    def problems(self) -> list[str]:
        try:
            entries = self.entries()
        except FolderError as error:
            return [error.whole]
        strangers = [name for name in entries if not STEP.fullmatch(name)]
        tried = map(self.tried, self.found())
        return [
            *(f"{self.path / name} is not a checkpoint." for name in strangers),
            *(found.whole for found in tried if isinstance(found, ClearheadError)),
        ]

    def found(self) -> list[int]:
        return sorted(int(name) for name in self.entries() if STEP.fullmatch(name))

    def entries(self) -> list[str]:
        """All that lies there but strays, never whole, and hidden files, which are not ours."""
        if self.path.is_symlink():
            raise FolderError(
                f"{self.path} is a link, and a run is one whole.",
                "Move the whole run there instead.",
            )
        names = sorted(path.name for path in self.path.iterdir()) if self.path.is_dir() else []
        return [name for name in names if not STRAY.fullmatch(name) and not name.startswith(".")]


def proof(file: HashedFile) -> dict[str, Any]:
    return {"size": file.size, "sha256": file.sha256.hexdigest()}


def manifest(step: int, files: Mapping[str, Any]) -> bytes:
    """The one way in which a manifest is written."""
    return json.dumps({"format": FORMAT, "step": step, "files": files}, indent=1).encode() + b"\n"
