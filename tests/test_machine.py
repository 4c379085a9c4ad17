"""What differs between machines is asked of the machine, and a "no" is survived."""

import os
import signal

import pytest
import torch

from clearhead import machine
from clearhead.config import TrainConfig
from clearhead.errors import ConfigError, DiskError

DIES = f"import os, signal; os.kill(os.getpid(), {int(signal.SIGILL)})"


def test_a_child_that_dies_by_a_signal_is_a_no():
    assert not machine.survives(DIES)
    assert not machine.survives("raise SystemExit(1)")
    assert machine.survives("pass")


def test_bf16_where_it_kills_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(machine, "BF16_PRODUCT", DIES)
    cpu = torch.device("cpu")
    with pytest.raises(ConfigError, match=r'train.precision = "bf16".*do not work'):
        machine.is_bf16("bf16", cpu)
    assert not machine.is_bf16("auto", cpu)
    assert not machine.is_bf16("fp32", cpu)


def test_nobody_asks_a_child_who_does_not_want_bf16(monkeypatch):
    monkeypatch.setattr(machine, "survives", lambda _: pytest.fail("a child was started"))
    assert not machine.is_bf16(TrainConfig().precision, torch.device("cpu"))


@pytest.mark.parametrize(("running", "idle"), [(0, 8), (1, 8), (2, 7), (9, 0), (30, 0)])
def test_processors_are_idle_where_no_other_program_runs(monkeypatch, running, idle):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(machine, "in_proc", lambda path, name: running)  # 0 where nobody tells
    assert machine.n_idle() == idle


def test_processors_are_those_that_this_process_may_use():
    assert 1 <= machine.n_processors() <= (os.cpu_count() or 1)


def test_the_cache_goes_where_the_system_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert machine.cache_folder() == tmp_path / "clearhead"


def test_a_cache_that_cannot_be_written_is_an_error_that_says_what_to_set(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    with pytest.raises(DiskError, match=rf"{tmp_path}/file cannot be written to") as error:
        machine.cache_folder()
    assert "XDG_CACHE_HOME" in error.value.advice
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert machine.cache_folder() == tmp_path / "home/.cache/clearhead"
    monkeypatch.setattr(os, "access", lambda folder, mode: folder != tmp_path)
    with pytest.raises(DiskError, match=rf"{tmp_path} cannot be written to"):
        machine.cache_folder()


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)  # in no list of users
    with pytest.raises(DiskError, match="home directory") as error:
        machine.cache_folder()
    assert "XDG_CACHE_HOME" in error.value.advice
