"""Weights begin as model/init.py promises."""

import math

import pytest
import torch

from clearhead.config import ModelConfig
from clearhead.model import Trace, Transformer

WIDTH, HIDDEN = 64, 160
SIZE = {
    "vocab_size": 500,
    "d_model": WIDTH,
    "d_ff": HIDDEN,
    "n_encoder_layers": 3,
    "n_decoder_layers": 3,
    "norm": "post",
    "init": "xavier",
}


def made(**changes):
    return Transformer(ModelConfig(**{**SIZE, **changes}))


def spread(weight):
    return weight.std().item()


def matrices(model):
    """Each square or oblong matrix of the blocks, with its name; stacked ones apart."""
    for name, weight in model.named_parameters():
        if ".layers." in name and weight.dim() == 2:
            for part in weight.chunk(3) if "qkv" in name else [weight]:
                yield name, part


def test_xavier_matrices_are_uniform_with_the_variance_of_glorot():
    for name, weight in matrices(made(init="xavier")):
        variance = 2 / sum(weight.shape)
        assert spread(weight) == pytest.approx(math.sqrt(variance), rel=0.05), name
        assert weight.abs().max().item() <= math.sqrt(3 * variance), name


def test_small_matrices_are_normal_and_those_that_write_to_the_stream_quieter():
    model = made(init="small", norm="pre")
    for name, weight in matrices(model):
        n_writes = 1 if "out.weight" not in name else 6 if name.startswith("encoder") else 9
        assert spread(weight) == pytest.approx(math.sqrt(2 / 5 / WIDTH / n_writes), rel=0.05), name
        assert weight.abs().max().item() > 3 * spread(weight), name


@pytest.mark.parametrize("shape", [{}, {"norm": "pre", "init": "small"}], ids=["xavier", "small"])
def test_token_vectors_are_as_large_as_position_vectors_and_logits_about_one(shape):
    model, trace = made(**shape).eval(), Trace()
    source, target = torch.randint(500, (2, 20)), torch.randint(500, (2, 20))
    logits = model(source, target, tap=trace)
    assert spread(model.tokens.weight) == pytest.approx(WIDTH**-0.5, rel=0.05)
    assert spread(trace["encoder.tokens"]) == pytest.approx(1, rel=0.1)
    assert 0.5 < spread(trace["encoder.positions"]) < 1
    assert 0.7 < spread(logits) < 1.5


def test_without_scaling_tokens_positions_and_types_begin_as_in_bert():
    model = made(scale_embeddings=False, positions="learned", n_token_types=100, tie="none")
    for table in (model.tokens.weight, model.source_tokens.weight, model.head.tokens.weight):
        assert spread(table) == pytest.approx(0.02, rel=0.05)
    for table in (
        model.encoder.positions.table,
        model.decoder.positions.table,
        model.encoder.types.weight,
    ):
        assert spread(table) == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize("init", ["xavier", "small"])
def test_biases_begin_at_zero_and_norms_at_one(init):
    model = made(init=init, logit_bias=True, norm="pre", embedding_norm=True)
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            assert not weight.any(), name
        elif "norm" in name:
            assert weight.eq(1).all(), name


def test_a_pre_norm_stream_does_not_grow_with_depth():
    def end(n_layers):
        model = made(family="decoder", norm="pre", init="small", n_decoder_layers=n_layers).eval()
        trace = Trace()
        model(target=torch.randint(500, (2, 20)), tap=trace)
        return spread(trace[f"decoder.{n_layers - 1}.resid_post"])

    assert end(16) == pytest.approx(end(2), rel=0.1)


def test_the_same_seed_gives_the_same_model():
    torch.manual_seed(3)
    first = made().state_dict()
    torch.manual_seed(3)
    second = made().state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
