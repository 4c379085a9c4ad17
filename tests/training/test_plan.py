"""From the data, the machine and the time to a size, a batch and a number of updates."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import Config, Given, TrainConfig, layered
from clearhead.errors import ConfigError
from clearhead.training import next_token_loss, plan
from clearhead.training.plan import BATCH_TOKENS, Budget, measured_speed, parse_budget, planned
from clearhead.training.update import Outcome
from training.tiny import SomePairs, tiny_model

SPEEDS = {128: 20_000.0, 256: 6_000.0, 512: 900.0}
"""Tokens per second by width, as a machine with two cores has them."""


def plan_for(budget: str, n_tokens: int = 400_000, given: Given | None = None, world: int = 1):
    decided = layered(given or {}, {"train": {"budget": budget}})
    return planned(
        Config(**decided),
        decided,
        n_tokens=n_tokens,
        n_batches=lambda batch_tokens: max(1, round(n_tokens / batch_tokens)),
        speed=lambda model: SPEEDS.get(model.d_model, 50_000.0),
        world=world,
    )


def test_a_recurrent_model_is_planned_with_sizes_of_its_own():
    for architecture, widths in {"lstm": {176, 384, 1_088}, "gru": {192, 416, 1_216}}.items():
        model = plan_for("10m", given={"model": {"architecture": architecture}}).config.model
        assert model.architecture == architecture
        assert model.d_model in widths
        assert (model.n_encoder_layers, model.n_decoder_layers, model.n_heads) == (2, 2, 1)


@pytest.mark.parametrize(("text", "budget"), {
    "": Budget(),
    "45m": Budget(seconds=2_700.0),
    "1h 30m": Budget(seconds=5_400.0),
    "1.5h": Budget(seconds=5_400.0),
    "1h30m": Budget(seconds=5_400.0),
    "90 s": Budget(seconds=90.0),
    "3min": Budget(seconds=180.0),
    "3 minutes": Budget(seconds=180.0),
    "90 sec": Budget(seconds=90.0),
    "2 hours": Budget(seconds=7_200.0),
    "1 day 2 hrs": Budget(seconds=93_600.0),
    "1d": Budget(seconds=86_400.0),
    "8000 steps": Budget(steps=8_000),
    "1 step": Budget(steps=1),
    "20 epochs": Budget(epochs=20.0),
    "0.5 epochs": Budget(epochs=0.5),
}.items())  # fmt: skip
def test_a_budget_is_a_time_a_number_of_steps_or_of_epochs(text, budget):
    assert parse_budget(text) == budget


@pytest.mark.parametrize(
    "text",
    [
        "soon",
        "10",
        "10 steps 5m",
        "3 epochs 2 steps",
        "-5m",
        "3mni",
        "5m and more",
        "1.2.3h",
        "4 st",
    ],
)
def test_a_budget_that_is_not_understood_is_refused_with_examples(text):
    with pytest.raises(ConfigError) as caught:
        parse_budget(text)
    assert (str(caught.value), caught.value.advice) == (
        f'Invalid budget "{text}".',
        "Use 45m, 1h 30m, 8000 steps or 20 epochs.",
    )


@given(
    seconds=st.lists(st.floats(1, 1e7), min_size=2, max_size=6), n_tokens=st.integers(1_000, 10**8)
)
def test_more_time_never_gives_a_smaller_model(seconds, n_tokens):
    plans = [plan_for(f"{time:.3f}s", n_tokens) for time in sorted(seconds)]
    widths = [each.config.model.d_model for each in plans]
    assert widths == sorted(widths)


@given(n_tokens=st.lists(st.integers(1_000, 10**8), min_size=2, max_size=5))
def test_more_data_never_gives_a_larger_model_in_the_same_time(n_tokens):
    widths = [plan_for("45m", n).config.model.d_model for n in sorted(n_tokens)]
    assert widths == sorted(widths, reverse=True)


@given(
    epochs=st.lists(st.floats(1, 1e4), min_size=2, max_size=6), n_tokens=st.integers(10**5, 10**8)
)
def test_batches_grow_with_what_is_seen_and_leave_as_many_updates_as_they_have_tokens(
    epochs, n_tokens
):
    plans = [plan_for(f"{number:.3f} epochs", n_tokens) for number in sorted(epochs)]
    batches = [each.config.data.batch_tokens for each in plans]
    assert batches == sorted(batches)
    for made, batch in zip(plans, batches, strict=True):
        assert batch == BATCH_TOKENS[0] or made.steps >= 0.95 * batch
        assert batch == BATCH_TOKENS[-1] or made.steps <= 4.2 * batch


@pytest.mark.parametrize("budget", ["", "10s", "10m", "2h", "5d", "100 steps", "3 epochs"])
def test_every_plan_gives_its_reasons_and_its_number_of_updates(budget):
    made = plan_for(budget)
    assert made.reasons
    assert all(made.reasons)
    assert f"{made.steps:,} steps" in made.reasons[-1]
    assert made.config.train.max_steps == made.steps >= 1
    assert made.seconds == parse_budget(budget).seconds


@pytest.mark.parametrize("model", [{}, {"d_model": 64}])
def test_speed_is_told_in_what_the_task_predicts(model):
    for task, unit in {"classification": "texts/s", "translation": "tokens/s"}.items():
        assert unit in plan_for("10m", given={"task": task, "model": model}).reasons[0]


def test_steps_and_epochs_mean_what_they_say():
    assert plan_for("123 steps").steps == 123
    given = {"data": {"batch_tokens": 4_096}}
    assert plan_for("3 epochs", n_tokens=409_600, given=given).steps == 3 * 100


def test_processes_and_accumulated_batches_share_the_passes():
    given = {"data": {"batch_tokens": 4_096}, "train": {"accumulate": 2}}
    assert plan_for("4 epochs", n_tokens=409_600, given=given, world=2).steps == 4 * 100 // 4


def test_what_is_decided_stands():
    given = {
        "model": {"d_model": 64, "dropout": 0.1},
        "data": {"batch_tokens": 512},
        "train": {"max_steps": 7},
    }
    made = plan_for("1h", given=given)
    assert made.config == Config(**layered(given, {"train": {"budget": "1h"}}))
    assert made.steps == 7
    assert made.seconds is None


def test_a_batch_of_the_default_size_that_is_decided_is_not_chosen_again():
    chosen = plan_for("5 epochs", n_tokens=100_000)
    decided = plan_for("5 epochs", n_tokens=100_000, given={"data": {"batch_tokens": 4_096}})
    assert chosen.config.data.batch_tokens == 1_024
    assert decided.config.data.batch_tokens == Config().data.batch_tokens == 4_096


@given(st.floats(0.5, 500), st.floats(0.5, 500))
def test_data_that_is_seen_more_often_is_made_harder_to_learn_by_heart(fewer, more):
    fewer, more = sorted((fewer, more))
    one, other = (plan_for(f"{passes:.3f} epochs").config for passes in (fewer, more))
    assert one.model.dropout <= other.model.dropout


@given(st.integers(1_000, 10**8), st.integers(1_000, 10**8))
def test_less_data_for_a_model_is_made_harder_to_learn_by_heart(less, more):
    less, more = sorted((less, more))
    one, other = (plan_for("20 epochs", n_tokens=n).config for n in (less, more))
    assert one.model.dropout >= other.model.dropout


def test_what_is_decided_is_not_regularised_nor_are_weights_of_another_run():
    assert plan_for("200 epochs").config.model.dropout == 0.3
    for fixed in ({"model": {"dropout": 0.1}}, {"train": {"start": "../other"}}):
        assert plan_for("200 epochs", given=fixed).config.model.dropout == 0.1


@pytest.mark.parametrize(("given", "fits"), [
    ({}, True),
    ({"decode": {"length_penalty": 0.6}}, False),
    ({"train": {"fit_decoding": False}}, False),
    ({"task": "writing"}, False),
])  # fmt: skip
def test_the_length_penalty_is_fitted_where_nobody_gave_one(given, fits):
    assert plan_for("5000 steps", given=given).config.train.fit_decoding is fits
    assert not plan_for("50 steps", given=given).config.train.fit_decoding


def test_a_plan_for_a_time_fills_it():
    made = plan_for("1h", n_tokens=409_600, given={"data": {"batch_tokens": 4_096}})
    assert made.steps * 4_096 / SPEEDS[made.config.model.d_model] == pytest.approx(3_600, rel=0.01)


def speed_on(device: str) -> float:
    return measured_speed(
        tiny_model().config,
        TrainConfig(budget="5s"),
        loss=next_token_loss(),
        batches=SomePairs(),
        device=torch.device(device),
    )


def test_a_trial_measures_a_real_model():
    assert speed_on("cpu") > 0


def test_a_trial_runs_on_the_device_that_trains(monkeypatch):
    seen = []

    def record(objective, batches, *_):
        seen.extend(parameter.device.type for parameter in objective.parameters())
        return Outcome(1.0, 1.0, tokens=10, stop=False)

    monkeypatch.setattr(plan, "update", record)
    monkeypatch.setattr(plan, "optimizers", lambda *_: [])
    monkeypatch.setattr(plan, "wait_for", lambda device: seen.append(device.type))
    assert speed_on("meta") > 0
    assert set(seen) == {"meta"}
