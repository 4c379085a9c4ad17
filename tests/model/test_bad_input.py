"""What the model cannot take fails with an error that says what would do, never with torch's own."""

import pytest
import torch

from clearhead.config import ModelConfig
from clearhead.errors import ConfigError, ModelError

IMPOSSIBLE = {
    "heads that do not divide the width": (
        {"d_model": 130, "n_heads": 4},
        ["model.d_model = 130", "model.n_heads = 4", "2 or 5 ", "multiple of 4"],
    ),
    "no encoder layers": (
        {"n_encoder_layers": 0},
        ["model.n_encoder_layers = 0", "greater than or equal to 1"],
    ),
    "no decoder layers": (
        {"n_decoder_layers": 0},
        ["model.n_decoder_layers = 0", "greater than or equal to 1"],
    ),
    "an odd width with sinusoids": (
        {"d_model": 15, "n_heads": 3},
        ["model.d_model = 15", "model.d_model = 16", 'model.positions = "learned"'],
    ),
    "one matrix of two sizes": (
        {"vocab_size": 10, "source_vocab_size": 20},
        ["model.source_vocab_size = 20", "model.vocab_size = 10", 'model.tie = "output"'],
    ),
    "a classifier that writes": (
        {"n_classes": 3},
        ["model.n_classes = 3", 'model.family = "encoder"'],
    ),
    "an unknown kind": ({"activation": "rleu"}, ["model.activation = rleu", "'relu'"]),
    "all of it dropped": ({"dropout": 1.0}, ["model.dropout = 1.0", "less than 1"]),
}


@pytest.mark.parametrize(("settings", "says"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_settings_fail_with_the_setting_its_value_and_what_would_do(settings, says):
    with pytest.raises(ConfigError) as caught:
        ModelConfig(**settings)
    for words in says:
        assert words in caught.value.whole
    assert len(caught.value.whole.splitlines()) <= 3


def test_an_unknown_preset_suggests_the_nearest():
    with pytest.raises(ConfigError, match=r"no size bsae.\nDid you mean base\?"):
        ModelConfig.preset("bsae")
    with pytest.raises(ConfigError, match=r"There are: base, big, quick, small, tiny\."):
        ModelConfig.preset("xyz")


@pytest.mark.parametrize("wrong", [-1, 23, 2**40])
@pytest.mark.parametrize("side", ["source", "target"])
def test_ids_outside_the_vocabulary_are_named(build, ids, side, wrong):
    inputs = {"source": ids(2, 5), "target": ids(2, 4)}
    inputs[side][1, 2] = wrong
    with pytest.raises(
        ModelError,
        match=rf"ids from .*{wrong}.* a vocabulary of 23, whose ids are 0 to 22\.\nUse the",
    ):
        build()(**inputs)


def test_source_ids_are_held_against_the_source_s_own_vocabulary(build, ids):
    with pytest.raises(ModelError, match="vocabulary of 30,"):
        build(tie="output", source_vocab_size=30)(torch.full((1, 2), 30), ids(1, 2))


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_sequence_beyond_learned_positions_is_named(build, ids, side):
    inputs = {"source": ids(2, 4), "target": ids(2, 4), side: ids(2, 9)}
    with pytest.raises(ModelError, match=r"9 tokens .* model\.max_positions = 8"):
        build(positions="learned", max_positions=8)(**inputs)
