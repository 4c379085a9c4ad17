"""What is written appears whole or not at all; kills and full disks are tried in tests/folder."""

import os
import time
from pathlib import Path

import pytest

from clearhead import disk
from clearhead.disk import atomic_file, atomic_folder, make_folder, sweep
from clearhead.errors import DiskError


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_file_has_its_old_content_until_the_new_is_complete(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with atomic_file(path) as file:
        file.write(b"ne")
        file.write(b"w")
        assert path.read_bytes() == b"old"
    assert (path.read_bytes(), file.size) == (b"new", 3)
    assert content(tmp_path) == {"a": "new"}


def test_a_folder_has_no_name_until_it_is_complete(tmp_path):
    path = tmp_path / "in" / "a"
    with atomic_folder(path) as folder:
        (folder / "1").write_text("one")
        assert not path.exists()
    assert content(path) == {"1": "one"}
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("atomic", [atomic_file, atomic_folder])
def test_a_block_that_fails_leaves_the_folder_as_it_was(tmp_path, atomic):
    with pytest.raises(KeyboardInterrupt), atomic(tmp_path / "a"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_of_two_that_make_one_folder_the_quicker_is_kept_if_it_is_whole(tmp_path):
    path = tmp_path / "a"
    for was_whole, kept in ((True, "quicker"), (False, "slower")):
        with atomic_folder(path, is_whole=lambda path: path.exists() and was_whole) as slower:  # noqa: B023
            (slower / "1").write_text("slower")
            with atomic_folder(path) as quicker:
                (quicker / "1").write_text("quicker")
        assert content(path) == {"1": kept}
        assert list(tmp_path.iterdir()) == [path]


def test_a_file_in_the_place_of_a_folder_is_replaced(tmp_path):
    (tmp_path / "a").write_text("in the way")
    with atomic_folder(tmp_path / "a") as folder:
        (folder / "1").write_text("one")
    assert content(tmp_path / "a") == {"1": "one"}


def test_all_that_is_in_a_folder_is_on_the_disk_before_the_folder_has_its_name(
    tmp_path, monkeypatch
):
    events = []

    def noted(path):
        events.append((Path(path).name.partition(".")[0], (tmp_path / "a").exists()))

    monkeypatch.setattr(disk, "sync", noted)
    with atomic_folder(tmp_path / "a") as folder:
        (folder / "1").touch()
        (folder / "2").touch()
    assert sorted(events[:-2]) == [("1", False), ("2", False)]
    assert events[-2:] == [("a", False), (tmp_path.name.partition(".")[0], True)]


def test_a_disk_that_refuses_is_named_with_its_reason(tmp_path):
    (tmp_path / "file").touch()
    for atomic in (atomic_file, atomic_folder):
        with (
            pytest.raises(DiskError, match=r"file.a cannot be written: Not a directory \([\d,]+ f"),
            atomic(tmp_path / "file" / "a"),
        ):
            pass


def test_strays_are_swept_by_their_owner_or_where_machines_share_a_folder_by_their_age(tmp_path):
    strays = [tmp_path / f"a.tmp-{pid}-0123abcd" for pid in (os.getpid(), os.getppid())]
    for stray in strays:
        make_folder(stray)
        (stray / "file").touch()
    sweep(tmp_path, idle=60)
    assert all(stray.exists() for stray in strays)
    sweep(tmp_path)
    assert [stray.exists() for stray in strays] == [False, True]
    hour_ago = time.time() - 3600
    os.utime(strays[1], (hour_ago, hour_ago))
    sweep(tmp_path, idle=60)
    assert strays[1].exists(), "a file in it is young"
    os.utime(strays[1] / "file", (hour_ago, hour_ago))
    sweep(tmp_path, idle=60)
    assert list(tmp_path.iterdir()) == []
