"""The same weights in torch.nn.Transformer give the same numbers."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from clearhead.model import Trace
from clearhead.model.block import ACTIVATIONS

THEIRS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}
NAMES = {
    "self_attention.qkv.": "self_attn.in_proj_", "self_attention.out.": "self_attn.out_proj.", "norm_self": "norm1",
    "cross_attention.qkv.": "multihead_attn.in_proj_", "cross_attention.out.": "multihead_attn.out_proj.",
    "feed_forward.inner": "linear1", "feed_forward.out": "linear2", "norm_cross": "norm2",
}  # fmt: skip


def twin(model):
    """torch.nn.Transformer with this model's weights."""
    config = model.config
    shape = {
        "d_model": config.d_model, "nhead": config.n_heads, "dim_feedforward": config.d_ff, "dropout": 0.0,
        "activation": THEIRS[config.activation], "norm_first": config.norm == "pre", "batch_first": True,
        "bias": config.bias, "layer_norm_eps": config.norm_eps,
    }  # fmt: skip
    last_norm = [
        nn.LayerNorm(config.d_model, config.norm_eps, bias=config.bias)
        if config.norm == "pre"
        else None
        for _ in range(2)
    ]
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**shape),
        config.n_encoder_layers,
        last_norm[0],
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(**shape), config.n_decoder_layers, last_norm[1]
    )
    torchs = nn.Transformer(**shape, custom_encoder=encoder, custom_decoder=decoder)
    weights = {}
    for name, weight in model.state_dict().items():
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        weights[name.replace("norm_ff", "norm3" if name.startswith("decoder") else "norm2")] = (
            weight
        )
    torchs.load_state_dict({name: weights[name] for name in torchs.state_dict()})
    stacks = [name for name in weights if name.startswith(("encoder", "decoder"))]
    assert len(stacks) == len(torchs.state_dict()), "every weight of ours has its place in theirs"
    return torchs


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", THEIRS)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_equal_to_torch_nn_transformer_given_the_same_weights(
    build, ids, real, norm, activation, bias
):
    model, trace = build(norm=norm, activation=activation, bias=bias, norm_eps=0.01), Trace()
    mask = real(7, 4, 1)
    model(ids(3, 7), ids(3, 5), mask, tap=trace)
    theirs = twin(model)(
        trace["encoder.embedded"],
        trace["decoder.embedded"],
        src_key_padding_mask=~mask,
        memory_key_padding_mask=~mask,
        tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
    )
    assert_close(trace["decoder.out"], theirs, atol=1e-5, rtol=1e-5)


def test_equal_to_torch_nn_transformer_without_any_mask(build, ids):
    model, trace = build(), Trace()
    model(ids(3, 7), ids(3, 1), tap=trace)
    theirs = twin(model)(trace["encoder.embedded"], trace["decoder.embedded"])
    assert_close(trace["decoder.out"], theirs, atol=1e-5, rtol=1e-5)


def test_these_are_all_the_activations():
    assert list(ACTIVATIONS) == list(THEIRS)
