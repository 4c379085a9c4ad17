"""The family of errors is the tree that errors.py draws."""

import copy
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead import errors
from clearhead.errors import ClearheadError, shown


def tree(family: type[ClearheadError], depth: int = 0) -> list[tuple[int, str, int]]:
    """Each class with its depth and exit code, parents before children, in the order of their definition."""
    branches = [branch for child in family.__subclasses__() for branch in tree(child, depth + 1)]
    return [(depth, family.__name__, family.exit_code), *branches]


def drawn() -> list[tuple[int, str, int]]:
    """The same, as the docstring draws it."""
    lines = re.findall(
        r"^    ([│├└─ ]*)(\w+Error) .*?(?:exit (\d))?$", errors.__doc__ or "", re.MULTILINE
    )
    return [(len(branch) // 4, name, int(code or 1)) for branch, name, code in lines]


def test_the_tree_in_the_docstring_is_the_tree_of_classes():
    assert drawn() == [entry for entry in tree(ClearheadError) if hasattr(errors, entry[1])]


def test_every_error_a_person_can_meet_is_defined_in_errors_py():
    assert {name for _, name, _ in tree(ClearheadError)} == {
        name for name in vars(errors) if name.endswith("Error")
    }


def test_exit_codes_are_those_of_the_command_line():
    codes = {name: code for _, name, code in tree(ClearheadError)}
    assert {name: code for name, code in codes.items() if code != 1} == {
        "NotFiniteError": 3, "DiskError": 4, "FolderInUseError": 5,
    }  # fmt: skip


@given(
    st.text()
    | st.integers()
    | st.binary()
    | st.lists(st.text())
    | st.text(st.characters(categories=["Cs"]))
)
def test_a_shown_value_is_one_short_line_of_plain_characters(value):
    text = shown(value)
    assert len(text) <= 80
    assert text.removesuffix("…").isascii()
    assert text.removesuffix("…").isprintable()


@pytest.mark.parametrize(
    "value", [10**5000, [10**5000], "x" * 10**6], ids=["digits", "digits inside", "letters"]
)
def test_a_value_too_long_to_write_is_shown_as_such(value):
    assert len(shown(value)) <= 80


def test_advice_stands_apart_from_the_message_and_survives_another_process():
    error = errors.DataError("line 3 has no tab", "Put one between source and target.")
    again = copy.copy(error)
    assert str(again) == "line 3 has no tab"
    assert again.advice == "Put one between source and target."
    assert again.whole == f"{error}\n{error.advice}"
    assert type(again.at("pairs.tsv")) is errors.DataError
    assert again.at("pairs.tsv").whole == f"pairs.tsv: {again.whole}"
