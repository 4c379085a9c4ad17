"""The shows: their files of text, and what they say of a model that has learned nothing."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from clearhead.demo import SHOWS
from clearhead.demo.show import PARTS, shipped
from clearhead.errors import ConfigError


@pytest.mark.parametrize("task", SHOWS)
def test_a_show_writes_its_parts_as_files_and_leaves_those_that_are_there(task, tmp_path):
    show = SHOWS[task](None, tmp_path / "run")
    show.write_files()
    for number, suffix in enumerate(show.suffixes):
        assert [show.lines(part, number) for part in PARTS] == shipped(f"{task}.{suffix}")
    assert len(list(show.data.iterdir())) == 3 * len(show.suffixes)
    show.file("train").write_text("mine\n")
    show.write_files()
    assert show.lines("train") == ["mine"]


@pytest.mark.parametrize("task", SHOWS)
def test_a_show_trains_on_its_files_as_they_are_seen_from_the_run(task, tmp_path):
    show = SHOWS[task](None, tmp_path / "run")
    data = show.given()["data"]
    show.write_files()
    for file in (*data["files"], *data["validation_files"]):
        assert (show.into / file).resolve().is_relative_to(show.data)


@pytest.mark.parametrize(
    "test", [[], [("We see the old dog in the park.", "Wir sehen den alten Hund im Park.")]]
)
def test_a_translator_that_writes_nothing_is_shown_without_where_it_looked(test, tmp_path):
    def translate(texts):
        return [SimpleNamespace(text="") for _ in texts]

    told = io.StringIO()
    show = SHOWS["translation"](Console(file=told, width=100), tmp_path / "run")
    show.print_translations(SimpleNamespace(translate=translate), test)
    assert "Sentences it never saw" in told.getvalue()
    assert "Where it looked" not in told.getvalue()


@pytest.mark.parametrize("into", [".", "/", "runs/.."])
def test_a_show_has_a_folder_of_its_own(into):
    with pytest.raises(ConfigError, match="a folder of its own"):
        SHOWS["translation"](None, Path(into))
