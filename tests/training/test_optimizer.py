"""From gradients to new weights; frozen below, slower below."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import Adam, AdamW

from clearhead.config import TrainConfig
from clearhead.errors import ConfigError
from clearhead.training.optimizer import (
    Muon,
    depths,
    freeze,
    optimizers,
    orthogonalised,
    rate_shares,
)
from training.tiny import tiny_model

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def textbook_muon(weight, gradients, lr, decay, momentum=0.95):
    """Muon as it was published, in float64, one matrix."""
    weight, mean = weight.double(), torch.zeros_like(weight, dtype=torch.float64)
    for gradient in gradients:
        mean = momentum * mean + (1 - momentum) * gradient.double()
        x = (1 - momentum) * gradient.double() + momentum * mean
        tall = x.size(0) > x.size(1)
        x = x.T if tall else x
        x = x / x.norm()
        a, b, c = COEFFICIENTS
        for _ in range(5):
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        x = x.T if tall else x
        weight = (
            weight * (1 - lr * decay) - lr * math.sqrt(max(1, weight.size(0) / weight.size(1))) * x
        )
    return weight


@pytest.mark.parametrize("shape", [(8, 8), (8, 20), (20, 8)])
def test_muon_is_the_published_mathematics(shape):
    weight = torch.randn(shape)
    gradients = [torch.randn(shape) for _ in range(4)]
    parameter = torch.nn.Parameter(weight.clone())
    muon = Muon([parameter], lr=0.02, weight_decay=0.1)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        muon.step()
    expected = textbook_muon(weight, gradients, 0.02, 0.1)
    torch.testing.assert_close(parameter.detach().double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.bf16
def test_muon_agrees_with_torchs_own_within_the_precision_of_bfloat16():
    weight, gradient = torch.randn(16, 16), torch.randn(16, 16)
    ours, theirs = torch.nn.Parameter(weight.clone()), torch.nn.Parameter(weight.clone())
    ours.grad, theirs.grad = gradient.clone(), gradient.clone()
    Muon([ours], lr=0.02, weight_decay=0.1).step()
    torch.optim.Muon([theirs], lr=0.02, weight_decay=0.1).step()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0.02 * 0.03)


@given(
    rows=st.integers(1, 24),
    columns=st.integers(1, 24),
    n=st.integers(1, 3),
    seed=st.integers(0, 999),
)
def test_orthogonalising_makes_every_direction_about_equally_long_and_turns_none(
    rows, columns, n, seed
):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(n, rows, columns, generator=random)
    u, s, vt = torch.linalg.svd(x, full_matrices=False)
    clear = (
        s > 0.1 * s[:, :1]
    )  # directions too short to be seen in five iterations grow, but not to 1
    found = u.mT @ orthogonalised(x) @ vt.mT
    stretched = found.diagonal(dim1=1, dim2=2)
    assert ((stretched[clear] > 0.6) & (stretched[clear] < 1.3)).all()
    assert (found - torch.diag_embed(stretched)).abs().max() < 1e-3


def test_muon_takes_query_key_and_value_apart():
    gradient = torch.cat([1_000 * torch.randn(8, 8), torch.randn(8, 8), 0.001 * torch.randn(8, 8)])
    stacked = torch.nn.Parameter(torch.zeros(24, 8))
    stacked.grad = gradient
    Muon([stacked], lr=1.0, weight_decay=0.0).step()
    for found, third in zip(stacked.detach().chunk(3), gradient.chunk(3), strict=True):
        alone = torch.nn.Parameter(torch.zeros(8, 8))
        alone.grad = third
        Muon([alone], lr=1.0, weight_decay=0.0).step()
        torch.testing.assert_close(found, alone.detach(), rtol=1e-3, atol=1e-4)


def test_muon_leaves_a_matrix_without_gradient_alone():
    parameter = torch.nn.Parameter(torch.ones(4, 4))
    Muon([parameter], lr=1.0, weight_decay=1.0).step()
    assert (parameter == 1).all()


@pytest.mark.parametrize("name", ["adam", "adamw", "muon"])
def test_every_parameter_has_exactly_one_optimizer(name):
    model = tiny_model(n_decoder_layers=2)
    owned = [
        parameter
        for optimizer in optimizers(model, TrainConfig(optimizer=name))
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
    assert sorted(map(id, owned)) == sorted(map(id, model.parameters()))


def test_adam_has_the_papers_constants_and_no_decay():
    (adam,) = optimizers(tiny_model(), TrainConfig(optimizer="adam"))
    assert type(adam) is Adam
    assert adam.defaults["betas"] == (0.9, 0.98)
    assert adam.defaults["eps"] == 1e-9
    assert adam.defaults["weight_decay"] == 0


def test_only_hidden_matrices_shrink_under_adamw():
    model = tiny_model()
    (adamw,) = optimizers(model, TrainConfig(optimizer="adamw", weight_decay=0.3))
    assert type(adamw) is AdamW
    decay = {id(p): group["weight_decay"] for group in adamw.param_groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        is_hidden_matrix = ".layers." in name and parameter.ndim == 2
        assert decay[id(parameter)] == (0.3 if is_hidden_matrix else 0.0)


def test_muon_gets_the_matrices_of_the_stacks_and_nothing_else():
    model = tiny_model()
    muon, _ = optimizers(model, TrainConfig(optimizer="muon"))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    owned = {names[id(parameter)] for group in muon.param_groups for parameter in group["params"]}
    assert "encoder.layers.0.self_attention.qkv.weight" in owned
    assert "decoder.layers.0.feed_forward.inner.weight" in owned
    assert not {
        name for name in owned if "tokens" in name or "norm" in name or name.endswith("bias")
    }


@pytest.fixture
def model():
    return tiny_model(
        family="encoder", n_classes=2, n_encoder_layers=3, positions="learned", embedding_norm=True
    )


def test_the_token_vectors_are_at_the_bottom_and_the_head_on_top(model):
    found = depths(model)
    assert {name for name, depth in found.items() if depth == 0} == {
        "tokens.weight",
        "encoder.positions.table",
        "encoder.norm_embedding.weight",
        "encoder.norm_embedding.bias",
    }
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


def test_recurrent_layers_have_their_depth_and_muon_their_matrices():
    model = tiny_model(architecture="gru", n_encoder_layers=2, n_decoder_layers=2)
    found = depths(model)
    assert found["tokens.weight"] == 0
    assert found["encoder.layers.1.cells.weight_hh_l0_reverse"] == 2
    assert found["decoder.layers.0.cells.bias_ih_l0"] == 1
    assert found["decoder.cross.query.weight"] == found["decoder.start.weight"] == 3
    muon, _ = optimizers(model, TrainConfig(optimizer="muon"))
    owned = {id(parameter) for group in muon.param_groups for parameter in group["params"]}
    assert owned == {id(p) for name, p in model.named_parameters() if ".weight_" in name}


def test_a_frozen_recurrent_layer_has_no_gradient_and_the_layers_above_it_learn():
    model = tiny_model(architecture="lstm", n_encoder_layers=2, n_decoder_layers=2)
    freeze(model, 1)
    model(torch.tensor([[5, 6]]), torch.tensor([[1, 7]])).logsumexp(dim=-1).sum().backward()
    assert all(
        (p.grad is None) == (depths(model)[name] <= 1) for name, p in model.named_parameters()
    )
