"""Position vectors, against the paper's formula."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from clearhead.errors import ModelError
from clearhead.model.positions import LearnedPositions, SinusoidalPositions, sinusoids


@given(st.integers(0, 5000), st.integers(0, 7))
def test_sines_and_cosines_alternate_as_the_paper_writes_them(position, i):
    vector = sinusoids(torch.tensor(position), 16)
    angle = position / 10_000 ** (2 * i / 16)
    assert vector[2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
    assert vector[2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


@given(st.integers(0, 500), st.integers(2, 64).map(lambda n: 2 * n))
def test_a_step_of_k_is_one_linear_map_wherever_it_is_taken(k, d_model):
    turn = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10_000 ** (2 * i / d_model)
        turn[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor(
            [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
        )
    positions = torch.arange(1500)
    assert_close(
        sinusoids(positions, d_model) @ turn.T,
        sinusoids(positions + k, d_model),
        atol=1e-5,
        rtol=1e-5,
    )


def test_sinusoids_go_on_beyond_the_table_as_they_began():
    short, long = SinusoidalPositions(16, n_kept=8), SinusoidalPositions(16, n_kept=64)
    positions = torch.arange(5, 60)[None]
    assert torch.equal(short(positions, 60), long(positions, 60))


def test_a_translation_may_be_longer_than_the_table(build, ids):
    model = build(n_encoder_layers=1, n_decoder_layers=1)
    n = len(model.decoder.positions.table) + 3
    logits = model(ids(1, 4), ids(1, n))
    assert logits.shape == (1, n, 23)
    assert logits.isfinite().all()
    assert_close(logits[:, : n - 5], model(ids(1, 4), ids(1, n)[:, : n - 5]), atol=1e-5, rtol=1e-5)


def test_learned_positions_are_rows_of_their_table():
    learned = LearnedPositions(4, 6)
    torch.nn.init.normal_(learned.table)
    assert torch.equal(learned(torch.tensor([[5, 0]]), 6), learned.table[[5, 0]][None])


def test_a_sequence_beyond_learned_positions_is_an_error_that_names_the_setting():
    with pytest.raises(ModelError, match=r"7 tokens.*model\.max_positions = 6.*\n.*sinusoidal"):
        LearnedPositions(4, 6)(torch.arange(7)[None], 7)
