"""A plan comes back as it was written, also from the log of an earlier version, and a wrong one is refused."""

import json

import pytest
from pydantic import ValidationError

from clearhead.errors import FolderError
from clearhead.folder import RunFolder, RunPlan

from .conftest import CONFIG, PLAN, TOKENIZER

LOG = [
    {"kind": "plan", "reasons": ["tiny: it is fast"], "seconds": 60.5, "examples": "0123abcd"},
    {
        "kind": "inherited",
        "step": 0,
        "run": "runs/a",
        "taken": ["a", "b"],
        "left": [],
        "new": ["c"],
        "known_tokens": 0.5,
    },
    {"kind": "step", "step": 1, "epoch": 0.1, "loss": 2.0, "seconds": 0.1},
    {"kind": "correction", "step": 10, "progress": 0.1, "steps": 120},
    {"kind": "correction", "step": 20, "progress": 0.25, "steps": 90},
]


def test_a_plan_comes_back_as_it_was_written(tmp_path):
    run = RunFolder.create(tmp_path / "run", CONFIG, TOKENIZER, plan=PLAN)
    assert run.plan() == PLAN
    assert json.loads((run.path / "plan.json").read_bytes())["reasons"] == list(PLAN.reasons)
    other = PLAN.model_copy(update={"seconds": None, "corrections": (), "inherited": None})
    run.write_plan(other)
    assert run.plan() == other


def test_the_plan_of_an_earlier_version_is_found_in_the_log(run):
    run.write_config(CONFIG.but(train=CONFIG.train.but(max_steps=100)))
    for line in LOG:
        run.log.write(line)
    assert run.plan() == PLAN.model_copy(update={"n_examples": None})


def test_a_run_that_was_killed_before_it_wrote_its_plan_has_one_without_reasons(run):
    assert run.plan() == RunPlan(steps=0, seconds=0.0, reasons=())


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "the whole"),
        (b"[" * 99_999, "the whole"),
        (b"\xff", "the whole"),
        (b"{}", "steps"),
        (PLAN.model_dump_json().replace(":100,", ':"100",').encode(), "steps"),
        (PLAN.model_dump_json().replace("60.5", "NaN").encode(), "seconds"),
        (PLAN.model_dump_json().replace('["a","b"]', '"a"').encode(), "inherited.taken"),
        (PLAN.model_dump_json().replace("0.25", "{}").encode(), "corrections.1.1"),
        (PLAN.model_dump_json().replace("n_examples", "n\\u001b[31m").encode(), "n.x1b.31m"),
    ],
)
def test_a_file_that_is_no_plan_is_named_with_the_place(run, content, complaint):
    (run.path / "plan.json").write_bytes(content)
    with pytest.raises(FolderError, match=rf"plan.json is damaged: {complaint}"):
        run.plan()
    assert any("plan.json is damaged" in problem for problem in run.problems())


def test_a_plan_of_more_bytes_than_any_has_is_not_read(run):
    (run.path / "plan.json").write_bytes(b" " * 2**23)
    with pytest.raises(FolderError, match=r"plan.json has more than [\d,]+ bytes"):
        run.plan()


@pytest.mark.parametrize("line", [{"kind": "plan", "reasons": 7}, {"kind": "correction"}])
def test_a_log_with_a_wrong_plan_is_named(run, line):
    run.log.write(line)
    with pytest.raises(FolderError, match=r"metrics.jsonl is damaged: (reasons|corrections\.0)"):
        run.plan()


def test_a_plan_cannot_be_changed_or_made_wrong():
    with pytest.raises(ValidationError):
        PLAN.steps = 7
    with pytest.raises(ValidationError):
        RunPlan(steps=-1, seconds=None, reasons=())
