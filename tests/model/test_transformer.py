"""Laws of the whole model: causality, batches, order."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from clearhead.model import Trace

norms = pytest.mark.parametrize("norm", ["post", "pre"])
lengths = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def same(found, expected):
    assert_close(found, expected, atol=1e-5, rtol=1e-5)


@given(st.integers(1, 6), st.integers(1, 4), st.sampled_from(["encoder-decoder", "decoder"]))
def test_future_tokens_do_not_change_past_logits(build, ids, n_past, n_future, family):
    model = build(family=family)
    source = {"source": ids(2, 5)} if family == "encoder-decoder" else {}
    target, other = ids(2, n_past + n_future), ids(2, n_past + n_future, seed=1)
    other[:, :n_past] = target[:, :n_past]
    same(model(**source, target=target)[:, :n_past], model(**source, target=other)[:, :n_past])


@norms
def test_past_tokens_do_change_future_logits(build, ids, norm):
    model, target = build(norm=norm), ids(1, 5)
    other = target.clone()
    other[0, 0] += 1
    changes = (model(ids(1, 4), target) - model(ids(1, 4), other)).abs().amax(dim=-1)
    assert (changes > 1e-3).all()


@given(lengths, st.integers(0, 99), st.sampled_from(["post", "pre"]))
def test_padding_and_neighbours_do_not_change_a_translation(build, ids, real, lengths, seed, norm):
    model, n_rows = build(norm=norm), len(lengths)
    source, target = ids(n_rows, max(lengths), seed=seed), ids(n_rows, 4, seed=seed + 1)
    together = model(source, target, real(*lengths))
    for row, length in enumerate(lengths):
        same(together[row], model(source[row : row + 1, :length], target[row : row + 1])[0])


@pytest.mark.parametrize("pooling", ["first", "mean"])
@given(lengths=lengths, seed=st.integers(0, 99))
def test_padding_and_neighbours_do_not_change_a_class(build, ids, real, pooling, lengths, seed):
    model = build(family="encoder", n_classes=3, pooling=pooling)
    source = ids(len(lengths), max(lengths), seed=seed)
    together = model(source, real=real(*lengths))
    for row, length in enumerate(lengths):
        same(together[row], model(source[row : row + 1, :length])[0])


def test_without_positions_the_encoder_is_permutation_equivariant_and_with_them_it_is_not(
    build, ids
):
    model, source, order = build(), ids(2, 6), torch.tensor([3, 0, 5, 1, 4, 2])

    def read(source, **edits):
        return model.encode(source, tap=Trace(edits))

    nowhere = {"encoder.positions": torch.zeros_like}
    same(read(source[:, order], **nowhere), read(source, **nowhere)[:, order])
    assert not torch.allclose(read(source[:, order]), read(source)[:, order], atol=1e-2)


def test_token_vectors_are_scaled_by_the_root_of_the_width(build, ids):
    for scaled, factor in ((True, 4), (False, 1)):
        model, trace = build(scale_embeddings=scaled), Trace()
        model.encode(ids(2, 3), tap=trace)
        same(trace["encoder.tokens"], model.tokens.weight[ids(2, 3)] * factor)
        same(trace["encoder.embedded"], trace["encoder.tokens"] + trace["encoder.positions"])
