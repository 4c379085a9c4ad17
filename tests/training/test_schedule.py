"""How far a run has come, and the learning rate there."""

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import TrainConfig
from clearhead.training.optimizer import rate_factor
from clearhead.training.state import Course

SHARES = st.floats(0, 0.99)
PROGRESS = st.floats(0, 1)
SCHEDULES = ("stable", "cosine", "inverse-sqrt", "paper")


def stable(progress, warmup, decay):
    config = TrainConfig(schedule="stable", warmup=warmup, decay=decay)
    return rate_factor(config, 64, step=1, progress=progress)


def cosine(progress, warmup):
    config = TrainConfig(schedule="cosine", warmup=warmup)
    return rate_factor(config, 64, step=1, progress=progress)


def inverse_sqrt(step, warmup):
    config = TrainConfig(schedule="inverse-sqrt", warmup_steps=warmup)
    return rate_factor(config, 64, step=step, progress=0.5)


def paper(step, warmup, d_model):
    config = TrainConfig(schedule="paper", warmup_steps=warmup)
    return rate_factor(config, d_model, step=step, progress=0.5)


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
    factor = partial(rate_factor, TrainConfig(schedule=schedule, warmup_steps=100), 64)
    course = [factor(step, (step - 1) / 1_000) for step in range(1, 1_001)]
    assert course == [factor(step, (step - 1) / 1_000) for step in range(1, 1_001)]
    assert course[0] < 0.05 * max(course)
    assert course[-1] < max(course)


CORRECTIONS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 300)), max_size=6)


def corrected(steps, corrections):
    """A course that ran on from correction to correction, each at or after the one before it and before the end."""
    course, step = Course(steps), 0
    for later, total in corrections:
        if step + later < course.total:
            step += later
            course = course.corrected(step, total)
    return course


@given(steps=st.integers(1, 200), corrections=CORRECTIONS)
def test_progress_never_falls_and_goes_from_zero_to_one(steps, corrections):
    course = corrected(steps, corrections)
    progress = [course.progress(step) for step in range(course.total + 1)]
    assert progress == sorted(progress)
    assert progress[0] == 0
    assert progress[-1] == pytest.approx(1) or (
        course.corrections and course.corrections[-1].step == course.total
    )
    assert all(0 <= value <= 1 for value in progress)


@given(steps=st.integers(1, 200), corrections=CORRECTIONS)
def test_a_correction_changes_nothing_that_was_and_does_not_jump(steps, corrections):
    course = corrected(steps, corrections)
    step = course.corrections[-1].step if course.corrections else 0
    if step < course.total:
        later = course.corrected(step + 1, course.total + 50)
        assert [later.progress(n) for n in range(step + 2)] == [
            course.progress(n) for n in range(step + 2)
        ]


def test_a_course_never_ends_before_where_it_is():
    assert Course(100).corrected(60, 10).total == 60


def test_steps_fit_the_time_but_for_small_differences_and_one_is_always_left():
    course = Course(1_000)
    assert course.fitting_steps(100, seconds_left=450.0, seconds_per_step=1.0) == 550
    assert course.fitting_steps(100, seconds_left=890.0, seconds_per_step=1.0) == 1_000
    assert course.fitting_steps(100, seconds_left=-5.0, seconds_per_step=1.0) == 101
