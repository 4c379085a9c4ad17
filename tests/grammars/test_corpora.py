"""The text that ships with the package: what the grammars write, and small."""

import bz2

import pytest

from clearhead.demo.show import shipped
from examples.grammars.corpora import DATA, corpora, packed


@pytest.fixture(scope="module")
def written():
    return corpora()


def test_the_shipped_files_are_what_the_grammars_write_byte_for_byte(written):
    assert {path.name for path in DATA.iterdir()} == {f"{name}.bz2" for name in written}
    for name, parts in written.items():
        found = (DATA / f"{name}.bz2").read_bytes()
        assert packed(parts) == found, "run: python -m examples.grammars.corpora"


def test_every_line_is_read_as_the_grammar_made_it(written):
    for name, parts in written.items():
        assert shipped(name) == parts


def test_a_word_is_packed_as_its_place_in_a_list_and_line_ends_stay():
    coded = bz2.decompress(packed([["a b", "b"], ["c\ta"]])).decode()
    assert coded == 'a| b|b|c\n !\n"\n\n#\t '


def test_the_files_take_at_most_600_kilobytes():
    assert sum(path.stat().st_size for path in DATA.iterdir()) <= 600_000
