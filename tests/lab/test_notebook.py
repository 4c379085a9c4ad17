"""A notebook keeps every measured point, goes on after an interruption, and mixes nothing."""

import csv
import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.cli.main import main
from clearhead.errors import ConfigError, FolderError
from clearhead.lab import EXPERIMENTS, Experiment, Findings, perform
from clearhead.lab.figures import APART, COLOURS, INK, moved_apart

LIGHT, DARK = "#ffffff", "#0d1117"


@dataclass(frozen=True, kw_only=True)
class Squares(Experiment):
    title = "Squares"
    quick: ClassVar[dict[str, Any]] = {"n": 2}

    n: int = 4
    asked: ClassVar[list[int]] = []
    fails_at: ClassVar[int | None] = None

    def run(self, notebook, files):
        rows = notebook.measured("squares", [{"x": x} for x in range(self.n)], self.square)
        with notebook.picture("squares", "The squares", (3, 2)) as figure:
            figure.add_subplot().plot([row["y"] for row in rows])
        return Findings(said=("They grow.",), table=(("x", "y"), ("3", "9")))

    def square(self, point):
        if point["x"] == self.fails_at:
            raise KeyboardInterrupt
        self.asked.append(point["x"])
        return {"y": point["x"] ** 2, "why": "a product, of course"}


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    monkeypatch.setattr(Squares, "asked", [])
    monkeypatch.setattr(Squares, "fails_at", None)


def table(folder, name):
    with (folder / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_an_interrupted_experiment_goes_on_and_ends_with_the_rows_of_one_that_was_not(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(Squares, "fails_at", 2)
    with pytest.raises(KeyboardInterrupt):
        perform(Squares(), [], tmp_path / "a")
    assert [row["x"] for row in table(tmp_path / "a", "squares")] == ["0", "1"]
    monkeypatch.setattr(Squares, "fails_at", None)
    perform(Squares(), [], tmp_path / "a")
    assert Squares.asked == [0, 1, 2, 3]
    perform(Squares(), [], tmp_path / "b")
    names = ("squares.csv", "squares.svg", "squares.png", "report.md", "setup.json")
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert {path.name for path in (tmp_path / "a").iterdir()} == set(names)


def test_points_read_back_are_what_was_measured(tmp_path):
    experiment = Squares()
    perform(experiment, [], tmp_path / "a")
    assert "They grow." in str(perform(experiment, [], tmp_path / "a"))
    assert Squares.asked == [0, 1, 2, 3]  # the second time nothing was


def test_a_folder_of_another_experiment_is_refused(tmp_path):
    perform(Squares(), [], tmp_path)
    with pytest.raises(FolderError, match="another sizes"):
        perform(Squares(n=2), [], tmp_path)
    (tmp_path / "setup.json").write_text("[1, not JSON")
    with pytest.raises(FolderError, match="another experiment, sizes, files, machine, torch"):
        perform(Squares(), [], tmp_path)
    (tmp_path / "setup.json").unlink()
    with pytest.raises(FolderError, match="no experiment has written"):
        perform(Squares(), [], tmp_path)


def test_files_that_an_experiment_does_not_take_are_refused(tmp_path, capsys):
    with pytest.raises(ConfigError, match="takes no files, and was given 1"):
        perform(Squares(), ["x"], tmp_path)
    assert main(["lab", "heads", "--into", str(tmp_path)]) == 1
    assert "clearhead lab heads RUN TEST --into" in capsys.readouterr().err


def test_a_missing_matplotlib_is_one_clear_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["lab", "complexity", "--into", str(tmp_path / "x")]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == "Install it with: pip install 'clearhead[lab]'"
    assert not (tmp_path / "x").exists()


def test_quick_sizes_are_sizes_of_the_experiment():
    for kind in EXPERIMENTS.values():
        assert kind(**kind.quick) != kind()


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return sum(x * y for x, y in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


@pytest.mark.parametrize("paper", [LIGHT, DARK])
@pytest.mark.parametrize("colour", sorted({*COLOURS.values(), INK}))
def test_every_colour_is_legible_on_light_and_on_dark(colour, paper):
    low, high = sorted((luminance(colour), luminance(paper)))
    assert (high + 0.05) / (low + 0.05) >= 3  # WCAG's contrast for graphics and large text


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), min_size=1, max_size=8))
def test_labels_never_meet_and_keep_their_order(ends):
    places = moved_apart(ends)
    heights = sorted(places.values())
    assert all(b - a >= APART - 1e-9 for a, b in pairwise(heights))
    assert max(heights) <= 1 + 1e-9
    assert sorted(ends, key=ends.get) == sorted(places, key=places.get)
