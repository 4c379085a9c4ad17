"""The flat step is the model."""

import pytest
import torch
from torch.testing import assert_close

from clearhead.model import Step, masks

SHAPES = [
    {},
    {"norm": "pre"},
    {"norm": "pre", "bias": False, "activation": "gelu"},
    {"bias": False, "activation": "silu", "tie": "output", "source_vocab_size": 9},
    {"activation": "gelu_tanh", "tie": "none", "logit_bias": True},
    {"embedding_norm": True, "n_token_types": 2, "norm_eps": 0.1},
    {"norm": "pre", "positions": "learned", "max_positions": 16, "scale_embeddings": False, "norm_eps": 0.1},
    {"family": "decoder"},
    {"family": "decoder", "norm": "pre", "bias": False},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_flat_step_equals_the_model(build, shape):
    model, target = build(**shape), torch.randint(8, (2, 7))
    memory = mask = None
    if model.config.family == "encoder-decoder":
        mask = masks.padding(torch.tensor([[True] * 4, [True] * 2 + [False] * 2]))
        memory = model.encode(torch.randint(8, (2, 4)), mask)
    whole, cache, step = model.logits(model.decode(target, memory, mask)), model.new_cache(2), Step(model)
    model.decode(target[:, :2], memory, mask, cache)
    with torch.inference_mode():
        found = [step(part, mask, cache) for part in target[:, 2:].split([1, 3, 1], dim=1)]
    assert_close(torch.cat(found, dim=1), whole[:, 2:], atol=1e-5, rtol=1e-5)
