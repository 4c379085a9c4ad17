"""A run that is killed and started again by the same command ends as one that was not, to the last bit."""

import json
import random
import re

import pytest

from training.runs import checkpoints_in, log_of, losses_in, strays_in, weights_in

STEPS = 3
OFTEN = {
    "train.save_every": 1,
    "train.validate_every": STEPS,
    "train.ema": 0.0,
    "train.score_sample": 1,
}


def kind_of(event):
    """The same event in another save, or by another process."""
    return event[0], re.sub(r"tmp-[0-9a-f-]+|[0-9]{8}", "", event[1])


def last_of_each_kind(events):
    """The number of the last event of each kind, which has all others before it; those that must be there are."""
    last = {kind_of(event): number for number, event in enumerate(events)}
    for kind in [
        ("os.mkdir", "checkpoints/."),
        ("torn write", "checkpoints/./manifest.json"),
        ("os.rename", "checkpoints/."),
        ("os.rename", "checkpoints/"),
        ("torn line", "metrics.jsonl"),
        ("os.rename", "weights.safetensors."),
    ]:
        assert kind in last, f"{kind} is not among {sorted(last)}"
    return last


def assert_same_run(run, other):
    assert weights_in(run) == weights_in(other)
    assert losses_in(run) == losses_in(other)
    assert not strays_in(run)


def killed_and_resumed(nursery, name, event, settings, **order):
    """Kill a run at a file event, look at what is left, and go on with it."""
    steps = order.pop("steps")
    killed = nursery.run(name, steps, settings, watch=True, kill_at=event, **order)
    assert -9 in killed["codes"], killed
    run = nursery.place / name
    done = max((line["step"] for line in complete_lines(run) if line["kind"] == "step"), default=0)
    assert done - max(checkpoints_in(run), default=0) <= settings["train.save_every"], (
        "more than one interval is lost"
    )
    resumed = nursery.run(name, steps, settings, world=order.get("world", 1))
    assert set(resumed["codes"]) == {0}, resumed["output"]
    return run


def complete_lines(run):
    """The log, but for a last line that was torn."""
    path = run / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


@pytest.fixture(scope="module")
def whole_run(nursery):
    answer = nursery.run("whole", STEPS, OFTEN, watch=True)
    assert answer["codes"] == [0], answer["output"]
    return nursery.place / "whole", answer["events"]


@pytest.mark.promise(1, "a kill at each kind of file event of a save")
def test_a_kill_at_any_kind_of_file_event_costs_nothing_but_the_work_since_the_last_save(
    nursery, whole_run
):
    whole, events = whole_run
    last = last_of_each_kind(events)
    for number in sorted(last.values()):
        run = killed_and_resumed(nursery, f"killed-{number}", number, OFTEN, steps=STEPS)
        assert_same_run(run, whole)


@pytest.mark.promise(1, "a kill at every file event of a run")
@pytest.mark.slow
def test_a_kill_at_every_file_event_of_a_run_costs_nothing_but_the_work_since_the_last_save(
    nursery, whole_run
):
    whole, events = whole_run
    for number in range(len(events)):
        assert_same_run(
            killed_and_resumed(nursery, f"every-{number}", number, OFTEN, steps=STEPS), whole
        )


@pytest.mark.promise(1, "either of two processes killed")
@pytest.mark.slow
def test_a_kill_of_either_of_two_processes_costs_nothing_but_the_work_since_the_last_save(nursery):
    whole = nursery.run("whole-of-two", STEPS, OFTEN, watch=True, world=2)
    assert whole["codes"] == [0, 0]
    last = last_of_each_kind(whole["events"])
    for number in sorted(last.values()):
        run = killed_and_resumed(nursery, f"first-{number}", number, OFTEN, steps=STEPS, world=2)
        assert_same_run(run, nursery.place / "whole-of-two")
    for step in (1, 2, 3):  # the second process writes nothing: it dies during an update
        nursery.run(f"second-{step}", STEPS, OFTEN, world=2, victim=1, signal=9, at_step=step)
        assert nursery.run(f"second-{step}", STEPS, OFTEN, world=2)["codes"] == [0, 0]
        assert_same_run(nursery.place / f"second-{step}", nursery.place / "whole-of-two")


def kills_at_random(nursery, n, seed, steps=30, **model):
    settings = {"train.save_every": 3, "train.validate_every": 10, **model}
    choice = random.Random(seed)
    whole = nursery.run(f"calm-{seed}", steps, settings)
    assert whole["codes"] == [0], whole["output"]
    for number in range(n):
        name = f"random-{seed}-{number // 4}"  # four kills on the way of each run, then another run
        after = choice.uniform(0.1, 1.0) * whole["seconds"]
        nursery.run(name, steps, settings, kill_after=after)
        if number % 4 == 3 or number == n - 1:
            assert nursery.run(name, steps, settings)["codes"] == [0]
            assert_same_run(nursery.place / name, nursery.place / f"calm-{seed}")


@pytest.mark.promise(2, "a few kills, at each change")
def test_a_few_kills_at_random_moments_change_no_bit(nursery):
    kills_at_random(nursery, 4, seed=1)


def test_a_few_kills_of_a_recurrent_run_change_no_bit_either(nursery):
    model = {"model.architecture": "lstm", "model.input_feeding": True, "model.dropout": 0.2}
    kills_at_random(nursery, 4, seed=4, **model)


@pytest.mark.promise(2, "20 kills at random moments: weights and losses identical")
@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_twenty_kills_at_random_moments_change_no_bit(nursery, seed):
    kills_at_random(nursery, 20, seed)


def test_a_damaged_checkpoint_is_passed_over_and_costs_its_interval(nursery, whole_run):
    whole, events = whole_run
    commit = [
        n for n, event in enumerate(events) if kind_of(event) == ("os.rename", "checkpoints/.")
    ][-1]
    nursery.run("damaged", STEPS, OFTEN, watch=True, kill_at=commit)
    run = nursery.place / "damaged"
    newest = checkpoints_in(run)[-1]
    weights = run / "checkpoints" / f"{newest:08d}" / "optimizer.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    resumed = nursery.run("damaged", STEPS, OFTEN)
    assert resumed["codes"] == [0]
    assert_same_run(run, whole)
    notes = [line["text"] for line in log_of(run) if line["kind"] == "note"]
    assert any("optimizer.safetensors is damaged" in note for note in notes)
