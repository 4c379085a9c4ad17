"""Who decides a setting: a person, the size, the task, the plan. Laws over all settings."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from any_settings import FIELDS, values
from clearhead.config import PRESETS, Config, Given, Mark, ModelConfig, layered, mark
from clearhead.errors import ConfigError
from clearhead.tasks import TASKS
from clearhead.tasks.task import DEFAULTS, FINE_TUNING, decide
from clearhead.training.plan import planned

N_TOKENS = 400_000
SPEEDS = {128: 20_000.0, 256: 6_000.0, 512: 900.0}
"""Tokens per second by width, as a machine with two cores has them."""
BUDGETS = ["", "10s", "10m", "3h", "20d", "400 steps", "5 epochs"]
SIZES = {path for path in FIELDS if mark(*path.split(".")) is Mark.SIZE}
BY_THE_STEPS = {"train.max_steps", "train.fit_decoding", "model.dropout"}
BY_THE_PLAN = SIZES | BY_THE_STEPS | {"data.batch_tokens", "train.budget"}
FOLLOWS = {
    "train.max_steps": BY_THE_STEPS,
    "train.accumulate": BY_THE_STEPS,
    "data.batch_tokens": BY_THE_STEPS,
    "model.architecture": BY_THE_PLAN,
    "model.family": {"model.dropout"},
    "model.vocab_size": {"model.dropout"},
    "decode.length_penalty": {"train.fit_decoding"},
    "decode.penalty": {"train.fit_decoding"},
    "decode.temperature": {"train.fit_decoding"},
}
"""What the plan chooses by the number of steps or of weights, or leaves to who has chosen."""
RULED = {"train.start", "train.new_vectors"}
"""They bring settings of another run."""
PATHS = sorted(FIELDS.keys() - RULED - {"train.budget"})
tasks = st.sampled_from(sorted(TASKS))
budgets = st.sampled_from(BUDGETS)


def value_of(path: str) -> st.SearchStrategy[Any]:
    """A value that can stand beside the defaults of the others."""
    fitting = {"model.d_model": st.sampled_from([64, 128, 192]), "model.n_heads": st.just(2)}
    return fitting.get(path, values(FIELDS[path]))


def one_setting(path: str) -> st.SearchStrategy[tuple[str, Any]]:
    return st.tuples(st.just(path), value_of(path))


settings = st.lists(st.sampled_from(PATHS).flatmap(one_setting), max_size=4)


def as_given(pairs: list[tuple[str, Any]]) -> Given:
    sections = ({path.split(".")[0]: {path.split(".")[1]: value}} for path, value in pairs)
    return layered(*sections)


def resolved(task: str, given: Given, budget: str = "") -> dict[str, Any]:
    """Every setting that a run would be begun with, by section.name."""
    decided = decide(task, layered(given, {"train": {"budget": budget}}))
    try:
        plan = planned(
            Config(**decided),
            decided,
            n_tokens=N_TOKENS,
            n_batches=lambda batch_tokens: max(1, N_TOKENS // batch_tokens),
            speed=lambda model: SPEEDS.get(model.d_model, 50_000.0),
        )
    except ConfigError:  # settings that contradict one another
        assume(False)
        raise
    sections = plan.config.model_dump(exclude={"format", "task"})
    return {
        f"{section}.{name}": value
        for section in sections
        for name, value in sections[section].items()
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {path for path in one if one[path] != other[path]}


@given(tasks, settings, budgets, budgets)
def test_the_budget_changes_the_size_the_batch_and_the_updates_and_nothing_else(
    task, pairs, one, other
):
    given = as_given(pairs)
    changed = differences(resolved(task, given, one), resolved(task, given, other))
    assert changed <= BY_THE_PLAN


@given(tasks, settings, st.sampled_from(PATHS).flatmap(one_setting), budgets)
def test_no_setting_changes_another_one(task, pairs, setting, budget):
    path, value = setting
    without = resolved(task, as_given(pairs), budget)
    changed = differences(without, resolved(task, as_given([*pairs, (path, value)]), budget))
    assert changed <= {path} | (BY_THE_PLAN if path in SIZES else FOLLOWS.get(path, set()))


@given(tasks, settings, budgets)
def test_what_a_person_gives_stands(task, pairs, budget):
    found, given = resolved(task, as_given(pairs), budget), as_given(pairs)
    whole = Config(**decide(task, given))  # on its own, what is given need not make sense
    for section, names in whole.model_dump(exclude={"format", "task"}).items():
        for name in given.get(section, {}):
            open_ended = f"{section}.{name}" == "train.max_steps" and names[name] is None
            assert open_ended or found[f"{section}.{name}"] == names[name]


@pytest.mark.parametrize("size", PRESETS)
@given(tasks, budgets)
def test_a_named_size_fixes_the_size_whatever_the_budget(size, task, budget):
    found = resolved(task, {"size": size}, budget)
    assert {name: found[f"model.{name}"] for name in ModelConfig().size()} == ModelConfig.preset(
        size
    ).size()


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("task", TASKS)
def test_small_models_are_pre_norm_and_the_papers_bring_post_norm_and_their_rates(task, budget):
    for size in ("", "tiny", "small"):
        found = resolved(task, {"size": size} if size else {}, budget)
        assert (found["model.norm"], found["model.init"]) == ("pre", "small")
    for size in ("base", "big"):
        found = resolved(task, {"size": size}, budget)
        assert (found["model.norm"], found["model.init"]) == ("post", "xavier")
        assert (found["train.optimizer"], found["train.learning_rate"] < 1e-3) == ("adam", True)


@pytest.mark.parametrize(("width", "share"), [(64, 1), (128, 1), (256, 1 / 2), (512, 1 / 4)])
@pytest.mark.parametrize("task", TASKS)
def test_wider_models_are_fine_tuned_with_smaller_steps(task, width, share):
    inherited = {"model": {"d_model": width}}
    for name, rate in FINE_TUNING["train"].items():
        assert decide(task, {}, inherited)["train"][name] == share * rate
        assert decide(task, {"train": {name: 0.5}}, inherited)["train"][name] == 0.5


def test_an_ablation_changes_one_thing():
    plain = resolved("translation", {}, "10m")
    changed = resolved("translation", {"model": {"activation": "gelu"}}, "10m")
    assert differences(plain, changed) == {"model.activation"}


@pytest.mark.parametrize("task", DEFAULTS)
def test_a_task_has_its_own_settings_and_gives_way_to_a_persons(task):
    found = resolved(task, {})
    for section, names in DEFAULTS[task].items():
        for name, value in names.items():
            assert found[f"{section}.{name}"] == value
    assert resolved(task, {"train": {"label_smoothing": 0.3}})["train.label_smoothing"] == 0.3


def test_fine_tuning_takes_smaller_steps_and_the_shape_of_the_other_run_unless_one_is_given():
    cut = {"method": "unigram", "vocab_size": None}
    theirs = {"model": {"d_model": 64, "norm": "post"}, "tokenizer": cut}
    decided = decide("classification", {"model": {"norm": "pre"}}, theirs)
    own = {"n_encoder_layers": 2, "dropout": 0.3}
    assert decided["model"] == own | {"d_model": 64, "norm": "pre"}
    assert decided["tokenizer"] == cut
    assert decided["data"]["max_n_grams"] == 0
    assert decided["train"]["muon_learning_rate"] == 0.005
