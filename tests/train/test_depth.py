"""How deep weights lie, and what that changes: frozen below, slower below."""

import pytest
import torch

from clearhead.config import TrainConfig
from clearhead.errors import ConfigError
from clearhead.train.depth import depths, freeze, rate_shares
from clearhead.train.optimizer import optimizers
from train.tiny import tiny_model


@pytest.fixture
def model():
    return tiny_model(
        family="encoder", n_classes=2, n_encoder_layers=3, positions="learned", embedding_norm=True
    )


def test_the_token_vectors_are_at_the_bottom_and_the_head_on_top(model):
    found = depths(model)
    assert {name for name, depth in found.items() if depth == 0} == {
        "tokens.weight", "encoder.positions.table", "encoder.norm_embedding.weight", "encoder.norm_embedding.bias",
    }  # fmt: skip
    assert found["encoder.layers.0.norm_self.weight"] == 1
    assert found["encoder.layers.2.feed_forward.out.weight"] == 3
    assert found["classifier.out.weight"] == found["encoder.norm.weight"] == 4


def test_each_layer_learns_at_its_share_of_the_rate_above_it(model):
    shares = rate_shares(model, 0.5)
    assert shares["classifier.out.weight"] == 1
    assert shares["encoder.layers.2.norm_ff.weight"] == 0.5
    assert shares["tokens.weight"] == 0.5**4


@pytest.mark.parametrize("optimizer", ["muon", "adamw", "adam"])
def test_every_parameter_has_one_optimizer_and_its_rate(model, optimizer):
    made = optimizers(
        model,
        TrainConfig(
            optimizer=optimizer, layer_decay=0.5, learning_rate=1.0, muon_learning_rate=1.0
        ),
    )
    rates = {
        id(p): group["lr"] for each in made for group in each.param_groups for p in group["params"]
    }
    assert rates == {id(p): rate_shares(model, 0.5)[name] for name, p in model.named_parameters()}


def test_frozen_parameters_have_no_optimizer(model):
    freeze(model, 2)
    for optimizer in ("muon", "adamw", "adam"):
        made = optimizers(model, TrainConfig(optimizer=optimizer))
        owned = {id(p) for each in made for group in each.param_groups for p in group["params"]}
        assert owned == {id(p) for name, p in model.named_parameters() if depths(model)[name] > 2}
    freeze(model, 3)
    assert len(optimizers(model, TrainConfig())) == 1
    freeze(model, 0)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_model_that_is_all_frozen_is_an_error(model):
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(ConfigError, match="leaves nothing to learn"):
        optimizers(model, TrainConfig(freeze=9))


def test_frozen_weights_have_no_gradient(model):
    freeze(model, 1)
    model(torch.tensor([[5, 6]])).sum().backward()
    assert all(
        (p.grad is None) == (depths(model)[name] <= 1) for name, p in model.named_parameters()
    )
