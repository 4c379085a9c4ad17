"""What is saved is found again, whole or not at all."""

import dataclasses
import hashlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from clearhead import tensors
from clearhead.errors import ClearheadError, FolderError, ModelFileError
from clearhead.folder import RunFolder
from clearhead.folder.history import SavedCounters
from clearhead.training.state import Counters

from .conftest import checkpoint_of, is_whole, state_of


@pytest.fixture
def saved(run) -> RunFolder:
    """A run with two checkpoints."""
    for step in (1, 2):
        run.checkpoints.save(*checkpoint_of(step))
    return run


def test_the_newest_is_found_by_whoever_comes_next(saved):
    newest = RunFolder(saved.path).checkpoints.newest()
    assert is_whole(newest, 2)
    assert newest.warnings == ()


def test_where_nothing_was_saved_nothing_is_found(run):
    assert run.checkpoints.newest() is None
    assert run.checkpoints.steps() == []
    (run.path / "checkpoints").mkdir()
    (run.path / "checkpoints" / "00000001.tmp-123").mkdir()
    assert run.checkpoints.newest() is None


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(saved):
    (saved.path / "checkpoints/00000002/state.json").write_text("{}")
    newest = saved.checkpoints.newest()
    assert is_whole(newest, 1)
    assert len(newest.warnings) == 1
    assert "00000002/state.json is damaged" in newest.warnings[0]
    assert RunFolder(saved.path).checkpoints.steps() == [1]


def test_a_damaged_checkpoint_is_replaced_when_its_step_comes_again(saved):
    (saved.path / "checkpoints/00000002/state.json").write_text("{}")
    checkpoints = RunFolder(saved.path).checkpoints
    checkpoints.save(*checkpoint_of(2))
    assert is_whole(checkpoints.newest(), 2)


def test_a_whole_checkpoint_is_never_written_again(saved):
    before = (saved.path / "checkpoints/00000002/manifest.json").stat()
    saved.checkpoints.save(2, {}, {"other": True})
    assert (saved.path / "checkpoints/00000002/manifest.json").stat() == before


@pytest.mark.parametrize("leftover", ["00000002", "00000002.bak", "notes"])
def test_a_run_never_begins_anew_in_silence(run, leftover):
    (run.path / "checkpoints" / leftover).mkdir(parents=True)
    with pytest.raises(FolderError, match="no checkpoint that is whole"):
        run.checkpoints.newest()


def edited(path: Path, change: Callable[[bytearray], object]) -> None:
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)


def flip(path: Path) -> None:
    edited(path, lambda content: content.__setitem__(
        at := random.randrange(len(content)), content[at] ^ 1 << random.randrange(8)
    ))  # fmt: skip


def truncate(path: Path) -> None:
    edited(path, lambda content: content.__delitem__(slice(random.randrange(len(content)), None)))


def blank(path: Path) -> None:
    """A page of zeros, as a disk may give back; not where zeros were already."""

    def change(content: bytearray) -> None:
        begin = random.choice([at for at, byte in enumerate(content) if byte])
        end = min(begin + 64, len(content))
        content[begin:end] = bytes(end - begin)

    edited(path, change)


def swap(path: Path) -> None:
    """Exchange with another file, of this checkpoint or the other."""
    others = [other for other in path.parent.parent.rglob("*") if other.is_file() and other != path]
    other = random.choice([other for other in others if other.read_bytes() != path.read_bytes()])
    mine = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(mine)


@pytest.mark.promise(4, "200 random damages: none loaded")
@pytest.mark.parametrize("edit", [flip, truncate, blank, Path.unlink, swap])
def test_no_damaged_checkpoint_is_ever_loaded(saved, tmp_path, edit):
    rolled_back = 0
    for number in range(40):
        random.seed(number)
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(saved.path, copy)
        edit(random.choice(sorted((copy / "checkpoints/00000002").iterdir())))
        try:
            newest = RunFolder(copy).checkpoints.newest()
        except FolderError:
            assert edit is swap, "the older one was whole"
        else:
            assert is_whole(newest, 1)
            rolled_back += 1
        with pytest.raises(ClearheadError):
            is_whole(RunFolder(copy).checkpoints.at(2), 2)
    assert rolled_back >= 10


def test_exchanged_folders_are_refused(saved):
    one, two = saved.path / "checkpoints/00000001", saved.path / "checkpoints/00000002"
    one.rename(one.with_name("aside"))
    two.rename(one)
    one.with_name("aside").rename(two)
    with pytest.raises(FolderError):
        saved.checkpoints.newest()


@pytest.mark.promise(4, "50 good ones: no false alarm")
def test_fifty_good_checkpoints_raise_no_false_alarm(run):
    for step in range(1, 51):
        run.checkpoints.save(step, {"weights": {"x": torch.randn(step)}}, state_of(step))
        newest = RunFolder(run.path).checkpoints.newest()
        assert (newest.step, newest.warnings) == (step, ())
    assert len(RunFolder(run.path).checkpoints.steps()) == 50


def test_pruning_keeps_the_last_and_the_best(run):
    for step in range(1, 8):
        run.checkpoints.save(*checkpoint_of(step))
    run.checkpoints.prune(keep_last=3, best=2)
    assert run.checkpoints.steps() == [2, 5, 6, 7]
    run.checkpoints.prune(keep_last=1, best=None)
    assert run.checkpoints.steps() == [6, 7], "two are kept at least"


def test_pruning_counts_only_what_is_whole(run):
    for step in range(1, 5):
        run.checkpoints.save(*checkpoint_of(step))
    for step in (3, 4):
        (run.path / f"checkpoints/0000000{step}/weights.safetensors").write_bytes(b"gone")
    checkpoints = RunFolder(run.path).checkpoints
    checkpoints.prune(keep_last=2, best=None)
    assert checkpoints.steps() == [1, 2]
    (run.path / "checkpoints/00000002/state.json").unlink()
    checkpoints.prune(keep_last=2, best=None)
    assert checkpoints.steps() == [1]


def test_a_missing_file_is_named_with_those_that_there_are(saved):
    with pytest.raises(
        FolderError, match=r"no average.\nIt holds: optimizer.safetensors, state.json, weights"
    ):
        saved.checkpoints.newest().tensors("average")


def test_the_newest_checkpoint_is_hashed_once_in_a_process(saved, monkeypatch):
    checkpoints = RunFolder(saved.path).checkpoints
    assert not checkpoints.open(2).is_verified
    assert checkpoints.newest().is_verified

    def refuse(*_: object) -> None:
        raise AssertionError("hashed again")

    monkeypatch.setattr(hashlib, "file_digest", refuse)
    monkeypatch.setattr(tensors, "preamble", refuse)  # without it no hash of tensors begins
    assert is_whole(checkpoints.newest(), 2)


def test_what_was_not_hashed_before_is_hashed_as_it_is_read(saved):
    newest = saved.checkpoints.newest()
    flip(newest.path / "optimizer.safetensors")
    with pytest.raises(ModelFileError):
        saved.checkpoints.at(2).tensors("optimizer")


def test_a_saved_state_is_what_training_counts():
    counters = {field.name for field in dataclasses.fields(Counters)}
    assert SavedCounters.model_fields.keys() == counters
