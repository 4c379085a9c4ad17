"""Measures of what an output owes to its input, and how far they agree."""

import numpy as np
import pytest
import torch
from looks import look_at

from clearhead.errors import ModelError
from clearhead.metrics import spearman


def test_every_measure_has_a_row_for_what_was_said_and_a_column_for_what_was_read(look):
    found = look.reasons()
    assert list(found.measures) == [
        "attention",
        "weighted attention",
        "gradient × input",
        "removal",
    ]
    for name, table in found.measures.items():
        assert table.shape == (len(found.said), len(found.read)), name
        if look.family != "decoder":
            assert np.isfinite(table).all()
    assert all(
        np.isnan(value) or -1 - 1e-9 <= value <= 1 + 1e-9 for value in found.agreement.values()
    )
    assert "rank agreement" in str(found)


def test_every_word_that_was_read_is_in_the_printed_tables(build):
    source = tuple(range(5, 8)) * 5
    printed = str(look_at(build(), source=(*source, 2)).reasons())
    assert "more columns" not in printed
    assert printed.splitlines()[1].split() == ["w5", "w6", "w7"] * 5


def test_what_comes_later_is_no_reason(build):
    look = look_at(build(family="decoder"), target=(1, 5, 6, 7, 9))
    for table in look.reasons().measures.values():
        later = np.triu(np.ones_like(table, dtype=bool))  # a word is not read while it is said
        assert np.isnan(table[later]).all()
        assert np.isfinite(table[~later]).all()


def test_where_the_source_is_not_read_taking_words_away_changes_nothing(build):
    silent = {f"decoder.{layer}.cross.z": torch.zeros_like for layer in range(2)}
    found = look_at(build(), edits=silent, taps=silent).reasons()
    assert np.abs(found.measures["removal"]).max() < 1e-5
    assert np.abs(found.measures["gradient × input"]).max() < 1e-6


def test_removal_is_the_difference_that_a_word_makes(build):
    model = build()
    look = look_at(model, source=(5, 9, 6, 2), target=(1, 6, 9))
    without = look_at(model, source=(5, 6, 2), target=(1, 6, 9))
    lost = np.array(look.log_probs) - np.array(without.log_probs)
    assert look.reasons().measures["removal"][:, 1] == pytest.approx(lost[:-1], abs=1e-5)


def test_nothing_said_has_no_reasons(build):
    with pytest.raises(ModelError, match="Nothing was said"):
        look_at(build(family="encoder"), source=(5, 6, 7)).reasons()


def test_rank_correlation_knows_order_alone():
    values = np.array([0.1, 0.5, 0.2, 0.9])
    assert spearman(values, np.exp(values)) == pytest.approx(1)
    assert spearman(values, -values) == pytest.approx(-1)
    assert spearman(np.array([1.0, 2, 2, 3]), np.array([1.0, 2, 2, 3])) == pytest.approx(1)
    assert np.isnan(spearman(values, np.ones(4)))
