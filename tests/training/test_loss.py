"""What training makes small, against the same spelled out with torch's own functions."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from clearhead.training import label_loss, next_token_loss, smoothed_cross_entropy
from clearhead.training import loss as loss_module
from clearhead.training.loss import UNKNOWN, slices, with_unknowns
from training.tiny import label_batch, pair_batch, text_batch, tiny_model

SIZES = st.integers(1, 9)


@given(
    n=st.integers(0, 17),
    d=SIZES,
    v=st.integers(2, 30),
    smoothing=st.sampled_from([0.0, 0.1, 0.5]),
    bias=st.booleans(),
    at_once=st.integers(1, 200),
    factor=st.sampled_from([1.0, 0.25]),
    seed=st.integers(0, 99),
)
def test_the_fused_loss_equals_cross_entropy_in_value_and_in_every_gradient(
    n, d, v, smoothing, bias, at_once, factor, seed
):
    random = torch.Generator().manual_seed(seed)

    def leaf(*shape):
        return (3 * torch.randn(*shape, generator=random, dtype=torch.float64)).requires_grad_()

    inputs = [leaf(n, d), leaf(v, d), *([leaf(v)] if bias else [])]
    targets = torch.randint(v, (n,), generator=random)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss_module, "LOGITS_AT_ONCE", at_once)
        fused = smoothed_cross_entropy(
            inputs[0], inputs[1], inputs[2] if bias else None, targets, smoothing
        )
    spelled_out = F.cross_entropy(
        F.linear(*inputs), targets, label_smoothing=smoothing, reduction="sum"
    )
    torch.testing.assert_close(fused, spelled_out)
    for one, other in zip(
        torch.autograd.grad(fused * factor, inputs),
        torch.autograd.grad(spelled_out * factor, inputs),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_fused_loss_has_the_gradient_that_finite_differences_have(smoothing):
    x, tokens, bias = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True)
        for shape in ((4, 3), (5, 3), (5,))
    )
    targets = torch.tensor([0, 4, 2, 2])
    assert torch.autograd.gradcheck(
        lambda *args: smoothed_cross_entropy(*args, targets, smoothing), (x, tokens, bias)
    )


@pytest.mark.parametrize("logits", [1e4, -1e4])
def test_large_logits_neither_overflow_nor_lose_the_loss(logits):
    x, tokens = torch.tensor([[1.0]]), torch.tensor([[logits], [0.0]])
    expected = F.cross_entropy(x @ tokens.T, torch.tensor([0]), reduction="sum")
    torch.testing.assert_close(smoothed_cross_entropy(x, tokens, None, torch.tensor([0])), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_without_gradients_the_loss_is_the_same_and_costs_one_product(smoothing):
    x, tokens, bias = torch.randn(50, 16), torch.randn(90, 16), torch.randn(90)
    targets = torch.randint(90, (50,))
    expected = smoothed_cross_entropy(x, tokens.requires_grad_(), bias, targets, smoothing)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        found = smoothed_cross_entropy(x, tokens, bias, targets, smoothing)
    assert torch.equal(found, expected)
    assert counter.get_total_flops() == 2 * 50 * 16 * 90


@pytest.mark.bf16
def test_bf16_inputs_give_the_loss_and_gradients_of_their_precision():
    x, tokens = torch.randn(6, 8), torch.randn(11, 8)
    targets = torch.arange(6)
    halves = [x.bfloat16().requires_grad_(), tokens.bfloat16().requires_grad_()]
    found = smoothed_cross_entropy(halves[0], halves[1], None, targets, 0.1)
    found.backward()
    wholes = [x.requires_grad_(), tokens.requires_grad_()]
    expected = F.cross_entropy(F.linear(*wholes), targets, label_smoothing=0.1, reduction="sum")
    expected.backward()
    torch.testing.assert_close(found.float(), expected, rtol=0.02, atol=0.02)
    for half, one in zip(halves, wholes, strict=True):
        assert half.grad.dtype == torch.bfloat16
        torch.testing.assert_close(half.grad.float(), one.grad, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("batch", [pair_batch, text_batch])
def test_teacher_forcing_sums_over_the_positions_that_count_and_no_others(batch):
    family = "encoder-decoder" if batch is pair_batch else "decoder"
    model, batch = tiny_model(family=family).eval(), batch()
    batch.judged[0, 2:] = False
    loss, n = next_token_loss(0.1)(model, batch)
    logits = model(
        getattr(batch, "source", None), batch.target_in, getattr(batch, "source_mask", None)
    )
    each = F.cross_entropy(logits.mT, batch.target_out, label_smoothing=0.1, reduction="none")
    assert n == int(batch.judged.sum()) < batch.judged.numel()
    torch.testing.assert_close(loss, (each * batch.judged).sum())


def test_one_label_is_a_softmax_and_several_are_a_yes_or_no_each():
    model, batch = tiny_model(family="encoder", n_classes=3).eval(), label_batch()
    scores = model(batch.source, real=batch.source_mask)
    loss, n = label_loss(0.1)(model, batch)
    expected = F.cross_entropy(
        scores, batch.labels.long().argmax(dim=1), label_smoothing=0.1, reduction="sum"
    )
    torch.testing.assert_close(loss, expected)
    loss, n = label_loss(several=True)(model, batch)
    expected = (
        F.binary_cross_entropy_with_logits(scores, batch.labels.float(), reduction="none")
        .mean(dim=1)
        .sum()
    )
    torch.testing.assert_close(loss, expected)
    assert n == len(batch.labels)


def test_word_dropout_replaces_its_share_of_the_words_and_never_a_special_token():
    ids = torch.randint(0, 50, (100, 200))
    dropped = with_unknowns(ids, 0.3)
    changed = dropped != ids
    assert (dropped[changed] == UNKNOWN).all()
    assert (ids[changed] > UNKNOWN).all()
    words = ids > UNKNOWN
    assert changed[words].float().mean() == pytest.approx(0.3, abs=0.02)


def test_word_dropout_is_for_training_only():
    ids = torch.randint(0, 50, (4, 20))
    assert with_unknowns(ids, 0.0) is ids
    with torch.no_grad():
        assert with_unknowns(ids, 0.5) is ids


@given(n=st.integers(0, 1_000), size=st.integers(1, 100))
def test_slices_cover_everything_once_in_even_pieces(n, size):
    pieces = list(slices(n, size))
    assert [i for piece in pieces for i in range(n)[piece]] == list(range(n))
    lengths = {piece.stop - piece.start for piece in pieces}
    assert max(lengths, default=0) <= size
    assert max(lengths, default=0) - min(lengths, default=0) <= 1
