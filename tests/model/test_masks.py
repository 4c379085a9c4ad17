"""Masks say who may look at whom."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.model import masks

counts = st.integers(0, 6)


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=5))
def test_everyone_sees_the_real_tokens_and_nothing_else(rows):
    real = torch.tensor(rows)
    mask = masks.padding(real)
    assert mask.any(dim=-1).all(), "no row is ever empty"
    assert mask.shape == (len(rows), 1, 1, 4)
    seen = real[real.any(dim=1)]
    assert torch.equal(mask[real.any(dim=1), 0, 0], seen)


@given(st.integers(1, 6), counts)
def test_a_causal_row_sees_what_stands_before_it_and_itself(n_new, n_past):
    mask = masks.causal(n_new, n_past)
    for t in range(n_new):
        assert mask[t].tolist() == [s <= n_past + t for s in range(n_past + n_new)]


@given(st.lists(counts, min_size=1, max_size=4), st.integers(1, 4), counts)
def test_a_row_that_starts_later_sees_nothing_from_before_its_start(starts, n_new, n_past):
    mask = masks.causal_from(torch.tensor(starts), n_new, n_past)
    assert mask.any(dim=-1).all(), "no row is ever empty"
    for row, start in enumerate(starts):
        for t in range(n_new):
            here = n_past + t
            expected = [start <= s <= here or s == here for s in range(n_past + n_new)]
            assert mask[row, 0, t].tolist() == expected
