"""It learns: tiny models master puzzles on rows that they have never seen, in seconds on one core."""

import pytest

from learning.puzzles import ANSWERS, classified, solved

STEPS = {"copy": 250, "reverse": 400, "sort": 350}
STEPS_FOR_CLASSES = 400
EXACT = 0.98


@pytest.mark.promise(9, "copy, reverse, sort: 98 % exact")
@pytest.mark.parametrize("puzzle", ANSWERS)
def test_learns_to_answer_rows_of_digits_exactly(puzzle):
    assert solved(puzzle, seed=0, steps=STEPS[puzzle]) >= EXACT


@pytest.mark.parametrize("architecture", ["lstm", "gru"])
def test_the_older_way_learns_as_well(architecture):
    """It takes longer to be exact: each word waits for the one before it."""
    assert solved("reverse", seed=0, steps=400, architecture=architecture) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["lstm", "gru"])
@pytest.mark.parametrize(
    "changes", [{}, {"attention": "additive"}, {"input_feeding": True}], ids=str
)
def test_the_older_way_learns_to_copy_exactly(architecture, changes):
    found = solved("copy", seed=1, steps=1_500, architecture=architecture, **changes)
    assert found >= EXACT


@pytest.mark.promise(9, "classify: 98 %")
def test_learns_to_tell_classes_apart():
    assert classified(seed=0, steps=STEPS_FOR_CLASSES) >= EXACT


@pytest.mark.promise(9, "from three more seeds")
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("puzzle", ANSWERS)
def test_learns_to_answer_rows_of_digits_exactly_from_any_seed(puzzle, seed):
    assert solved(puzzle, seed, STEPS[puzzle]) >= EXACT


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_learns_to_tell_classes_apart_from_any_seed(seed):
    assert classified(seed, STEPS_FOR_CLASSES) >= EXACT
