"""The three families and their sizes, from the same blocks."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from clearhead.config import ModelConfig
from clearhead.model import Trace, Transformer


def same(found, expected):
    assert_close(found, expected, atol=1e-5, rtol=1e-5)


def n_parameters(config):
    """Counted without a byte allocated for them."""
    with torch.device("meta"):
        return sum(weight.numel() for weight in Transformer(config).parameters())


BERT = {
    "family": "encoder", "norm": "post", "norm_eps": 1e-12, "activation": "gelu", "positions": "learned",
    "scale_embeddings": False, "embedding_norm": True, "n_token_types": 2, "logit_bias": True,
}  # fmt: skip
GPT2 = {
    "family": "decoder", "norm": "pre", "activation": "gelu_tanh", "positions": "learned", "scale_embeddings": False,
}  # fmt: skip
MARIAN = {"activation": "silu", "logit_bias": True}
BASE = {"d_model": 768, "d_ff": 3072, "n_heads": 12, "n_encoder_layers": 12, "n_decoder_layers": 12}


@pytest.mark.parametrize(("preset", "least", "most"), [("base", 63e6, 65e6), ("big", 213e6, 215e6)])
def test_presets_have_the_paper_s_number_of_parameters(preset, least, most):
    assert least <= n_parameters(ModelConfig.preset(preset, vocab_size=37_000)) <= most


def test_bert_and_gpt2_have_their_published_number_of_parameters():
    assert (
        n_parameters(ModelConfig(**BERT, **BASE, vocab_size=30_522, max_positions=512))
        == 109_514_298
    )
    assert (
        n_parameters(ModelConfig(**GPT2, **BASE, vocab_size=50_257, max_positions=1024))
        == 124_439_808
    )


@pytest.mark.parametrize("preset", ["tiny", "small"])
def test_small_presets_translate(preset, ids):
    model = Transformer(ModelConfig.preset(preset, vocab_size=23))
    assert model(ids(2, 5), ids(2, 4)).shape == (2, 4, 23)


def test_an_encoder_predicts_masked_tokens_from_both_sides(build, ids):
    model = build(**BERT)
    source = ids(2, 6)
    logits = model(source)
    assert logits.shape == (2, 6, 23)
    for place in (0, 5):
        other = source.clone()
        other[:, place] = (other[:, place] + 1) % 23
        assert ((model(other) - logits).abs().amax(dim=-1) > 1e-4).all()


def test_token_types_tell_segments_apart(build, ids):
    model, types = build(**BERT), torch.tensor([[0, 0, 1, 1]] * 2)
    first = model.encode(ids(2, 4))
    same(first, model.encode(ids(2, 4), types=torch.zeros_like(types)))
    assert not torch.allclose(first, model.encode(ids(2, 4), types=types), atol=1e-3)


def test_the_embedding_norm_stands_over_the_sum_of_tokens_positions_and_types(build, ids):
    model, trace = build(**BERT), Trace()
    model.encode(ids(2, 4), tap=trace)
    total = sum(trace[f"encoder.{part}"] for part in ("tokens", "positions", "types"))
    same(trace["encoder.embedded"], model.encoder.norm_embedding(total))


def test_the_masked_token_head_is_dense_activation_norm_then_the_tokens(build):
    model, x = build(**BERT), torch.randn(2, 3, 16)
    h = model.head.norm(nn.functional.gelu(model.head.dense(x)))
    same(model.logits(x), h @ model.tokens.weight.T + model.head.bias)


def test_a_decoder_alone_continues_what_it_is_given(build, ids):
    model = build(**GPT2)
    assert model(target=ids(2, 6)).shape == (2, 6, 23)
    assert not hasattr(model, "encoder")
    assert not any("cross" in name for name in model.state_dict())


def test_a_marian_like_model_adds_a_bias_to_its_logits(build, ids):
    model = build(**MARIAN)
    x = torch.randn(2, 3, 16)
    same(model.logits(x), x @ model.tokens.weight.T + model.head.bias)
    assert model(ids(2, 5), ids(2, 4)).shape == (2, 4, 23)


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_a_classifier_reads_the_first_position_or_the_mean(build, ids, pooling):
    model = build(family="encoder", n_classes=3, pooling=pooling)
    memory = model.encode(ids(2, 5))
    pooled = memory[:, 0] if pooling == "first" else memory.mean(dim=1)
    head = model.classifier
    same(model(ids(2, 5)), head.out(head.dense(pooled).tanh()))
