"""The number of threads follows the machine, costs next to nothing, and a resumed run repeats it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.training import StepReport, ThreadChange, train
from clearhead.training import loop as loop_module
from clearhead.training.pace import COST, EVERY, N_UPDATES, Pace
from training.tiny import MemoryKeeper, same, tiny_job, weights_of

TOKENS = 100


class Machine:
    """A machine on which an update takes as long as the number of threads and the hour say."""

    def __init__(self, seconds, most: int = 2, begin: int = 2) -> None:
        self.seconds, self.now, self.step = seconds, 0.0, 0
        self.pace = Pace(begin, most, 0.0)
        self.spent: dict[int, float] = {}

    def run(self, until: float) -> None:
        while self.now < until:
            took = self.seconds(self.pace.threads, self.now)
            self.now, self.step = self.now + took, self.step + 1
            self.spent[self.pace.threads] = self.spent.get(self.pace.threads, 0.0) + took
            self.pace.note(self.step, took, TOKENS, self.now)


def test_beside_a_busy_program_one_thread_is_found_and_left_again_when_it_has_gone():
    def seconds(threads: int, now: float) -> float:
        busy = 200 < now < 1_000
        return {1: 1.0 if busy else 0.9, 2: 2.0 if busy else 0.5}[threads]

    machine = Machine(seconds)
    machine.run(199)
    assert machine.pace.threads == 2
    machine.run(200 + 2 * EVERY)
    assert machine.pace.threads == 1
    machine.run(1_000 + 6 * EVERY)
    assert machine.pace.threads == 2


@given(st.floats(1.0, 10.0), st.floats(0.1, 5.0))
def test_trials_on_a_steady_machine_cost_little(slower: float, update: float):
    machine = Machine(lambda threads, _: update if threads == 2 else slower * update)
    machine.run(1_800)
    lost = machine.spent.get(1, 0.0) * (1 - 1 / slower)
    one_trial = N_UPDATES * (slower - 1) * update
    assert lost <= COST * 1_800 + 2 * one_trial


def test_the_best_of_many_threads_is_found():
    best = {n: (abs(n - 8) + 5) / 50 for n in (1, 2, 4, 8, 16, 32, 64)}
    machine = Machine(lambda threads, _: best[threads], most=64, begin=64)
    machine.run(600)
    assert machine.pace.threads == 8


def test_on_a_single_processor_nothing_is_tried():
    pace = Pace(1, 1, 0.0)
    seconds = [0.5, 0.5, 0.5, 2.0, 2.0, 2.0, 0.5, 0.5, 0.5] * 10
    assert not any(pace.note(step, took, TOKENS, 30.0 * step) for step, took in enumerate(seconds))


def test_a_run_that_goes_on_changes_threads_at_the_same_steps_and_no_bit(monkeypatch):
    before, asked = torch.get_num_threads(), []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    changes = (ThreadChange(3, 1), ThreadChange(5, 2), ThreadChange(8, 1))
    keeper = MemoryKeeper()
    settings = {"save_every": 4, "keep_checkpoints": 100, "steps": 10}
    whole = tiny_job(keeper, thread_changes=changes, **settings)
    story = list(train(whole))
    assert [each for each in story if isinstance(each, ThreadChange)] == list(changes)
    rest = MemoryKeeper({4: keeper.kept[4]})
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    asked.clear()
    again = tiny_job(rest, thread_changes=changes, **settings)
    later = list(train(again))
    assert asked == [1, 2]  # at the checkpoint, and at step 5; at step 8 it is 1 by the patch
    assert [each for each in later if isinstance(each, ThreadChange)] == list(changes[1:])
    assert same(weights_of(whole), weights_of(again))
    assert before == 1


@pytest.mark.parametrize("threads", [0, 1])
def test_only_a_run_whose_threads_are_not_given_tries_others(monkeypatch, threads):
    clock = [0.0]
    monkeypatch.setattr(loop_module.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(loop_module, "n_processors", lambda: 2)
    in_force = [2]
    monkeypatch.setattr(torch, "get_num_threads", lambda: in_force[-1])
    monkeypatch.setattr(torch, "set_num_threads", in_force.append)
    update = loop_module.update

    def timed(*args, **kwargs):
        clock[0] += 2.0 / in_force[-1] ** 2 if clock[0] < 20 else 4.0 * in_force[-1] ** 2
        return update(*args, **kwargs)

    monkeypatch.setattr(loop_module, "update", timed)
    reports = list(train(tiny_job(steps=60, threads=threads)))
    assert sum(isinstance(each, StepReport) for each in reports) == 60
    found = [each for each in reports if isinstance(each, ThreadChange)]
    assert bool(found) == (threads == 0)
    if found:
        assert any(each.is_faster and each.threads == 1 for each in found)
        assert in_force[-1] == 1
