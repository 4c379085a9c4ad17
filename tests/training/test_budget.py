"""A run that was given a time ends when it is over, however the machine's pace changes."""

from functools import partial
from itertools import pairwise, takewhile

import pytest

from clearhead.training import Chosen, Correction, Judge, Saved, StepReport, train
from clearhead.training import loop as loop_module
from clearhead.training.update import Outcome
from training.tiny import MemoryKeeper, loss_of, tiny_job

SECONDS, STEPS = 1_000.0, 500


class Clock:
    """A clock that only work moves."""

    def __init__(self, monkeypatch):
        self.now, self.updates = 1_000.0, 0
        monkeypatch.setattr(loop_module.time, "monotonic", lambda: self.now)


def slow_judge(clock, seconds):
    """Takes its time, for the full score three times as long."""

    def score(model, seconds=seconds):
        clock.now += seconds
        return -loss_of(model)

    full = partial(score, seconds=3 * seconds)
    return Judge(loss=loss_of, score=score, full_score=full, effort=3.0)


def budgeted_job(clock, monkeypatch, pace, keeper=None, steps=STEPS, validation=0.5, **changes):
    """A job whose updates take as long as the pace says at that share of the planned steps."""
    update = loop_module.update

    def timed(objective, batches, *args, **kwargs):
        clock.now += pace(clock.updates / steps)
        clock.updates += 1
        return (
            update(objective, batches, *args, **kwargs)
            if keeper is not None
            else Outcome(1.0, 1.0, 10, stop=False)
        )

    monkeypatch.setattr(loop_module, "update", timed)
    if keeper is None:  # nothing is learned here: only the clock matters
        monkeypatch.setattr(loop_module.Run, "apply", lambda run: None)
    return tiny_job(
        keeper,
        steps=steps,
        judge=slow_judge(clock, validation),
        seconds=SECONDS,
        validate_every=None,
        **changes,
    )


def slow_at_first(share):
    return 30.0 if share < 0.3 else 15.0


PACES = {
    "as planned": lambda share: 2.0,
    "twice as slow": lambda share: 4.0,
    "three times as fast": lambda share: 2 / 3,
    "slower in the middle": lambda share: 4.0 if 0.3 < share < 0.5 else 2.0,
    "faster towards the end": lambda share: 1.0 if share > 0.6 else 2.0,
    "unsteady": lambda share: 2.0 + (int(100 * share) % 3 - 1),
}


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("validation", [0.0, 10.0])
def test_the_run_ends_within_five_percent_of_its_time(monkeypatch, pace, validation):
    clock = Clock(monkeypatch)
    begin = clock.now
    reports = list(train(budgeted_job(clock, monkeypatch, PACES[pace], validation=validation)))
    assert isinstance(reports[-1], Chosen)
    assert clock.now - begin == pytest.approx(SECONDS, rel=0.05)


def test_a_steady_machine_needs_no_correction_worth_the_name(monkeypatch):
    clock = Clock(monkeypatch)
    reports = list(train(budgeted_job(clock, monkeypatch, PACES["as planned"], validation=0.0)))
    assert len([report for report in reports if isinstance(report, Correction)]) <= 1


def test_a_corrected_schedule_has_no_jumps_and_still_ends_at_nothing(monkeypatch):
    clock, keeper = Clock(monkeypatch), MemoryKeeper()
    reports = list(train(budgeted_job(clock, monkeypatch, slow_at_first, keeper, steps=50)))
    assert any(isinstance(report, Correction) for report in reports)
    rates = [report.learning_rate for report in reports if isinstance(report, StepReport)]
    assert max(abs(one - other) for one, other in pairwise(rates[3:])) < 0.2 * max(rates)
    assert rates[-1] < 0.2 * max(rates)


def test_a_run_that_goes_on_repeats_the_corrections_and_changes_no_bit(monkeypatch):
    clock, keeper = Clock(monkeypatch), MemoryKeeper()
    settings = {"keep_checkpoints": 100, "save_every": 4, "steps": 50}
    with monkeypatch.context() as patch:
        story = list(train(budgeted_job(clock, patch, slow_at_first, keeper, **settings)))
    corrections = tuple(report for report in story if isinstance(report, Correction))
    assert corrections
    last = corrections[-1].step
    saves = [report.step for report in story if isinstance(report, Saved)]
    for step in (0, max(at for at in saves if at < last)):
        kept = MemoryKeeper(
            {at: checkpoint for at, checkpoint in keeper.kept.items() if at <= step}
        )
        with monkeypatch.context() as patch:
            rest = budgeted_job(
                clock, patch, lambda _: 1.0, kept, corrections=corrections, **settings
            )
            again = list(takewhile(lambda report: report.step <= last, train(rest)))
        later = [report for report in story if step < report.step <= last]
        assert [r for r in again if isinstance(r, Correction)] == [
            r for r in later if isinstance(r, Correction)
        ]
        assert losses(again) == losses(later)


def losses(reports):
    return [report.loss.hex() for report in reports if isinstance(report, StepReport)]
