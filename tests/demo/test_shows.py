"""The shows: their files of text."""

import pytest

from clearhead.demo import SHOWS
from clearhead.demo.show import PARTS, shipped


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
    config = show.config()
    assert config.task == task
    show.write_files()
    for file in (*config.data.files, *config.data.validation_files):
        assert (show.into / file).resolve().is_relative_to(show.data)
