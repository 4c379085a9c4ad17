"""How a run ends when it cannot or should not go on: the exit code says it, and what was saved is whole."""

import json
import shutil
import signal

import pytest

from clearhead.folder import RunFolder
from training.runs import checkpoints_in, log_of, losses_in, strays_in, weights_in

EVERY = {"train.save_every": 2, "train.validate_every": 3}


@pytest.fixture(scope="module")
def whole_run(nursery):
    assert nursery.run("uninterrupted", 6, EVERY)["codes"] == [0]
    return nursery.place / "uninterrupted"


@pytest.fixture
def begun(nursery, whole_run, request):
    """A run that was stopped in its middle."""
    name = f"begun-{abs(hash(request.node.name))}"
    assert nursery.run(name, 6, EVERY, signal=signal.SIGTERM, at_step=3)["codes"] == [143]
    return nursery.place / name


@pytest.mark.promise(5, "SIGTERM and Ctrl-C at 3 moments: 143 and 130, no strays")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("step", [1, 3, 6])
def test_a_signal_is_a_clean_stop_at_the_update_that_it_came_in(
    nursery, whole_run, number, code, step
):
    name = f"signal-{number}-{step}"
    answer = nursery.run(name, 6, EVERY, signal=number, at_step=step)
    run = nursery.place / name
    assert answer["codes"] == [code]
    assert checkpoints_in(run)[-1] == step
    assert not strays_in(run)
    assert not (run / "lock").exists()
    assert nursery.run(name, 6, EVERY)["codes"] == [0]
    assert weights_in(run) == weights_in(whole_run)
    assert losses_in(run) == losses_in(whole_run)


WAYS = {
    "accumulating": {"train.accumulate": 2},
    "in bf16": {"train.precision": "bf16"},
    "with Adam": {"train.optimizer": "adam", "train.schedule": "paper", "train.warmup_steps": 4},
    "with averages": {
        "train.optimizer": "adamw",
        "train.ema": 0.99,
        "train.average_last": 3,
        "train.schedule": "cosine",
    },
    "with word dropout": {
        "train.word_dropout": 0.2,
        "model.attention_dropout": 0.1,
        "model.dropout": 0.3,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[pytest.mark.bf16] if "bf16" in way else []) for way in WAYS]
)
def test_a_run_may_be_stopped_anywhere_in_any_way_of_training(nursery, way, world):
    settings, steps = EVERY | WAYS[way], 7
    name = f"way-{way.split()[-1]}-{world}"
    assert nursery.run(name, steps, settings, world=world)["codes"] == [0] * world
    for step in range(1, steps + 1):
        assert (
            nursery.run(f"{name}-{step}", steps, settings, world=world, signal=15, at_step=step)[
                "codes"
            ]
            == [143] * world
        )
        assert nursery.run(f"{name}-{step}", steps, settings, world=world)["codes"] == [0] * world
        assert weights_in(nursery.place / f"{name}-{step}") == weights_in(nursery.place / name)
        assert losses_in(nursery.place / f"{name}-{step}") == losses_in(nursery.place / name)


@pytest.mark.promise(5, "also with two processes")
@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_to_one_of_two_processes_stops_both_at_one_update(nursery, number, code, victim):
    name = f"pair-{number}-{victim}"
    answer = nursery.run(name, 6, EVERY, world=2, signal=number, at_step=3, victim=victim)
    assert code in answer["codes"]
    assert checkpoints_in(nursery.place / name)[-1] == 3
    assert nursery.run(name, 6, EVERY, world=2)["codes"] == [0, 0]
    assert nursery.run(f"{name}-whole", 6, EVERY, world=2)["codes"] == [0, 0]
    assert weights_in(nursery.place / name) == weights_in(nursery.place / f"{name}-whole")


@pytest.mark.promise(7, "exit 3")
def test_a_loss_that_is_not_finite_ends_with_code_3_and_names_the_layer(nursery, whole_run):
    answer = nursery.run("not-finite", 6, EVERY, spoil_at=5)
    assert answer["codes"] == [3]
    assert "tensor encoder.out" in answer["output"]
    assert "Traceback" not in answer["output"]
    run = nursery.place / "not-finite"
    assert checkpoints_in(run)[-1] == 4
    assert nursery.run("not-finite", 6, EVERY)["codes"] == [0]
    assert weights_in(run) == weights_in(whole_run)


def test_some_updates_that_are_not_finite_may_be_left_out(nursery):
    answer = nursery.run("skipped", 6, EVERY | {"train.skip_nonfinite": 1}, spoil_at=5)
    assert answer["codes"] == [0]
    steps = [line for line in log_of(nursery.place / "skipped") if line["kind"] == "step"]
    assert [line["loss"] is None for line in steps] == [False] * 4 + [True, False]


def test_a_disk_that_is_full_ends_with_code_4_and_keeps_the_last_good(nursery, begun, whole_run):
    before = {
        path: path.read_bytes() for path in (begun / "checkpoints").rglob("*") if path.is_file()
    }
    answer = nursery.run(begun.name, 6, EVERY, file_size=4_096)
    assert answer["codes"] == [4]
    assert "bytes needed" in answer["output"]
    assert "Traceback" not in answer["output"]
    assert {path: path.read_bytes() for path in before} == before
    assert not strays_in(begun)
    assert nursery.run(begun.name, 6, EVERY)["codes"] == [0]
    assert weights_in(begun) == weights_in(whole_run)


def test_two_runs_in_one_folder_are_refused_with_code_5(nursery, begun):
    with RunFolder(begun).lock():
        answer = nursery.run(begun.name, 6, EVERY)
    assert answer["codes"] == [5]
    assert "in use by process" in answer["output"]


@pytest.mark.parametrize(
    "change",
    [
        {"train.seed": 9},
        {"train.learning_rate": 0.5},
        {"model.d_model": 32},
        {"data.batch_tokens": 77},
        {"tokenizer.method": "characters"},
        {"train.max_steps": 99},
        {"train.budget": "50 steps"},
    ],
    ids=str,
)
def test_a_setting_that_would_make_it_another_run_is_refused_by_name(nursery, begun, change):
    answer = nursery.run(begun.name, 6, EVERY | change)
    assert answer["codes"] == [1]
    assert next(iter(change)) in answer["output"]
    assert checkpoints_in(begun)[-1] == 3


def test_settings_that_change_no_update_may_differ(nursery, begun, whole_run):
    changes = {
        "train.save_every": 1,
        "train.keep_checkpoints": 3,
        "train.skip_nonfinite": 2,
        "train.patience": 50,
    }
    assert nursery.run(begun.name, 6, EVERY | changes)["codes"] == [0]
    assert checkpoints_in(begun)[-3:] == [4, 5, 6]
    steps = [
        [line["loss"] for line in log_of(run) if line["kind"] == "step"]
        for run in (begun, whole_run)
    ]
    assert steps[0] == steps[1]


def test_a_run_goes_on_by_the_name_of_its_folder_alone(nursery, begun, whole_run):
    assert nursery.run(begun.name, args=["train", begun.name])["codes"] == [0]
    assert weights_in(begun) == weights_in(whole_run)


def test_other_examples_are_refused(nursery, begun):
    source = nursery.place / "source.txt"
    content = source.read_text()
    try:
        source.write_text(content.replace("cat", "cow"))
        answer = nursery.run(begun.name, 6, EVERY)
    finally:
        source.write_text(content)
    assert answer["codes"] == [1]
    assert "examples are not those" in answer["output"]


def test_a_folder_that_moves_with_its_files_goes_on(nursery, begun, whole_run):
    moved = begun.with_name(f"{begun.name}-moved")
    shutil.move(begun, moved)
    assert nursery.run(moved.name, 6, EVERY)["codes"] == [0]
    assert weights_in(moved) == weights_in(whole_run)


def test_a_run_is_finished_once_and_the_same_command_leaves_it_as_it_is(nursery, whole_run):
    before = weights_in(whole_run), losses_in(whole_run)
    assert nursery.run(whole_run.name, 6, EVERY)["codes"] == [0]
    assert (weights_in(whole_run), losses_in(whole_run)) == before


def test_the_log_is_json_lines_of_known_kinds(whole_run):
    kinds = {"plan", "step", "validation", "saved", "correction", "note", "chosen", "stopped"}
    for line in (whole_run / "metrics.jsonl").read_text().splitlines():
        assert json.loads(line, parse_constant=pytest.fail)["kind"] in kinds
