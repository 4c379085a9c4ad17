"""The number of threads that decode follows the machine, and nobody notices but by the clock."""

import pytest
import torch

from clearhead.decode import ALONE, Alone, Search, decode, stream
from clearhead.decode import threads as threads_module
from clearhead.decode.threads import COST, EVERY, IN_TURN, Steps, Threads
from decode.test_search import same


class Machine:
    """A machine on which a step takes as long as the number of threads and the hour say."""

    def __init__(self, monkeypatch, seconds, most: int = 2, idle: int | None = None) -> None:
        self.seconds, self.now, self.most, self.in_force = seconds, 0.0, most, most
        self.threads, self.spent, self.asked = Threads(), dict[int, float](), set[int]()
        monkeypatch.setattr(torch, "get_num_threads", lambda: self.in_force)
        monkeypatch.setattr(torch, "set_num_threads", self.use)
        monkeypatch.setattr(
            threads_module.machine, "n_idle", lambda: most if idle is None else idle
        )
        for clock in ("monotonic", "perf_counter"):
            monkeypatch.setattr(threads_module.time, clock, lambda: self.now)

    def use(self, number: int) -> None:
        self.in_force = number
        self.asked.add(number)

    def compute(self) -> None:
        took = self.seconds(self.in_force, self.now)
        self.now += took
        self.spent[self.in_force] = self.spent.get(self.in_force, 0.0) + took

    def run(self, until: float, n_steps: int = 30) -> None:
        """Search after search, each of so many steps."""
        while self.now < until:
            steps = Steps(self.threads)
            for _ in range(n_steps):
                with steps.step():
                    self.compute()
                assert self.in_force == self.most, "between steps the number is the caller's"


def test_beside_a_busy_program_one_thread_is_found_and_left_again_when_it_has_gone(monkeypatch):
    def seconds(threads: int, now: float) -> float:
        busy = 50 < now < 200
        return 0.01 * {1: 1.1 if busy else 1.6, 2: 2.5 if busy else 1.0}[threads]

    machine = Machine(monkeypatch, seconds)
    machine.run(49)
    assert machine.threads.number(2) == 2
    machine.run(50 + 3 * EVERY)
    assert machine.threads.number(2) == 1
    machine.run(200 + 3 * EVERY)
    assert machine.threads.number(2) == 2


@pytest.mark.parametrize("growth", [0.9, 1.0, 1.15])
def test_steps_that_grow_or_shrink_mislead_nobody(monkeypatch, growth):
    steps = iter(range(10**6))
    machine = Machine(
        monkeypatch,
        lambda threads, _: 0.01 * growth ** (next(steps) % 30) * (1.0 if threads == 2 else 1.05),
    )
    machine.run(60)
    assert machine.threads.number(2) == 2


@pytest.mark.parametrize("slower", [1.0, 1.5, 4.0, 20.0])
def test_trials_on_a_steady_machine_cost_little(monkeypatch, slower):
    machine = Machine(monkeypatch, lambda threads, _: 0.02 * (1.0 if threads == 2 else slower))
    machine.run(300)
    one_trial = len(IN_TURN) / 2 * 0.02 * (slower - 1)
    assert machine.spent.get(1, 0.0) * (1 - 1 / slower) <= COST * 300 + 2 * one_trial
    assert machine.spent[1], "it was tried"


def test_the_best_of_many_threads_is_found(monkeypatch):
    machine = Machine(monkeypatch, lambda threads, _: 0.001 * (abs(threads - 8) + 5), most=64)
    machine.run(60)
    assert machine.threads.number(64) == 8


@pytest.mark.parametrize(("idle", "begins_with"), [(0, 1), (1, 1), (3, 3), (64, 4)])
def test_a_process_begins_with_as_many_threads_as_there_are_idle_processors(
    monkeypatch, idle, begins_with
):
    machine = Machine(monkeypatch, lambda threads, now: 0.01, most=4, idle=idle)
    assert machine.threads.number(4) == begins_with


@pytest.mark.parametrize(("gain", "found"), [(1.2, 1), (1.4, 2)])
def test_more_threads_than_idle_processors_must_gain_more(monkeypatch, gain, found):
    machine = Machine(
        monkeypatch, lambda threads, now: 0.01 / (gain if threads == 2 else 1), idle=1
    )
    machine.run(20)
    assert machine.threads.number(2) == found


def test_a_trial_that_goes_badly_ends_early(monkeypatch):
    machine = Machine(monkeypatch, lambda threads, now: 0.02 * (1 if threads == 2 else 9))
    machine.run(EVERY)
    assert machine.spent[1] == pytest.approx(9 * 0.02)


def test_where_the_caller_allows_one_thread_nothing_is_tried(monkeypatch):
    machine = Machine(monkeypatch, lambda threads, now: 0.01, most=1)
    machine.run(20)
    assert not machine.asked
    machine.threads.chosen = 4  # as found when more were allowed
    machine.run(40)
    assert not machine.asked


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
def test_what_comes_out_is_the_same_and_the_callers_number_stays(build, options, family, beam):
    model = build(0, family=family)
    sources = [[7 + (place + start) % 4 for place in range(start)] for start in range(1, 7)]
    wanted = options(beam=beam, max_length=20, min_length=10, batch_size=3)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        paced = Alone(Threads())
        found = decode(model, sources, wanted, searching=paced)
        assert paced.threads.next_trial > 0, "a trial was made"
        same(found, decode(model, sources, wanted, searching=ALONE))
        for token in stream(model, sources[0], wanted, searching=paced):
            assert token >= 0
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_step_that_fails_leaves_the_callers_number(monkeypatch, build, options):
    machine = Machine(monkeypatch, lambda threads, now: 0.01)

    def fail(self) -> None:
        if machine.in_force == 1:
            raise MemoryError
        machine.compute()
        advance(self)

    advance = Search.advance
    monkeypatch.setattr(Search, "advance", fail)
    with pytest.raises(MemoryError):
        decode(build(0), [[7, 8]], options(min_length=9), searching=Alone(machine.threads))
    assert machine.asked == {1, 2}
    assert machine.in_force == 2
