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
    {
        "norm": "pre",
        "positions": "learned",
        "max_positions": 16,
        "scale_embeddings": False,
        "norm_eps": 0.1,
    },
    {"family": "decoder"},
    {"family": "decoder", "norm": "pre", "bias": False},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_flat_step_equals_the_model(build, shape):
    model, target = build(**shape), torch.randint(8, (2, 7))
    cache, step = model.new_cache(2), Step(model)
    source = memory = mask = None
    if model.config.family == "encoder-decoder":
        source = torch.randint(8, (2, 4))
        mask = masks.padding(torch.tensor([[True] * 4, [True] * 2 + [False] * 2]))
        memory = model.encode(source, mask)
    whole = model.logits(model.decode(target, memory, mask))
    with torch.inference_mode():
        if source is not None:
            step.read(source, mask, cache)
        found = [step(part, mask, cache) for part in target.split([2, 1, 3, 1], dim=1)]
    assert_close(torch.cat(found, dim=1), whole, atol=1e-5, rtol=1e-5)


def test_only_the_last_logits_are_computed_where_only_they_are_asked_for(build):
    model, target = build(family="decoder"), torch.randint(8, (2, 7))
    with torch.inference_mode():
        whole = Step(model)(target, None, model.new_cache())
        assert_close(Step(model)(target, None, model.new_cache(), n_last=3), whole[:, -3:])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_eight_bits_change_the_logits_little(build, shape):
    model, target = build(**shape), torch.randint(8, (2, 7))
    exact, rounded = Step(model), Step(model, int8=True)
    found = []
    for step in (exact, rounded):
        cache = model.new_cache()
        with torch.inference_mode():
            if model.config.family == "encoder-decoder":
                step.read(torch.tensor([[5, 6, 7]] * 2), None, cache)
            found.append(step(target, None, cache))
    assert not torch.equal(*found)
    assert (found[0] - found[1]).norm() < 0.1 * found[0].norm()
