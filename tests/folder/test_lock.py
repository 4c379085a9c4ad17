"""One process at a time writes to a run."""

import errno
import fcntl
import os
import signal
import socket
import warnings

import pytest

from clearhead.errors import FolderInUseError
from clearhead.folder import RunFolder

from .conftest import in_child


def hold(run: RunFolder) -> None:
    with run.lock():
        pass


def test_a_second_process_is_refused_and_told_who_was_first(run):
    with run.lock():
        code, message = in_child(lambda: hold(RunFolder(run.path)))
    assert code == FolderInUseError.exit_code == 5
    assert f"in use by process {os.getpid()} on {socket.gethostname()}" in message
    assert in_child(lambda: hold(run)) == (0, "")


def test_a_second_lock_in_the_same_process_is_refused(run):
    with run.lock(), pytest.raises(FolderInUseError):
        hold(RunFolder(run.path))
    assert not (run.path / "lock").exists()


def test_a_lock_is_released_when_the_work_fails(run):
    with pytest.raises(ZeroDivisionError), run.lock():
        1 / 0  # noqa: B018
    hold(run)


def killed_holding(run: RunFolder) -> int:
    """The number of a process that was killed while it held the lock."""

    def act() -> None:
        with run.lock():
            os.kill(os.getpid(), signal.SIGKILL)

    code, _ = in_child(act)
    assert code == -signal.SIGKILL
    return int((run.path / "lock").read_text().split()[0])


def test_the_lock_of_a_dead_process_is_taken_over(run):
    killed_holding(run)
    hold(run)
    assert not (run.path / "lock").exists()


def test_children_hold_no_lock_of_their_parent(run):
    def child() -> None:
        with pytest.raises(FolderInUseError):
            hold(RunFolder(run.path))

    with run.lock():
        assert in_child(child)[0] == 0
        assert (run.path / "lock").exists(), "a child must not take the parent's lock away"


def test_an_orphan_does_not_keep_the_lock_of_its_dead_parent(run):
    reader, writer = os.pipe()

    def parent() -> None:
        with run.lock():
            if os.fork() == 0:
                os.close(writer)
                os.read(reader, 1)  # lives until the test ends
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # newer Pythons warn of forks beside threads
        pid = os.fork()
    if pid == 0:
        parent()
    os.waitpid(pid, 0)
    try:
        hold(run)
    finally:
        os.close(writer)
        os.close(reader)


@pytest.mark.parametrize(("host", "free"), [(socket.gethostname(), True), ("elsewhere", False)])
def test_without_locks_in_the_kernel_a_dead_owner_on_this_host_is_taken_over(
    run, monkeypatch, host, free
):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    dead = killed_holding(run)
    monkeypatch.setattr(fcntl, "flock", refuse)
    (run.path / "lock").write_text(f"{dead} {host}\n")
    if free:
        hold(run)
        (run.path / "lock").write_text(f"{os.getppid()} {host}\n")
    with pytest.raises(FolderInUseError):
        hold(run)


def test_strays_of_the_dead_are_swept_and_those_of_the_living_are_not(run):
    dead = killed_holding(run)
    (run.path / "checkpoints").mkdir()
    for pid in (dead, os.getpid(), os.getppid()):
        (run.path / f"weights.safetensors.tmp-{pid}").touch()
        (run.path / f"checkpoints/00000001.tmp-{pid}").mkdir()
        (run.path / f"checkpoints/00000001.tmp-{pid}/weights.safetensors").touch()
    hold(run)
    left = sorted(path.name for path in run.path.rglob("*.tmp-*"))
    assert left == [f"00000001.tmp-{os.getppid()}", f"weights.safetensors.tmp-{os.getppid()}"]


def test_a_folder_in_which_nothing_could_be_begun_goes(tmp_path):
    made, there = tmp_path / "made", tmp_path / "there"
    there.mkdir()
    for path in (made, there):
        with pytest.raises(ValueError, match="no"), RunFolder(path).lock():
            raise ValueError("no")
    assert not made.exists()
    assert there.exists()
    with RunFolder(made).lock():
        (made / "file").touch()
    assert (made / "file").exists()
