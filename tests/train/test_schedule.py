"""The learning rate's course."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import TrainConfig
from clearhead.train.schedule import cosine, inverse_sqrt, learning_rate_factor, paper, stable

SHARES = st.floats(0, 0.99)
PROGRESS = st.floats(0, 1)
SCHEDULES = ("stable", "cosine", "inverse-sqrt", "paper")


@given(progress=PROGRESS, warmup=SHARES, decay=st.floats(0.01, 1))
def test_shaped_schedules_stay_between_zero_and_the_peak(progress, warmup, decay):
    assert 0 <= stable(progress, warmup, decay) <= 1
    assert 0 <= cosine(progress, warmup) <= 1


@given(warmup=SHARES, decay=st.floats(0.01, 1))
def test_shaped_schedules_end_at_zero(warmup, decay):
    assert stable(1.0, warmup, decay) == 0
    assert cosine(1.0, warmup) == pytest.approx(0, abs=1e-12)


@given(progress=st.floats(0, 0.999), warmup=st.floats(0.01, 0.9), decay=st.floats(0.05, 1))
def test_shaped_schedules_do_not_jump(progress, warmup, decay):
    near = progress + 1e-6
    steepest = max(1 / warmup, 1 / decay, math.pi / (1 - warmup))
    assert abs(stable(near, warmup, decay) - stable(progress, warmup, decay)) <= 1.01e-6 * steepest
    assert abs(cosine(near, warmup) - cosine(progress, warmup)) <= 1.01e-6 * steepest


@given(step=st.integers(1, 10**6), warmup=st.integers(1, 10**5), d_model=st.integers(1, 4096))
def test_the_papers_rate_is_its_formula_and_peaks_when_the_warmup_ends(step, warmup, d_model):
    assert paper(step, warmup, d_model) == pytest.approx(
        d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    )
    assert (
        paper(step, warmup, d_model)
        <= paper(warmup, warmup, d_model)
        == pytest.approx((d_model * warmup) ** -0.5)
    )


def test_the_papers_base_model_peaks_at_the_rate_everyone_quotes():
    assert paper(4_000, 4_000, 512) == pytest.approx(7e-4, rel=0.01)


@given(step=st.integers(1, 10**6), warmup=st.integers(1, 10**5))
def test_inverse_sqrt_is_the_papers_shape_with_a_peak_of_one(step, warmup):
    assert inverse_sqrt(step, warmup) == pytest.approx(
        paper(step, warmup, 1) / paper(warmup, warmup, 1)
    )
    assert 0 < inverse_sqrt(step, warmup) <= inverse_sqrt(warmup, warmup) == 1


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_rises_from_almost_nothing_and_is_a_pure_function(schedule):
    factor = learning_rate_factor(TrainConfig(schedule=schedule, warmup_steps=100), 64)
    course = [factor(step, (step - 1) / 1_000) for step in range(1, 1_001)]
    assert course == [factor(step, (step - 1) / 1_000) for step in range(1, 1_001)]
    assert course[0] < 0.05 * max(course)
    assert course[-1] < max(course)
