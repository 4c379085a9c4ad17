"""Decoding step by step gives what decoding at once gives, whatever happens to the rows in between."""

import gc
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from clearhead.errors import ModelError
from clearhead.model import masks

SHAPES = [
    {},
    {"norm": "pre", "positions": "learned", "max_positions": 64},
    {"family": "decoder", "bias": False},
]
shapes = st.sampled_from(SHAPES)
steps = st.lists(st.integers(1, 4), min_size=1, max_size=6)


def same(found, expected):
    assert_close(found, expected, atol=1e-5, rtol=1e-5)


def read(model, source, real=None):
    """Memory and mask of a source; a model without an encoder has neither."""
    if model.config.family == "decoder":
        return None, None
    mask = None if real is None else masks.padding(real)
    return model.encode(source, mask), mask


def in_steps(model, target, lengths, memory, mask, cache):
    """The same target, a few tokens at a time."""
    return torch.cat(
        [model.decode(part, memory, mask, cache) for part in target.split(lengths, dim=1)], dim=1
    )


@given(shapes, steps, st.integers(1, 8))
def test_cached_decode_equals_full_decode_at_every_step(build, ids, real, shape, lengths, capacity):
    model, target = build(**shape), ids(2, sum(lengths))
    memory, mask = read(model, ids(2, 5), real(5, 3))
    found = in_steps(model, target, lengths, memory, mask, model.new_cache(capacity))
    same(found, model.decode(target, memory, mask))


@given(shapes, st.integers(1, 5), st.integers(1, 5), steps, st.booleans())
def test_rows_that_join_later_go_on_as_if_alone(
    build, ids, real, shape, n_first, n_second, lengths, thirds
):
    """Rows of different lengths, with sources of different lengths, are decoded together from some step on."""
    model, n_after = build(**shape), sum(lengths)
    parties = [(2, n_first, real(6, 4)), (1, n_second, real(3))] + [(1, 2, real(2))] * thirds
    caches, rows, alone = [], [], []
    for seed, (n_rows, n_before, tokens) in enumerate(parties):
        target, cache = ids(n_rows, n_before + n_after, seed=seed), model.new_cache(capacity=2)
        memory, mask = read(model, ids(*tokens.shape, seed=seed + 9), tokens)
        model.decode(target[:, :n_before], memory, mask, cache)
        caches.append(cache)
        rows.append(target[:, n_before:])
        alone.append(model.decode(target, memory, mask)[:, n_before:])
    together = caches[0]
    for cache in caches[1:]:
        together.join(cache)
    widest = max(tokens.size(1) for *_, tokens in parties)
    tokens = torch.cat(
        [torch.nn.functional.pad(tokens, (0, widest - tokens.size(1))) for *_, tokens in parties]
    )
    memory, mask = read(model, ids(*tokens.shape), tokens)
    same(in_steps(model, torch.cat(rows), lengths, memory, mask, together), torch.cat(alone))


@given(
    shapes, st.lists(st.lists(st.integers(0, 2), min_size=6, max_size=6), min_size=1, max_size=3)
)
def test_beams_that_change_parents_go_on_as_if_decoded_from_scratch(build, ids, shape, parents):
    """Two sentences with three hypotheses each; every few steps each hypothesis goes on from one of its sentence."""
    model, cache, beams = build(**shape), build(**shape).new_cache(2), 3
    memory, mask = read(model, ids(2, 5))
    written = ids(6, 2)
    model.decode(written, memory, mask, cache)
    for step, choice in enumerate(parents):
        rows = torch.tensor(choice) + torch.tensor([0, 0, 0, beams, beams, beams])
        cache.reorder(rows)
        written = torch.cat([written[rows], ids(6, 1, seed=step + 1)], dim=1)
        found = model.decode(written[:, -1:], memory, mask, cache)
        same(found, model.decode(written, memory, mask)[:, -1:])


def test_hypotheses_share_their_sentence_s_keys_and_do_not_copy_them(build, ids, real):
    model, cache = build(), build().new_cache()
    memory, mask = read(model, ids(2, 5), real(5, 3))
    target = ids(6, 4)
    copied = model.decode(target, memory.repeat_interleave(3, 0), mask.repeat_interleave(3, 0))
    same(model.decode(target, memory, mask), copied)
    same(in_steps(model, target, [1, 2, 1], memory, mask, cache), copied)
    assert [layer.source[0].shape[0] for layer in cache.layers] == [2, 2]


def test_a_source_is_projected_once(build, ids):
    model, cache, target = build(), build().new_cache(), ids(2, 4)
    memory, _ = read(model, ids(2, 5))
    model.decode(target[:, :2], memory, cache=cache)
    found = model.decode(target[:, 2:], torch.full_like(memory, torch.nan), cache=cache)
    same(found, model.decode(target, memory)[:, 2:])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_finished_sentence_leaves_and_the_others_go_on(build, ids, real, shape):
    model, target, tokens = build(**shape), ids(3, 7), real(6, 2, 4)
    memory, mask = read(model, ids(3, 6), tokens)
    whole, cache = model.decode(target, memory, mask), model.new_cache()
    model.decode(target[:, :3], memory, mask, cache)
    staying = torch.tensor([2, 0])
    cache.reorder(staying)
    cache.keep_sources(staying)
    memory, mask = (None, None) if memory is None else (memory[staying], mask[staying])
    same(in_steps(model, target[staying, 3:], [1, 3], memory, mask, cache), whole[staying, 3:])


def test_rows_of_different_starts_may_change_places(build, ids):
    model = build()
    memory, _ = read(model, ids(2, 5))
    targets = ids(2, 9)
    first, second = model.new_cache(), model.new_cache()
    model.decode(targets[:1, :5], memory[:1], cache=first)
    model.decode(targets[1:, :2], memory[1:], cache=second)
    first.join(second)
    swapped = torch.tensor([1, 0])
    first.reorder(swapped)
    first.keep_sources(swapped)
    found = model.decode(
        torch.stack([targets[1, 2:5], targets[0, 5:8]]), memory[swapped], cache=first
    )
    same(found[0], model.decode(targets[1:, :5], memory[1:])[0, 2:])
    same(found[1], model.decode(targets[:1, :8], memory[:1])[0, 5:])


def test_learned_positions_end_in_cached_decoding_too(build, ids):
    model = build(family="decoder", positions="learned", max_positions=4)
    cache = model.new_cache()
    model.decode(ids(1, 4), cache=cache)
    with pytest.raises(ModelError, match=r"5 tokens .* model\.max_positions = 4"):
        model.decode(ids(1, 1), cache=cache)


def test_a_cache_that_nobody_needs_is_gone_at_once(build):
    model, target = build(family="decoder"), torch.randint(8, (2, 3))
    cache = model.new_cache()
    model.decode(target, cache=cache)
    gone = weakref.ref(cache)
    gc.disable()
    try:
        del cache
        assert gone() is None
    finally:
        gc.enable()
