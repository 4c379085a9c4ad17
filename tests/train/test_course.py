"""Progress under a number of updates that is corrected on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.train.course import Course, fitting_steps

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
    assert fitting_steps(course, 100, seconds_left=450.0, seconds_per_step=1.0) == 550
    assert fitting_steps(course, 100, seconds_left=890.0, seconds_per_step=1.0) == 1_000
    assert fitting_steps(course, 100, seconds_left=-5.0, seconds_per_step=1.0) == 101
