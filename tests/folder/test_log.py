"""Reports are appended, read back and cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import FolderError

REPORTS = st.lists(st.fixed_dictionaries({"step": st.integers(0, 9), "loss": st.floats(0, 9), "text": st.text(
    st.characters(exclude_categories=["Cs"])
)}), max_size=8)  # fmt: skip


@given(REPORTS, st.integers(0, 9))
def test_cutting_keeps_exactly_what_lies_up_to_the_step(steady_run, reports, step):
    steady_run.log.path.unlink(missing_ok=True)
    for report in reports:
        steady_run.log.write(report)
    assert list(steady_run.log.lines()) == reports
    before = steady_run.log.path.read_bytes().splitlines(keepends=True) if reports else []
    steady_run.log.cut(step)
    kept = [line for line, report in zip(before, reports, strict=True) if report["step"] <= step]
    assert steady_run.log.path.read_bytes() == b"".join(kept)


def test_a_report_without_a_step_belongs_to_the_one_before(run):
    for report in ({"begin": 1}, {"step": 1}, {"sample": "a"}, {"step": 2}, {"sample": "b"}):
        run.log.write(report)
    run.log.cut(1)
    assert list(run.log.lines()) == [{"begin": 1}, {"step": 1}, {"sample": "a"}]
    run.log.cut(0)
    assert list(run.log.lines()) == [{"begin": 1}]


def test_lines_appear_at_once(run):
    assert list(run.log.lines()) == []
    run.log.write({"step": 1})
    assert run.log.path.read_bytes() == b'{"step": 1}\n'


def test_a_line_that_was_never_finished_is_none(run):
    run.log.write({"step": 1})
    with run.log.path.open("a") as file:
        file.write('{"step": 2')
    assert list(run.log.lines()) == [{"step": 1}]


@pytest.mark.parametrize("line", ["{]", "[1]", '{"step": "x"}', "[" * 99_999, "x" * 2**21])
def test_a_line_that_is_no_report_is_named(run, line):
    run.log.write({"step": 1})
    with run.log.path.open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(FolderError, match=r"metrics.jsonl:2 is not a report"):
        list(run.log.lines())
