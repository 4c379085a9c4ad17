"""Dropout: the promised rate, the same expectation, and off when nobody trains."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.model import Trace
from clearhead.model.dropout import Dropout, random_bytes


@given(st.sampled_from([0.004, 0.1, 0.3, 0.5, 0.9]), st.integers(0, 10))
def test_the_rate_is_as_asked_and_the_expectation_is_kept(rate, seed):
    torch.manual_seed(seed)
    x = torch.full((400, 500), 3.0)
    y = Dropout(rate)(x)
    n_zeroed = round(256 * rate)
    assert (y == 0).float().mean().item() == pytest.approx(n_zeroed / 256, abs=0.005)
    assert rate == pytest.approx(n_zeroed / 256, abs=1 / 512)
    assert y.mean().item() == pytest.approx(3.0, rel=0.03)
    kept = y[y != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 3.0 * 256 / (256 - n_zeroed)))


def test_each_call_and_each_entry_draws_anew():
    x, dropout = torch.ones(64, 64), Dropout(0.5)
    first, second = dropout(x), dropout(x)
    assert (first != second).float().mean().item() == pytest.approx(0.5, abs=0.05)
    for rows, others in (
        (first[1:], first[:-1]),
        (first.T[1:], first.T[:-1]),
        (first.T[8:], first.T[:-8]),
    ):
        assert (rows != others).float().mean().item() == pytest.approx(0.5, abs=0.05)


def test_the_same_seed_gives_the_same_zeros():
    torch.manual_seed(5)
    first = Dropout(0.3)(torch.ones(7, 9))
    torch.manual_seed(5)
    assert torch.equal(first, Dropout(0.3)(torch.ones(7, 9)))


@given(st.sampled_from([0.004, 0.1, 0.5, 0.9, 0.996]), st.integers(0, 10))
def test_a_byte_below_the_rate_zeroes_its_entry(rate, seed):
    """Spelled out as a comparison, which takes longer; bit for bit the same."""
    torch.manual_seed(seed)
    n_zeroed = round(256 * rate)
    kept = random_bytes(63).view(7, 9) >= n_zeroed
    torch.manual_seed(seed)
    x = torch.linspace(-2, 3, 63).view(7, 9)
    assert torch.equal(Dropout(rate)(x), x * (kept * (256 / (256 - n_zeroed))))


def test_nothing_is_dropped_in_use_or_at_rate_zero():
    x = torch.randn(5, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_type_of_the_numbers_stays(dtype):
    assert Dropout(0.5)(torch.ones(3, 3, dtype=dtype)).dtype == dtype


def test_gradients_pass_where_values_pass():
    x = torch.ones(20, 20, requires_grad=True)
    y = Dropout(0.5)(x)
    y.sum().backward()
    assert torch.equal(x.grad, y)


@pytest.mark.parametrize("training", [True, False])
def test_adding_the_stream_is_part_of_it_and_changes_nothing(training):
    dropout, (x, stream) = Dropout(0.3).train(training), torch.randn(2, 20, 20, requires_grad=True)
    found = []
    for added in (lambda: dropout(x, plus=stream), lambda: stream + dropout(x)):
        torch.manual_seed(0)
        found.append((added(), *torch.autograd.grad(added().sin().sum(), (x, stream))))
    torch.testing.assert_close(*found)


def test_random_bytes_are_uniform():
    counts = random_bytes(256_000 + 3).bincount(minlength=256).double()
    assert counts.sum() == 256_003
    assert (
        (counts - 1000) ** 2 / 1000
    ).sum().item() < 350  # chi-squared of 255: beyond it once in 30,000 seeds


def test_dropout_acts_on_embeddings_and_on_every_sublayer_in_training(build, ids):
    """Each of them alone changes the output; all of them are silent in use."""
    model = build(n_encoder_layers=1, n_decoder_layers=1, dropout=0.5)
    plain = model(ids(2, 5), ids(2, 4))
    places = [module for module in model.modules() if isinstance(module, Dropout)]
    assert len(places) == 4
    for place in places:
        place.train()
        assert not torch.allclose(model(ids(2, 5), ids(2, 4)), plain)
        place.eval()
    assert torch.equal(model(ids(2, 5), ids(2, 4)), plain)


def test_dropout_thins_what_a_sublayer_adds_and_not_the_stream(build, ids):
    model = build(family="decoder", norm="pre", dropout=0.5, n_decoder_layers=1)
    model.decoder.layers[0].dropout.train()
    trace = Trace()
    model(target=ids(2, 6), tap=trace)
    for before, part, after in (
        ("resid_pre", "self", "resid_mid"),
        ("resid_mid", "ff", "resid_post"),
    ):
        added = trace[f"decoder.0.{after}"] - trace[f"decoder.0.{before}"]
        ratio = added / trace[f"decoder.0.{part}.out"]
        dropped = ratio.abs() < 1e-2
        assert 0.3 < dropped.float().mean() < 0.7
        torch.testing.assert_close(
            ratio[~dropped], torch.full_like(ratio[~dropped], 2.0), atol=0.05, rtol=0
        )
