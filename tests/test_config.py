"""Settings: what is impossible fails at birth, and TOML gives back what was written."""

import contextlib
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from any_settings import FIELDS, SCHEMA, Schema, lower, upper, values
from clearhead.config import (
    PRESETS,
    SECTIONS,
    Config,
    DataConfig,
    Mark,
    ModelConfig,
    assigned,
    config_from_toml,
    layered,
    mark,
    read_given,
    spelled_out,
    to_toml,
    with_settings,
)
from clearhead.errors import ConfigError

each_field = pytest.mark.parametrize("path", FIELDS)


def kinds(schema: Schema) -> list[Schema]:
    """The alternatives of a field: an optional one has two."""
    return schema.get("anyOf", [schema])


def single(schema: Schema) -> list[Schema]:
    """The kinds of one value of a field: of a list, those of its items."""
    return [kind["items"] if kind.get("type") == "array" else kind for kind in kinds(schema)]


def numbers(schema: Schema) -> list[Schema]:
    return [kind for kind in single(schema) if kind.get("type") in ("integer", "number")]


def placed(path: str, value: Any) -> dict[str, Any]:
    """Settings in which one field has this value."""
    section, name = path.split(".")
    is_list = any(kind.get("type") == "array" for kind in kinds(FIELDS[path]))
    return {section: {name: [value] if is_list and not isinstance(value, list) else value}}


def refused(values: dict[str, Any]) -> str:
    """The message with which settings are refused."""
    with pytest.raises(ConfigError) as caught:
        Config(**values)
    message = caught.value.whole
    assert len(message.splitlines()) <= 3, message
    return message


# From the schema: every field


@each_field
def test_every_setting_says_what_it_is(path):
    assert FIELDS[path].get("description", "").endswith(".")


@each_field
def test_every_number_has_bounds_and_every_list_and_text_an_end(path):
    for number in numbers(FIELDS[path]):
        assert upper(number) is not None, f"{path} has no largest value"
        assert lower(number) is not None, f"{path} has no smallest value"
    for kind in kinds(FIELDS[path]):
        assert kind.get("type") != "array" or "maxItems" in kind
        assert kind.get("type") != "string" or {"enum", "const", "pattern", "maxLength"} & set(kind)


@each_field
def test_a_number_out_of_bounds_is_refused_by_name(path):
    for number in numbers(FIELDS[path]):
        for value in (upper(number) * 2 + 1, 2**70, lower(number) - 1, -(2**70)):
            message = refused(
                placed(path, float(value) if number["type"] == "number" else int(value))
            )
            assert path in message
            assert "less than" in message or "greater than" in message


@each_field
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_refused_everywhere(path, value):
    assert path in refused(placed(path, value))


@each_field
def test_a_value_of_the_wrong_type_is_refused_and_shown(path):
    fitting: dict[str, tuple[type, ...]] = {
        "number": (float,),
        "boolean": (bool,),
        "string": (str,),
    }
    right = [fitting.get(kind["type"], ()) for kind in single(FIELDS[path]) if "enum" not in kind]
    wrong: list[Any] = [{"a": 1}, b"x", 1.5, "12", True, [[1]]]
    for value in (value for value in wrong if not isinstance(value, sum(right, ()))):
        message = refused(placed(path, value))
        assert path in message
        assert "is not valid" in message


@pytest.mark.parametrize("section", SECTIONS)
def test_an_unknown_key_suggests_the_nearest_one(section):
    for name in type(getattr(Config(), section)).model_fields:
        message = refused({section: {name + "x": 1}})
        assert message == f"There is no setting {section}.{name}x.\nDid you mean {name}?"


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("train.lr", "learning_rate"),
        ("data.batch_size", "batch_tokens"),
        ("decode.num_beams", "beam"),
    ],
)
def test_a_setting_that_is_called_otherwise_elsewhere_is_suggested(path, meant):
    section, _, name = path.partition(".")
    assert refused({section: {name: 1}}).endswith(f"Did you mean {meant}?")


def test_an_unknown_section_suggests_the_nearest_one():
    assert refused({"modle": {}}) == "There is no setting modle.\nDid you mean model?"
    assert "There are: " in refused({"qqq": {}})


def test_another_format_is_refused():
    assert "format = 2" in refused({"format": 2})


@pytest.mark.parametrize("path", ["data.weights", "tokenizer.languages"])
def test_a_retired_setting_of_an_older_file_is_passed_over_when_empty_and_else_refused(path):
    section, name = path.split(".")
    assert config_from_toml(f"[{section}]\n{name} = []\n") == Config()
    message = refused({section: {name: ["x"]}})
    assert message == f"{path} = ['x'] never had an effect and is gone.\nLeave it out."


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("train.budget", "3mni", "Use 45m, 1h 30m, 8000 steps or 20 epochs."),
        ("train.device", "gpu", "Use auto, cpu, mps or cuda:0."),
    ],
)
def test_a_text_of_another_form_is_refused_with_examples(path, value, says):
    message = refused(placed(path, value))
    assert message == f'Invalid {path.split(".")[1]} "{value}".\n{says}'


def test_the_settings_of_a_run_of_an_older_version_mean_what_they_say():
    text = (Path(__file__).parent / "old_config.toml").read_text(encoding="utf-8")
    written = tomllib.loads(text)
    read = tomllib.loads(to_toml(config_from_toml(text)))
    del written["data"]["weights"], written["tokenizer"]["languages"]
    assert {key: read[key] for key in written if key not in SECTIONS} == {
        "format": 1,
        "task": "chat",
    }
    for section in SECTIONS:
        assert read[section].items() >= written[section].items()


# There and back


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """Settings of every kind; those that contradict one another are thrown away."""
    sections: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for path, schema in FIELDS.items():
        section, name = path.split(".")
        if draw(st.booleans()):
            sections[section][name] = draw(values(schema))
    model = sections["model"]
    model["d_model"] = model.get("n_heads", 4) * 2 * draw(st.integers(1, 100))
    model.pop("n_classes", None)
    if model.get("tie") not in ("output", "none"):
        model.pop("source_vocab_size", None)
    try:
        return Config(task=draw(values(SCHEMA["properties"]["task"])), **sections)
    except ConfigError:
        assume(False)
        raise


@given(configs())
def test_toml_gives_back_the_settings_that_were_written(config):
    text = to_toml(config)
    assert config_from_toml(text) == config
    assert to_toml(config_from_toml(text)) == text
    text.encode("utf-8")


def test_written_toml_holds_every_setting():
    written = tomllib.loads(to_toml(Config()))
    absent = {path for path in FIELDS if path.split(".")[1] not in written[path.split(".")[0]]}
    assert absent == {path for path, schema in FIELDS.items() if schema.get("default") is None}


@given(configs())
def test_every_setting_may_be_given_as_on_a_command_line(config):
    assignments = [
        f"{section}.{line}"
        for section, lines in sections_of(to_toml(config)).items()
        for line in lines
    ]
    assert with_settings(Config(task=config.task), assignments) == config


def sections_of(text: str) -> dict[str, list[str]]:
    """The lines `name = value` of each section of a TOML text."""
    parts = text.split("\n[")[1:]
    return {
        part.split("]\n")[0]: [line for line in part.split("]\n", 1)[1].split("\n") if line]
        for part in parts
    }


# Reading, changing, refusing


def test_words_on_a_command_line_need_no_quotes():
    config = with_settings(Config(), ["model.norm=pre", "model.dropout = 0.3", "model.bias=false"])
    assert (config.model.norm, config.model.dropout, config.model.bias) == ("pre", 0.3, False)


def test_later_assignments_win_and_others_stay():
    config = with_settings(Config(model=ModelConfig(d_ff=99)), ["train.seed=1", "train.seed=2"])
    assert (config.train.seed, config.model.d_ff) == (2, 99)


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("seed=1", r"section\.name=value"),
        ("train.seed", r"section\.name=value"),
        (".seed=1", r"section\.name=value"),
        ("train.=1", r"section\.name=value"),
        ("", r"section\.name=value"),
        ("train.sede=1", "Did you mean seed"),
        ("trian.seed=1", "Did you mean train"),
        ("train.seed=one", r"train\.seed = one"),
        ("model.n_heads=3", r"model\.n_heads = 3"),
        ("task.seed=1", "task"),
        ("train.seed=" + "[" * 5000, r"train\.seed"),
        ("train.seed=" + "9" * 5000, r"train\.seed"),
    ],
)
def test_an_impossible_assignment_is_refused(assignment, says):
    for config in (Config(), Config(task="chat")):
        with pytest.raises(ConfigError, match=says):
            with_settings(config, [assignment])


def test_assignments_give_what_they_name_and_nothing_else():
    given = assigned(["model.norm=post", "train.seed=1", "train.seed=2"])
    assert given == {"model": {"norm": "post"}, "train": {"seed": 2}}


@given(
    st.text()
    | st.sampled_from(sorted(FIELDS)).flatmap(
        lambda path: st.text().map(lambda text: f"{path}={text}")
    )
)
def test_any_assignment_is_taken_or_refused(assignment):
    with contextlib.suppress(ConfigError):
        with_settings(Config(), [assignment])


HOSTILE = {
    "not TOML": "model d_model = 3",
    "a key twice": "[model]\nd_ff = 1\nd_ff = 2",
    "endless digits": "[train]\nseed = " + "1" * 5000,
    "endless hexadecimal digits": "[train]\nseed = 0x" + "f" * 6000,
    "endless brackets": "[train]\nseed = " + "[" * 5000,
    "a huge allocation": "[model]\nvocab_size = 1099511627776",
    "a date": "[train]\nseed = 2020-01-01",
    "a list of tables": "[[model]]\nd_ff = 3",
    "a dotted key": "model.d_ff.x = 3",
    "an escape sequence": '[model]\n"\\u001b[31m" = 3',
    "an endless name": "[model]\n" + "a" * 9999 + " = 3",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_settings_end_in_one_short_error(text):
    with pytest.raises(ConfigError) as caught:
        config_from_toml(text)
    message = caught.value.whole
    assert len(message) < 500
    assert len(message.splitlines()) <= 3
    assert message.replace("\n", "").isprintable()


@given(st.text())
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(ConfigError):
        config_from_toml(text)


def test_a_file_of_settings_is_read(tmp_path: Path):
    (tmp_path / "config.toml").write_text(to_toml(Config(task="chat")), encoding="utf-8")
    assert Config(**read_given(tmp_path / "config.toml")) == Config(task="chat")


@pytest.mark.parametrize("content", [None, b"\xff\xfe"], ids=["no file", "not UTF-8"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content):
    path = tmp_path / "config.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"config\.toml cannot be read"):
        read_given(path)


def test_settings_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        ModelConfig().d_model = 3  # type: ignore[misc]


def test_changed_settings_are_validated_anew():
    assert ModelConfig(d_model=64).but(n_heads=8) == ModelConfig(d_model=64, n_heads=8)
    with pytest.raises(ConfigError, match=r"model\.n_heads = 7"):
        ModelConfig(d_model=64).but(n_heads=7)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_possible_and_can_be_changed(name):
    assert ModelConfig.preset(name, vocab_size=99).vocab_size == 99
    assert (
        ModelConfig.preset(name).d_model
        == {"tiny": 128, "quick": 128, "small": 256, "base": 512, "big": 1024}[name]
    )


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_knows_the_name_it_has_in_errors(section):
    with pytest.raises(ConfigError, match=rf"There is no setting {section}\.nothing\."):
        SECTIONS[section](nothing=1)


# What is given, and what a setting is to a run


def test_a_setting_that_is_given_its_default_is_no_other_than_one_that_is_not():
    given, other = Config(data=DataConfig(batch_tokens=4_096)), Config()
    assert given == other
    assert given.but(task="chat") == other.but(task="chat")
    assert to_toml(given) == to_toml(other)


@given(st.lists(st.sampled_from(sorted(FIELDS)), min_size=2, max_size=9))
def test_the_later_layer_wins_and_all_that_is_given_stays(paths):
    layers = [
        {path.split(".")[0]: {path.split(".")[1]: number}} for number, path in enumerate(paths)
    ]
    whole = layered(*layers)
    last = {path: number for number, path in enumerate(paths)}
    assert {f"{s}.{n}": v for s, names in whole.items() for n, v in names.items()} == last


@pytest.mark.parametrize("given", [{"model": 3}, {"trian": {"seed": 1}}, {"task": {"seed": 1}}])
def test_what_is_no_section_is_refused_by_name(given):
    with pytest.raises(ConfigError, match=f"{next(iter(given))} = .* is not a section"):
        layered({"train": {"seed": 1}}, given)


@pytest.mark.parametrize("name", PRESETS)
def test_a_named_size_stands_for_its_numbers_and_what_is_given_besides_wins(name):
    size = ModelConfig.preset(name).size()
    assert spelled_out({"size": name}) == {"model": size}
    given = spelled_out({"size": name, "model": {"d_ff": 99, "dropout": 0.5}})
    assert given == {"model": {**size, "d_ff": 99, "dropout": 0.5}}
    assert spelled_out({"task": "chat"}) == {"task": "chat", "model": {}}


@pytest.mark.parametrize("architecture", ["lstm", "gru"])
def test_a_named_size_of_a_recurrent_model_is_its_own(architecture):
    given = {"size": "small", "model": {"architecture": architecture}}
    size = ModelConfig.preset("small", architecture=architecture).size()
    assert spelled_out(given) == {"model": {**size, "architecture": architecture}}
    assert size["d_model"] > ModelConfig.preset("small").d_model
    assert size["n_heads"] == 1


@pytest.mark.parametrize("size", ["huge", 3, [], {}])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(ConfigError, match=r"There is no size|is not a section"):
        spelled_out({"size": size})


def test_every_setting_of_the_model_is_marked_and_the_size_is_what_sizes_differ_in():
    marks = {name: mark("model", name) for name in ModelConfig.model_fields}
    assert None not in marks.values()
    assert Mark.FREE not in marks.values()
    sizes = {name for name in marks if marks[name] is Mark.SIZE}
    assert sizes == ModelConfig().size().keys()
    assert all(sizes <= PRESETS[name]["model"].keys() for name in ("quick", "small", "base", "big"))


def test_only_settings_that_no_update_depends_on_may_change():
    free = {path for path in FIELDS if mark(*path.split(".")) is Mark.FREE}
    assert {path for path in FIELDS if path.startswith("decode.")} <= free
    train = (
        "budget", "validate_every", "save_every", "keep_checkpoints", "patience", "skip_nonfinite",
        "film",
    )  # fmt: skip
    others = {path for path in free if not path.startswith("decode.")}
    languages = {"data.source_language", "data.target_language"}
    files = {"data.files", "data.validation_files"}
    assert others == {"data.cache_size", *languages, *files, *(f"train.{name}" for name in train)}


def test_every_text_that_has_a_form_has_examples_of_it():
    for path, schema in FIELDS.items():
        assert "pattern" not in schema or schema["examples"], path
