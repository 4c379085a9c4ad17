"""From gradients to new weights."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import Adam, AdamW

from clearhead.config import TrainConfig
from clearhead.train.optimizer import Muon, is_hidden_matrix, optimizers, orthogonalised
from train.tiny import tiny_model

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
        assert decay[id(parameter)] == (0.3 if is_hidden_matrix(name, parameter) else 0.0)


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
