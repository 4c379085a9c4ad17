"""Weights: which matrices are one, and what they are called in a file."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from clearhead.model import Trace


def same(found, expected):
    assert_close(found, expected, atol=1e-5, rtol=1e-5)


TIED = {"all": 1, "output": 2, "none": 3}


@pytest.mark.parametrize("tie", TIED)
def test_tied_matrices_stay_tied_through_training_save_and_load(build, ids, tmp_path: Path, tie):
    model = build(tie=tie)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    model(ids(2, 5), ids(2, 4)).logsumexp(dim=-1).sum().backward()
    optimiser.step()
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    loaded = build(seed=1, tie=tie)
    loaded.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    same(loaded(ids(2, 5), ids(2, 4)), model(ids(2, 5), ids(2, 4)))

    matrices = [name for name, weight in loaded.named_parameters() if weight.shape == (23, 16)]
    assert len(matrices) == TIED[tie]
    assert not any(torch.equal(before[name], loaded.state_dict()[name]) for name in matrices)
    output = loaded.tokens.weight if tie != "none" else loaded.head.tokens.weight
    x = torch.randn(2, 3, 16)
    same(loaded.logits(x), x @ output.T)
    reading, trace = loaded.tokens if tie == "all" else loaded.source_tokens, Trace()
    loaded.encode(ids(2, 5), tap=trace)
    same(trace["encoder.tokens"], reading.weight[ids(2, 5)] * 4)


def test_two_vocabularies_may_differ_in_size(build, ids):
    model = build(tie="output", source_vocab_size=40)
    assert model(ids(2, 5, n=40), ids(2, 4)).shape == (2, 4, 23)


BLOCK = [
    f"{part}.{kind}"
    for part in (
        "self_attention.qkv", "self_attention.out", "norm_self", "cross_attention.qkv", "cross_attention.out",
        "norm_cross", "feed_forward.inner", "feed_forward.out", "norm_ff",
    )
    for kind in ("weight", "bias")
]  # fmt: skip
NO_CROSS = [name for name in BLOCK if "cross" not in name]


def layers(stack, names):
    return {f"{stack}.layers.{index}.{name}" for index in range(2) for name in names}


def both(*names):
    return {f"{name}.{kind}" for name in names for kind in ("weight", "bias")}


def test_names_of_weights_are_these_because_they_are_the_file_format(build):
    bert = {
        "family": "encoder",
        "positions": "learned",
        "n_token_types": 2,
        "embedding_norm": True,
        "logit_bias": True,
    }
    embedding = {"encoder.positions.table", "encoder.types.weight", *both("encoder.norm_embedding")}
    encoder, decoder = layers("encoder", NO_CROSS), layers("decoder", BLOCK)
    expected = {
        "translator": ({}, {"tokens.weight"} | encoder | decoder),
        "pre-norm": (
            {"norm": "pre"},
            {"tokens.weight"} | encoder | decoder | both("encoder.norm", "decoder.norm"),
        ),
        "untied": (
            {"tie": "none"},
            {"tokens.weight", "source_tokens.weight", "head.tokens.weight"} | encoder | decoder,
        ),
        "bert": (
            bert,
            {"tokens.weight", "head.bias"} | embedding | encoder | both("head.dense", "head.norm"),
        ),
        "classifier": (
            {"family": "encoder", "n_classes": 3},
            {"tokens.weight"} | encoder | both("classifier.dense", "classifier.out"),
        ),
        "gpt": ({"family": "decoder"}, {"tokens.weight"} | layers("decoder", NO_CROSS)),
    }
    for name, (shape, names) in expected.items():
        assert set(build(**shape).state_dict()) == names, name
