"""Nothing breaks it: odd uses of the command line end with a clear line, in time, and by no signal."""

import pytest

from hostile.fuzz import drawn, failures

CASES, MANY = 504, 5_000


def told(n: int, start: int) -> str:
    return "\n".join(map(str, failures(drawn(n, start))))


@pytest.mark.promise(12, "504 odd uses of the command line: no mistake, no hang, no signal")
def test_five_hundred_odd_uses_end_as_they_should():
    """`script/fuzz` tries more of them, and others."""
    assert told(CASES, start=20) == ""


@pytest.mark.promise(12, "5,000 of them, with script/fuzz")
@pytest.mark.slow
def test_five_thousand_odd_uses_end_as_they_should():
    assert told(MANY, start=21) == ""
