"""Attention itself, against the formula."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from clearhead.model import Trace
from clearhead.model.attention import Attention, attend, merge_heads, split_heads
from clearhead.model.batched import LONGEST

sizes = st.integers(1, 5)


def drawn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@given(sizes, sizes, sizes, sizes, st.booleans(), st.integers(0, 1000))
def test_fused_attention_equals_spelled_out_attention(
    n_rows, n_heads, n_new, n_slots, masked, seed
):
    q, k, v = (
        drawn(seed, n_rows, n_heads, n_new, 4),
        *drawn(seed + 1, 2, n_rows, n_heads, n_slots, 4),
    )
    mask = (
        (drawn(seed + 2, n_rows, 1, n_new, n_slots) > 0) | (torch.arange(n_slots) == 0)
        if masked
        else None
    )
    assert_close(attend(q, k, v, mask), attend(q, k, v, mask, tap=Trace()), atol=1e-5, rtol=1e-5)


def masks(n_rows, n_heads, n_new, n_slots):
    """Every shape that a mask may have: none, causal, padding, one for all slots, and one for each head."""
    shapes = [
        (n_new, n_slots),
        (n_rows, 1, 1, n_slots),
        (n_new, 1),
        (n_rows, n_heads, n_new, n_slots),
    ]
    first = torch.arange(n_slots) == 0
    return [None, *((drawn(sum(shape), *shape) > 0) | first[: shape[-1]] for shape in shapes)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("n_new", "n_slots"), [(1, 1), (3, 15), (5, 16), (17, 17), (3, LONGEST), (3, LONGEST + 1)]
)
def test_training_attends_with_the_gradients_of_spelled_out_attention(n_new, n_slots, dtype):
    """By batched products or by torch's fused kernel, whichever the length asks for."""
    q = drawn(0, 2, 3, n_new, 8).to(dtype).requires_grad_()
    k, v = (drawn(seed, 2, 3, n_slots, 8).to(dtype).requires_grad_() for seed in (1, 2))
    for mask in masks(2, 3, n_new, n_slots):
        fast, plain = attend(q, k, v, mask), attend(q, k, v, mask, tap=Trace())
        close = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {}
        assert_close(fast, plain, **close)
        weighed = [torch.autograd.grad(z.sin().sum(), (q, k, v)) for z in (fast, plain)]
        assert_close(*weighed, **close)


@pytest.mark.parametrize("source", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize("n_tokens", [7, LONGEST + 1])
def test_listening_changes_no_gradient(source, n_tokens):
    attention, x = Attention(12, 3), drawn(0, 2, n_tokens, 12).requires_grad_()
    given = {"source": drawn(1, 2, 5, 12).requires_grad_()} if source else {}
    inputs = [x, *given.values(), *attention.parameters()]
    found = [
        torch.autograd.grad(attention(x, **given, **tap).sin().sum(), inputs)
        for tap in ({}, {"tap": Trace()})
    ]
    assert_close(*found, atol=1e-5, rtol=1e-5)


def test_one_query_takes_the_mixture_that_the_formula_says():
    q, k, v = drawn(0, 8).tolist(), drawn(1, 3, 8).tolist(), drawn(2, 3, 8).tolist()
    weights = [
        math.exp(sum(a * b for a, b in zip(q, key, strict=True)) / math.sqrt(8)) for key in k
    ]
    mixture = [
        sum(w * value[i] for w, value in zip(weights, v, strict=True)) / sum(weights)
        for i in range(8)
    ]
    found = attend(torch.tensor([[[q]]]), torch.tensor([[k]]), torch.tensor([[v]]), None)
    assert_close(found[0, 0, 0], torch.tensor(mixture))


def test_the_trace_of_attention_adds_up():
    q, k, v = drawn(0, 3, 2, 1, 5, 4)
    mask, trace = torch.ones(5, 5, dtype=torch.bool).tril(), Trace()
    attend(q, k, v, mask, tap=trace)
    assert list(trace.seen) == ["scores", "scaled", "masked", "pattern"]
    assert_close(trace["scores"], torch.einsum("bhtk,bhsk->bhts", q, k))
    assert_close(trace["scaled"] * 2, trace["scores"])
    assert trace["masked"][..., ~mask].eq(-torch.inf).all()
    assert_close(trace["masked"][..., mask], trace["scaled"][..., mask])


def test_merging_heads_undoes_splitting_them():
    x = drawn(0, 2, 3, 12)
    assert split_heads(x, 4).shape == (2, 4, 3, 3)
    assert torch.equal(merge_heads(split_heads(x, 4)), x)


def test_each_head_reads_its_own_slice_of_the_width():
    assert torch.equal(split_heads(drawn(0, 2, 3, 12), 4)[:, 1], drawn(0, 2, 3, 12)[..., 3:6])


def test_the_thirds_of_one_matrix_are_query_key_and_value():
    attention, x, trace = Attention(12, 3), drawn(0, 2, 5, 12), Trace()
    attention(x, tap=trace)
    for name, weight, bias in zip(
        "qkv", attention.qkv.weight.chunk(3), attention.qkv.bias.chunk(3), strict=True
    ):
        assert_close(merge_heads(trace[name]), x @ weight.T + bias)


@pytest.mark.parametrize("bias", [True, False])
def test_attending_to_itself_as_a_source_is_self_attention(bias):
    attention, x = Attention(12, 3, bias=bias), drawn(0, 2, 5, 12)
    assert_close(attention(x, source=x), attention(x))


@pytest.mark.parametrize("tap", [{}, {"tap": Trace()}], ids=["fused", "spelled out"])
def test_attention_dropout_zeroes_a_share_of_the_pattern_and_keeps_its_expectation(tap):
    q, k, v = torch.zeros(1, 4, 500, 2), torch.zeros(1, 4, 50, 2), torch.ones(1, 4, 50, 2)
    sums = attend(q, k, v, None, dropout=0.4, **tap)[
        ..., 0
    ]  # of 50 weights, each 0 or 1 / 50 / 0.6
    assert sums.mean().item() == pytest.approx(1, abs=0.02)
    assert sums.std().item() == pytest.approx(math.sqrt(0.4 * 0.6 / 50) / 0.6, rel=0.1)


def test_attention_dropout_is_for_training_only():
    attention, x = Attention(12, 3, dropout=0.5), drawn(0, 2, 5, 12)
    assert not torch.equal(attention(x), attention(x))
    attention.eval()
    assert torch.equal(attention(x), attention(x))
