"""What may be said anew about a run that goes on, and what its plan is made by."""

import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from any_settings import FIELDS, values
from clearhead.config import PRESETS, Mark, assigned, layered, mark
from clearhead.errors import ConfigError, DiskError
from clearhead.folder import RunFolder
from clearhead.tasks import TASKS
from clearhead.tasks import fit as fit_module
from clearhead.tasks.fit import continued, fit
from hostile.place import TINY, write_data
from tasks.random_runs import random_folder

FREE = {path for path in FIELDS if mark(*path.split(".")) is Mark.FREE} - {"train.budget"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    path = tmp_path_factory.mktemp("runs") / "run"
    return RunFolder(random_folder(path, "translation", "encoder-decoder"))


@given(
    st.sampled_from(sorted(FIELDS.keys() - {"train.budget"})).flatmap(
        lambda path: st.tuples(st.just(path), values(FIELDS[path]))
    )
)
def test_a_run_goes_on_with_other_settings_only_where_no_update_depends_on_them(folder, setting):
    (path, value), stored = setting, folder.config()
    section, name = path.split(".")
    given = {section: {name: value}}
    try:
        now = stored.but(**{section: getattr(stored, section).but(**{name: value})})
    except ConfigError:  # a value that contradicts others
        assume(False)
    if path in FREE or now == stored:
        assert continued(folder, given, "translation") == now
    else:
        with pytest.raises(ConfigError, match=f"was begun with {path} = (.|\n)* another run"):
            continued(folder, given, "translation")


@pytest.mark.parametrize(
    ("before", "after", "fine"),
    [("45m", "2 hours", True), ("45m", "900 steps", False), ("9 epochs", "10 epochs", False)],
)
def test_a_time_may_grow_and_a_number_of_updates_may_not(tmp_path, before, after, fine):
    run = RunFolder(random_folder(tmp_path / "run", "translation", "encoder-decoder"))
    config = run.config()
    run.write_config(config.but(train=config.train.but(budget=before)))
    if fine:
        now = continued(run, {"train": {"budget": after}}, "translation")
        assert now.train.budget == after
        return
    with pytest.raises(ConfigError, match=f"begun with train.budget = {before}, and {after}"):
        continued(run, {"train": {"budget": after}}, "translation")


def test_another_task_or_another_size_would_be_another_run(folder):
    with pytest.raises(ConfigError, match="was begun with task = translation, and chat would"):
        continued(folder, {}, "chat")
    for size in PRESETS:
        with pytest.raises(ConfigError, match=r"was begun with model\.d_model = 16"):
            continued(folder, {"size": size}, "translation")


def test_nothing_said_leaves_all_as_it_is(folder):
    assert continued(folder, {}, "translation") == folder.config()


def test_a_time_budget_is_planned_by_the_device_that_trains(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "pairs.tsv").write_text("a b c\tc b a\n" * 40)
    seen = []

    class SeenError(Exception):
        """Enough was seen."""

    def record(model, train, **what):
        seen.append(what["device"])
        raise SeenError

    monkeypatch.setattr(fit_module, "device_for", lambda name: torch.device("meta"))
    monkeypatch.setattr(fit_module, "measured_speed", record)
    given = {"data": {"files": ["../pairs.tsv"]}, "train": {"budget": "1m"}}
    with pytest.raises(SeenError):
        list(fit(TASKS["translation"], given, tmp_path / "run"))
    assert seen == [torch.device("meta")]


@pytest.mark.parametrize("at", range(0, 8, 2))
@pytest.mark.parametrize("is_moved", [True, False])
def test_a_run_that_is_moved_or_deleted_while_it_trains_ends_and_is_not_made_by_half(
    tmp_path, monkeypatch, is_moved, at
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_data(tmp_path)
    files = {"data": {"files": [str(tmp_path / name) for name in ("train.en", "train.de")]}}
    more = ["train.max_steps=6", "train.save_every=1"]
    run, other = tmp_path / "run", tmp_path / "other"
    reports = fit(TASKS["translation"], layered(files, assigned([*TINY, *more])), run)
    for _ in range(at + 1):
        next(reports)
    run.rename(other)
    if not is_moved:
        shutil.rmtree(other)
    with pytest.raises(DiskError, match=r"run/.* cannot be written: No such file") as met:
        list(reports)
    assert "moved meanwhile" in met.value.advice
    assert not run.exists()
    if is_moved:
        list(fit(TASKS["translation"], layered(files, assigned([*TINY, *more])), other))
        assert RunFolder(other).has_weights()
