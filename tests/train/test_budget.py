"""A run that was given a time ends when it is over, however the machine's pace changes."""

import pytest

from clearhead.train import Chosen, Correction, Saved, Step, next_token_loss, train
from clearhead.train import loop as loop_module
from train.tiny import LossJudge, MemoryKeeper, same, tiny_job, weights_of

SECONDS = 100.0


class Clock:
    """A clock that only work moves."""

    def __init__(self, monkeypatch):
        self.now = 1_000.0
        monkeypatch.setattr(loop_module.time, "monotonic", lambda: self.now)


class SlowJudge(LossJudge):
    """Takes its time, for the whole three times as long."""

    effort = 3.0

    def __init__(self, clock, seconds):
        super().__init__()
        self.clock, self.seconds = clock, seconds

    def score(self, model, whole):
        self.clock.now += self.seconds * (self.effort if whole else 1.0)
        return None


def budgeted_job(clock, pace, steps, keeper=None, validation=0.5, **changes):
    updates = []

    def loss(model, batch):
        updates.append(clock.now)
        clock.now += pace(len(updates) / steps)
        return next_token_loss()(model, batch)

    return tiny_job(keeper, steps=steps, loss=loss, judge=SlowJudge(clock, validation), seconds=SECONDS,
                    validate_every=None, **changes)  # fmt: skip


PACES = {
    "as planned": lambda share: 2.0,
    "twice as slow": lambda share: 4.0,
    "three times as fast": lambda share: 2 / 3,
    "slower in the middle": lambda share: 4.0 if 0.3 < share < 0.5 else 2.0,
    "faster towards the end": lambda share: 1.0 if share > 0.6 else 2.0,
    "unsteady": lambda share: 2.0 + (int(100 * share) % 3 - 1),
}


@pytest.mark.parametrize("pace", PACES)
def test_the_run_ends_within_five_percent_of_its_time(monkeypatch, pace):
    clock = Clock(monkeypatch)
    begin = clock.now
    reports = list(train(budgeted_job(clock, PACES[pace], steps=50)))
    assert isinstance(reports[-1], Chosen)
    assert clock.now - begin == pytest.approx(SECONDS, rel=0.05)
    steps = [report for report in reports if isinstance(report, Step)]
    assert steps[-1].learning_rate < 0.2 * max(step.learning_rate for step in steps)


def test_a_steady_machine_needs_no_correction_worth_the_name(monkeypatch):
    clock = Clock(monkeypatch)
    reports = list(train(budgeted_job(clock, PACES["as planned"], steps=42, validation=0.0)))
    assert len([report for report in reports if isinstance(report, Correction)]) <= 2


def test_validations_that_take_long_are_reckoned_with(monkeypatch):
    clock = Clock(monkeypatch)
    begin = clock.now
    list(train(budgeted_job(clock, PACES["as planned"], steps=50, validation=3.0)))
    assert clock.now - begin == pytest.approx(SECONDS, rel=0.07)


def test_a_run_that_goes_on_repeats_the_corrections_and_changes_no_bit(monkeypatch):
    clock, keeper = Clock(monkeypatch), MemoryKeeper()
    whole = budgeted_job(clock, PACES["slower in the middle"], 30, keeper, keep_checkpoints=100, save_every=4)
    story = list(train(whole))
    corrections = tuple(report for report in story if isinstance(report, Correction))
    saves = [report.step for report in story if isinstance(report, Saved)]
    assert corrections
    first = corrections[0].step
    before = max((step for step in saves if step < first), default=None)
    for step in filter(None, (before, next(step for step in saves if step >= first))):
        kept = MemoryKeeper({at: checkpoint for at, checkpoint in keeper.kept.items() if at <= step})
        rest = budgeted_job(clock, lambda _: 0.001, 30, kept, keep_checkpoints=100, save_every=4, corrections=corrections)
        again = list(train(rest))
        later = [r for r in story if r.step > step]
        assert [r for r in again if isinstance(r, Correction)] == [r for r in later if isinstance(r, Correction)]
        assert losses(again) == losses(later)
        assert same(weights_of(rest), weights_of(whole))


def losses(reports):
    return [report.loss.hex() for report in reports if isinstance(report, Step)]
