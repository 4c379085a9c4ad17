"""Masks say who may look at whom."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.model import masks


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=5))
def test_everyone_sees_the_real_tokens_and_nothing_else(rows):
    real = torch.tensor(rows)
    mask = masks.padding(real)
    assert mask.any(dim=-1).all(), "no row is ever empty"
    assert mask.shape == (len(rows), 1, 1, 4)
    seen = real[real.any(dim=1)]
    assert torch.equal(mask[real.any(dim=1), 0, 0], seen)


@given(st.integers(1, 6))
def test_a_causal_row_sees_what_stands_before_it_and_itself(n):
    mask = masks.causal(n)
    for t in range(n):
        assert mask[t].tolist() == [s <= t for s in range(n)]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(1, 6))
def test_a_row_that_starts_later_sees_nothing_from_before_its_start(starts, n):
    mask = masks.causal_from(torch.tensor(starts), n)
    assert mask.any(dim=-1).all(), "no row is ever empty"
    for row, start in enumerate(starts):
        for t in range(n):
            assert mask[row, 0, t].tolist() == [start <= s <= t or s == t for s in range(n)]
