"""Going on equals not having stopped, and the comparison that says so can see a difference."""

import copy
from dataclasses import replace

import pytest
import torch

from clearhead.data.batches import Batches
from clearhead.errors import FolderError, NotFiniteError
from clearhead.model.tap import SILENT
from clearhead.training import Correction, Job, Note, Saved, StepReport, next_token_loss, train
from training.tiny import (
    MemoryKeeper,
    SomePairs,
    judge,
    pair_batch,
    same,
    tiny_job,
    tiny_model,
    weights_of,
)

STEPS, MIDDLE = 12, 6
BROKEN = {2, 9}
"""Places of the data that give a loss which is not finite; these updates are left out."""


class AllKept(MemoryKeeper):
    def prune(self, keep_last, best):
        pass


class SomeBroken(SomePairs):
    """Batches of which some have no finite loss: they are numbered apart."""

    def batch(self, place):
        batch = pair_batch(place % self.n_batches)
        return replace(batch, indices=-batch.indices - 1) if place in BROKEN else batch


def loss(model, batch, tap=SILENT):
    found, n = next_token_loss(0.1)(model, batch, tap)
    if len(batch.indices) > 3:
        raise RuntimeError("can't allocate memory")
    return (found * torch.inf if (batch.indices < 0).any() else found), n


def demanding_job(keeper, **changes):
    """A run in which all that a checkpoint holds matters."""
    settings = {
        "steps": 30,
        "corrections": (Correction(3, 3 / 30, STEPS),),
        "model": {"dropout": 0.2},
        "loss": loss,
        "batches": SomeBroken(7),
        "judge": judge([1.0, 3.0, 2.0, 2.5, 2.7, 2.9]),
        "ema": 0.9,
        "patience": 9,
        "skip_nonfinite": len(BROKEN),
        "save_every": 1,
        "average_last": 2,
    }
    return tiny_job(keeper, **{**settings, **changes})


def told(keeper, **changes):
    """All that can be seen of a run: reports or how it failed, last checkpoint, weights."""
    job = demanding_job(keeper, **changes)
    lines = []
    try:
        for report in train(job):
            if not isinstance(report, Saved | Note):
                lines.append({k: v for k, v in report.line().items() if k != "seconds"})
    except NotFiniteError as error:
        lines.append(error.whole)
    last = keeper.newest()
    numbers = copy.deepcopy(last.state)
    del numbers["counters"]["seconds"]
    return lines, numbers, last.files, weights_of(job)


def differs(one, other):
    (*numbers, files, weights), (*others, other_files, other_weights) = one, other
    n = min(len(numbers[0]), len(others[0]))  # a run that goes on tells only what came later
    return (
        numbers[0][-n:] != others[0][-n:]
        or numbers[1] != others[1]
        or not same(weights, other_weights)
        or files.keys() != other_files.keys()
        or not all(same(files[name], other_files[name]) for name in files)
    )


def continued(keeper, step=None, forget=None, **changes):
    """A run that begins at one of the checkpoints, which may have forgotten something."""
    step = step or MIDDLE
    keeper = AllKept(copy.deepcopy({at: kept for at, kept in keeper.kept.items() if at <= step}))
    checkpoint = keeper.kept[step]
    if forget:
        forget(checkpoint)
    scores = [1.0, 3.0, 2.0, 2.5, 2.7, 2.9][checkpoint.step // 2 :]
    return told(keeper, corrections=(), judge=judge(scores), **changes)


@pytest.fixture(scope="module")
def uninterrupted():
    keeper = AllKept()
    return told(keeper), keeper


@pytest.mark.parametrize("step", [3, MIDDLE, STEPS - 1, STEPS])
def test_going_on_equals_not_having_stopped(uninterrupted, step):
    story, keeper = uninterrupted
    assert not differs(continued(keeper, step), story)


def begin_anew(files, file, key):
    """What a run has that forgot these tensors."""
    for name, tensor in files[file].items():
        if key in name:
            tensor.zero_()


def forget_tensors(file, key=""):
    return lambda checkpoint: begin_anew(checkpoint.files, file, key)


def forget_counter(name, value=None):
    def forget(checkpoint):
        checkpoint.state["counters"][name] = 0 if value is None else value

    return forget


def forget_weights(checkpoint):
    checkpoint.files["weights"] = tiny_model(dropout=0.2).state_dict()


def forget_best(checkpoint):
    checkpoint.state["counters"] |= {"best": None, "best_step": None}


def forget_corrections(checkpoint):
    checkpoint.state["corrections"] = []


def forget_average_count(checkpoint):
    checkpoint.state["average_updates"] = 0


FORGOTTEN = {
    "the weights": forget_weights,
    "Muon's momentum": forget_tensors("optimizer", "/momentum"),
    "Adam's first moments": forget_tensors("optimizer", "/exp_avg"),
    "Adam's second moments": forget_tensors("optimizer", "/exp_avg_sq"),
    "Adam's count": forget_tensors("optimizer", "/step"),
    "the moving average": forget_tensors("average"),
    "the moving average's count": forget_average_count,
    "the step": forget_counter("step", MIDDLE - 1),
    "the place in the data": forget_counter("batches"),
    "the tokens seen": forget_counter("tokens"),
    "the best score": forget_best,
    "the validations since": forget_counter("waited"),
    "the last validation": forget_counter("validated"),
    "the cuts of a batch": forget_counter("splits", 4),
    "the updates left out": forget_counter("skipped"),
    "the corrections": forget_corrections,
}


@pytest.mark.promise(3, "each part left out in turn is noticed")
@pytest.mark.parametrize("what", FORGOTTEN)
def test_a_checkpoint_that_forgets_something_is_noticed(uninterrupted, what):
    story, keeper = uninterrupted
    assert differs(continued(keeper, forget=FORGOTTEN[what]), story)


def test_all_counters_are_among_what_may_be_forgotten(uninterrupted):
    _, keeper = uninterrupted
    state = keeper.kept[MIDDLE].state
    assert set(state["counters"]) == {
        "step",
        "tokens",
        "batches",
        "seconds",
        "best",
        "best_step",
        "waited",
        "validated",
        "splits",
        "skipped",
    }
    assert set(state) == {"counters", "steps", "corrections", "average_updates", "circumstances"}
    assert set(keeper.kept[MIDDLE].files) == {"weights", "optimizer", "average"}
    assert len(state["corrections"]) == 1


@pytest.mark.parametrize("what", ["seed_at", "batches_at"])
def test_other_random_numbers_or_another_order_of_the_data_are_noticed(
    uninterrupted, what, monkeypatch
):
    story, keeper = uninterrupted
    function = getattr(Job, what)
    monkeypatch.setattr(Job, what, lambda job, place: function(job, place + 1))
    assert differs(continued(keeper), story)


def test_another_seed_is_noticed(uninterrupted):
    story, keeper = uninterrupted
    assert differs(continued(keeper, seed=1), story)


def test_a_tensor_that_is_missing_or_odd_is_refused(uninterrupted):
    _, keeper = uninterrupted
    with pytest.raises(FolderError, match=r"tokens\.weight"):
        continued(
            keeper, forget=lambda checkpoint: checkpoint.files["weights"].pop("tokens.weight")
        )


def test_a_change_of_circumstances_is_told(uninterrupted):
    _, keeper = uninterrupted
    checkpoint = copy.deepcopy(keeper.kept[MIDDLE])
    checkpoint.state["circumstances"] |= {"threads": 64}
    checkpoint.warnings = ("the newest one is damaged",)
    reports = train(demanding_job(AllKept({MIDDLE: checkpoint}), corrections=()))
    notes = [next(reports).text, next(reports).text]
    assert notes[0] == "the newest one is damaged"
    assert "threads was 64 and is 1" in notes[1]


def test_a_finished_run_is_not_trained_on(uninterrupted):
    story, keeper = uninterrupted
    job = demanding_job(AllKept({STEPS: keeper.kept[STEPS]}), corrections=())
    assert not [report for report in train(job) if isinstance(report, StepReport)]
    assert same(weights_of(job), story[-1])


class Seen(Batches):
    """Notes which places of the stream were asked for."""

    def __init__(self, batches):
        self.batches, self.places = batches, []

    def __len__(self):
        return len(self.batches)

    def batch(self, place):
        self.places.append(place)
        return self.batches.batch(place)

    def fixed(self):
        return self.batches.fixed()


def test_fewer_processes_go_on_where_more_stopped_in_the_data():
    keeper = AllKept()
    list(train(tiny_job(keeper, steps=4)))
    checkpoint = copy.deepcopy(keeper.kept[2])
    checkpoint.state["counters"]["batches"] = 6  # as three processes would have come
    seen = Seen(SomePairs())
    list(train(tiny_job(AllKept({2: checkpoint}), steps=4, batches=seen)))
    assert seen.places == [6, 7]
