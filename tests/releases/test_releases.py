"""Old models load for good: a small run of every release is kept here, with what it said."""

import json
from pathlib import Path

import pytest

from clearhead import __version__
from clearhead.cli.main import main
from releases.make import HERE, said

RELEASES = sorted(path.parent for path in HERE.glob("*/said.json"))
KEPT = [release / name for release in RELEASES for name in ("mt", "chat", "mood", "bard", "books")]


def test_this_release_has_its_runs():
    """`python -m releases.make`, in tests, makes them when the version changes."""
    assert HERE / __version__ in RELEASES


@pytest.mark.promise(10, "a run of every task and release: the text it said, numbers within 1e-4")
@pytest.mark.parametrize("run", KEPT, ids=lambda run: f"{run.parent.name}-{run.name}")
def test_an_old_run_says_what_it_said(run: Path):
    expected = json.loads((run.parent / "said.json").read_text())[run.name]
    found = said(run)
    assert found["text"] == expected["text"]
    assert found["numbers"] == pytest.approx(expected["numbers"], abs=1e-4)


@pytest.mark.parametrize("run", KEPT, ids=lambda run: f"{run.parent.name}-{run.name}")
def test_nothing_is_wrong_with_an_old_run(run: Path, capsys):
    assert main(["verify", str(run)]) == 0, capsys.readouterr().out
