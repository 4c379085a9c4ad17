"""The loop: what it reports, keeps and chooses."""

import json

import pytest
import torch

from clearhead.training import (
    Chosen,
    Judge,
    Note,
    Saved,
    StepReport,
    Stopped,
    Validation,
    next_token_loss,
    train,
)
from clearhead.training.loop import StopFlag
from training.tiny import (
    MemoryKeeper,
    SomePairs,
    judge,
    loss_of,
    pair_batch,
    rows_of,
    same,
    tiny_job,
    weights_of,
)


def reports_of(job, kind):
    return [report for report in train(job) if isinstance(report, kind)]


def test_every_update_is_reported_once_and_in_order():
    steps = reports_of(tiny_job(steps=7, accumulate=2), StepReport)
    assert [report.step for report in steps] == list(range(1, 8))
    assert steps[-1].epoch == pytest.approx(7 * 2 / len(SomePairs()))


def test_every_report_is_a_line_of_strict_json():
    job = tiny_job(
        skip_nonfinite=99,
        loss=lambda model, batch: (next_token_loss()(model, batch)[0] * torch.nan, 1),
    )
    for report in train(job):
        json.loads(json.dumps(report.line()), parse_constant=pytest.fail)


def test_training_lowers_the_loss():
    losses = [
        report.loss for report in reports_of(tiny_job(steps=30, validate_every=30), StepReport)
    ]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])


def test_the_learning_rate_falls_to_nothing_at_the_end():
    rates = [
        report.learning_rate
        for report in train(tiny_job(steps=25, validate_every=25))
        if isinstance(report, StepReport)
    ]
    assert 0 < rates[-1] < 0.05 * max(rates)


def test_validations_and_checkpoints_come_when_they_are_due_and_at_the_end():
    reports = list(train(tiny_job(steps=11, validate_every=3, save_every=4)))
    assert [r.step for r in reports if isinstance(r, Validation)] == [3, 6, 9, 11]
    assert [r.step for r in reports if isinstance(r, Saved)] == [4, 8, 11]


def test_a_run_has_about_twelve_validations_unless_told_otherwise():
    assert len(reports_of(tiny_job(steps=36, validate_every=None), Validation)) == 12


def test_the_last_few_and_the_best_checkpoint_stay():
    keeper = MemoryKeeper()
    list(
        train(
            tiny_job(
                keeper,
                steps=12,
                judge=judge([1.0, 9.0, 1.0, 1.0, 1.0, 1.0]),
                keep_checkpoints=2,
            )
        )
    )
    assert keeper.steps() == [4, 10, 12]


def test_training_stops_when_patience_ends():
    scores = [1.0, 2.0, 1.5, 1.9, 5.0]
    reports = list(train(tiny_job(steps=20, patience=2, judge=judge(scores))))
    assert [r.step for r in reports if isinstance(r, Stopped)] == [8]
    assert isinstance(reports[-1], Chosen)


def test_a_run_that_ran_out_of_patience_stays_ended_when_it_is_asked_again():
    keeper = MemoryKeeper()
    first = tiny_job(keeper, steps=20, patience=2, judge=judge([1.0, 2.0, 1.5, 1.9]))
    list(train(first))
    second = tiny_job(keeper, steps=20, patience=2)
    assert not reports_of(second, StepReport)
    assert same(weights_of(first), weights_of(second))


def test_the_weights_to_use_are_those_with_the_best_score_on_the_whole_validation_set():
    def nearness(model):
        """Of the weights to those after the fourth update."""
        return -float((model.tokens.weight - wanted["tokens.weight"]).detach().norm())

    keeper = MemoryKeeper()
    list(train(tiny_job(keeper, steps=4, schedule="inverse-sqrt")))
    wanted = keeper.kept[4].tensors("weights")
    near = Judge(loss=loss_of, score=nearness, full_score=nearness)
    job = tiny_job(steps=12, schedule="inverse-sqrt", judge=near, ema=0.9, average_last=2)
    chosen = list(train(job))[-1]
    assert chosen.weights == "best, of step 4"
    assert set(chosen.scores) == {
        "last",
        "best, of step 4",
        "moving average",
        "average of 2 checkpoints",
    }
    assert chosen.scores[chosen.weights] == max(chosen.scores.values())
    assert same(weights_of(job), wanted)


def test_a_seed_repeats_a_run_to_the_last_bit_and_another_does_not():
    runs = [tiny_job(seed=seed, model={"dropout": 0.2}) for seed in (1, 1, 2)]
    losses = [
        [report.loss.hex() for report in train(job) if isinstance(report, StepReport)]
        for job in runs
    ]
    assert losses[0] == losses[1] != losses[2]
    assert same(weights_of(runs[0]), weights_of(runs[1]))


def test_dropout_is_drawn_anew_in_every_update():
    job = tiny_job(
        steps=4,
        model={"dropout": 0.3},
        batches=SomePairs(1),
        learning_rate=1e-12,
        muon_learning_rate=1e-12,
    )
    losses = [report.loss for report in train(job) if isinstance(report, StepReport)]
    assert len(set(losses)) == 4


def test_an_epoch_holds_every_example_once_whatever_the_accumulation():
    seen = []

    def noting(model, batch):
        seen.append(batch)
        return next_token_loss()(model, batch)

    list(train(tiny_job(steps=5, accumulate=2, batches=SomePairs(10), loss=noting)))
    assert sorted(rows_of(seen)) == sorted(rows_of([pair_batch(n) for n in range(10)]))


def test_a_batch_that_does_not_fit_the_memory_is_cut_in_two_and_gives_the_same_run():
    def scarce(model, batch):
        if len(batch.indices) > 2:
            raise RuntimeError(
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes."
            )
        return next_token_loss(0.1)(model, batch)

    plenty, short = tiny_job(optimizer="adam"), tiny_job(loss=scarce, optimizer="adam")
    expected = [report.loss for report in train(plenty) if isinstance(report, StepReport)]
    reports = list(train(short))
    assert [r.loss for r in reports if isinstance(r, StepReport)] == pytest.approx(
        expected, rel=1e-3
    )
    notes = [report.text for report in reports if isinstance(report, Note)]
    assert len(notes) == 1
    assert "2 pieces" in notes[0]


def test_other_runtime_errors_are_not_taken_for_a_lack_of_memory():
    def broken(model, batch):
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        list(train(tiny_job(loss=broken)))


def test_a_memory_that_is_never_enough_is_an_error_in_the_end():
    def never(model, batch):
        raise torch.OutOfMemoryError("out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        list(train(tiny_job(loss=never)))


def test_a_signal_ends_the_run_at_the_next_update_with_a_checkpoint_there():
    keeper, stop, reports = MemoryKeeper(), StopFlag(), []
    for report in train(tiny_job(keeper, save_every=100, stop=stop)):
        reports.append(report)
        if isinstance(report, StepReport) and report.step == 3:
            stop.note(15, None)
    assert keeper.steps() == [4]
    assert reports[-1] == Stopped(4, "a signal asked for it", 15)
    assert not any(isinstance(report, Chosen) for report in reports)


@pytest.mark.parametrize("at", [1, 4, 9, 10])
def test_a_run_stopped_by_a_signal_and_gone_on_with_equals_one_that_was_not(at):
    whole = tiny_job(ema=0.9, patience=3)
    expected = story(train(whole))
    keeper, stop, first = MemoryKeeper(), StopFlag(), []
    for report in train(tiny_job(keeper, stop=stop, ema=0.9, patience=3)):
        first.append(report)
        if at == 1 or (isinstance(report, StepReport) and report.step == at - 1):
            stop.signal = 15
    rest = tiny_job(keeper, ema=0.9, patience=3)
    assert story([*first, *train(rest)]) == expected
    assert same(weights_of(rest), weights_of(whole))


def story(reports):
    """What a run tells, but for what depends on the clock."""
    lines = [report.line() for report in reports if not isinstance(report, Saved | Stopped)]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
