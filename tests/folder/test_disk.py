"""A disk that is full or cannot be written costs the save that met it, and nothing that was saved before."""

import io
import os
import re
import resource
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from clearhead import disk
from clearhead.errors import DiskError
from clearhead.folder import RunFolder

from .conftest import PLAN, checkpoint_of, created, in_child, is_whole, strays

BIG = (9, {"weights": {"x": torch.ones(100_000)}}, {})
"""A checkpoint of 400,000 bytes."""


def mount(*options: str) -> bool:
    return subprocess.run(["mount", *options], capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[RunFolder]:
    """A run with a checkpoint on a disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or not mount("-t", "tmpfs", "-o", "size=1m", "none", str(place)):
        pytest.skip("only root may make a small disk, and not everywhere")
    run = created(place / "run")
    run.checkpoints.save(*checkpoint_of(1))
    yield run
    subprocess.run(["umount", str(place)], check=True)


def refused(run: RunFolder, reason: str, code: int, message: str) -> None:
    """The right exit, an error that says where, why, how much was needed and free, and the last good one whole."""
    assert code == DiskError.exit_code == 4
    assert str(run.path) in message
    assert reason in message
    assert re.search(r"\(400,000 bytes needed, [\d,]+ free\)", message)
    assert len(message.splitlines()) <= 3
    assert strays(run.path) == []
    assert is_whole(RunFolder(run.path).checkpoints.newest(), 1)


@pytest.mark.promise(8, "too little room")
def test_a_disk_with_too_little_room_is_refused_before_anything_is_written(small_disk):
    small_disk.checkpoints.save(8, {"weights": {"x": torch.ones(70_000)}}, {})
    small_disk.checkpoints.path.joinpath("00000008/manifest.json").unlink()
    refused(small_disk, "2.2 times its size", *in_child(lambda: small_disk.checkpoints.save(*BIG)))


@pytest.mark.promise(8, "full on the way")
def test_a_disk_that_fills_up_on_the_way(small_disk, monkeypatch):
    monkeypatch.setattr(disk, "SPARE", 0)
    (small_disk.path / "filler").write_bytes(bytes(800_000))
    refused(
        small_disk, "No space left on device", *in_child(lambda: small_disk.checkpoints.save(*BIG))
    )


@pytest.mark.promise(8, "read-only")
def test_a_disk_that_is_read_only(small_disk):
    assert mount("-o", "remount,ro", str(small_disk.path.parent))
    refused(
        small_disk, "Read-only file system", *in_child(lambda: small_disk.checkpoints.save(*BIG))
    )
    with pytest.raises(DiskError, match="Read-only"), small_disk.lock():
        pass


@pytest.mark.promise(8, "a limit on the size of files")
def test_a_limit_on_the_size_of_files(run):
    run.checkpoints.save(*checkpoint_of(1))

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        run.checkpoints.save(*BIG)

    refused(run, "File too large", *in_child(limited))


@pytest.mark.promise(8, "a device that takes nothing")
def test_a_device_that_takes_nothing(run):
    run.checkpoints.save(*checkpoint_of(1))

    def full() -> None:
        plain = io.open
        io.open = lambda path, mode="r", *rest: (
            io.BufferedWriter(io.FileIO("/dev/full", "wb"))
            if "optimizer" in str(path)
            else plain(path, mode, *rest)
        )
        run.checkpoints.save(
            9, {"weights": BIG[1]["weights"], "optimizer": {"x": torch.empty(0)}}, {}
        )

    refused(run, "No space left on device", *in_child(full))


def test_weights_and_log_lines_that_cannot_be_written_are_disk_errors_too(small_disk, monkeypatch):
    monkeypatch.setattr(disk, "SPARE", 0)
    before = small_disk.model().state_dict()
    small_disk.log.write({"step": 1})
    filler = small_disk.path / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    for write in (
        lambda: small_disk.write_weights(before),
        lambda: small_disk.log.write({"text": "x" * 10_000}),
    ):
        with pytest.raises(DiskError, match="No space left"):
            write()
    filler.unlink()
    small_disk.write_plan(PLAN)
    assert small_disk.problems() == []
