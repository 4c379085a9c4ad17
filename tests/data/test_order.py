"""Orders are permutations, and depend on nothing but their arguments."""

from itertools import chain, pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data.order import N_BUCKETS, buckets, cuts, longest, mix, shuffled

laws = settings(max_examples=60, deadline=None)
lengths = st.lists(st.integers(1, 400), min_size=1, max_size=200)


@laws
@given(size=st.integers(1, 3_000), seed=st.integers(0, 2**31), epoch=st.integers(0, 1_000))
def test_a_shuffle_sends_every_place_to_another_place_of_its_own(size, seed, epoch):
    assert sorted(shuffled(np.arange(size), size, mix(seed, epoch))) == list(range(size))


@laws
@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=20), seed=st.integers(0, 2**31))
def test_many_shuffles_at_once_equal_each_alone(sizes, seed):
    whole = np.concatenate([np.arange(size) for size in sizes])
    keys = mix(seed, np.arange(len(sizes)))
    together = shuffled(whole, np.repeat(sizes, sizes), np.repeat(keys, sizes))
    alone = [shuffled(np.arange(size), size, keys[n : n + 1]) for n, size in enumerate(sizes)]
    assert together.tolist() == np.concatenate(alone).tolist()


@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_order_of_a_few_things_is_about_equally_likely(size):
    n_draws = 6_000
    keys = mix(7, np.repeat(np.arange(n_draws), size))
    drawn = shuffled(np.tile(np.arange(size), n_draws), size, keys).reshape(n_draws, size)
    found = {order: np.sum((drawn == order).all(axis=1)) for order in permutations(range(size))}
    expected = n_draws / len(found)
    assert all(abs(count - expected) < 5 * expected**0.5 for count in found.values())


def test_neighbours_are_torn_apart_and_no_place_is_preferred():
    size, n_draws = 1_000, 400
    keys = mix(3, np.repeat(np.arange(n_draws), size))
    drawn = shuffled(np.tile(np.arange(size), n_draws), size, keys).reshape(n_draws, size)
    distances = np.abs(np.diff(drawn, axis=1))
    assert abs(distances.mean() / (size / 3) - 1) < 0.02
    assert np.abs(drawn.mean(axis=0) - (size - 1) / 2).max() < 5 * size / (12 * n_draws) ** 0.5
    assert abs(np.corrcoef(drawn[0], drawn[1])[0, 1]) < 0.15


def test_a_shuffle_of_a_trillion_things_is_computed_where_it_is_asked_for():
    size = 10**12
    places = shuffled(np.arange(1_000), size, mix(1))
    assert len(set(places.tolist())) == 1_000
    assert places.min() >= 0
    assert size // 2 < places.max() < size


def test_keys_differ_in_every_part_and_in_their_order():
    keys = [mix(*parts)[0] for parts in [(1,), (2,), (1, 0), (0, 1), (1, 2), (2, 1), (1, 2, 0)]]
    assert len(set(keys)) == len(keys)


@laws
@given(
    pairs=st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), min_size=1, max_size=50)
)
def test_no_example_is_longer_than_its_bucket_says_and_none_much_shorter(pairs):
    first, second = np.array(pairs).T
    bucket = buckets(first, second)
    longer = np.maximum(first, second)
    assert ((bucket >= 0) & (bucket < N_BUCKETS)).all()
    assert (longer <= longest(bucket)).all()
    assert (longest(bucket) <= longer * (1 + 1 / 16)).all()


def test_buckets_rise_with_the_longer_side():
    sides = np.arange(2_000)
    assert (np.diff(buckets(sides, sides)) > 0).sum() > 100
    assert (np.diff(longest(np.sort(buckets(sides, sides[::-1])))) >= 0).all()


@laws
@given(lengths=lengths, budget=st.integers(1, 2_000))
def test_batches_keep_the_budget_and_are_as_full_as_they_can_be(lengths, budget):
    lengths = sorted(lengths)
    found = cuts(np.array(lengths), np.ones(len(lengths), np.int64), budget).tolist()
    batches = [lengths[start:end] for start, end in pairwise(found)]
    assert list(chain.from_iterable(batches)) == lengths
    for batch, following in zip(batches, [*batches[1:], [budget + 1]], strict=True):
        assert len(batch) == 1 or len(batch) * batch[-1] <= budget
        assert (len(batch) + 1) * following[0] > budget


@laws
@given(lengths=lengths, budget=st.integers(1, 2_000))
def test_cuts_do_not_depend_on_how_runs_are_written(lengths, budget):
    values, counts = np.unique(lengths, return_counts=True)
    one_by_one = cuts(np.repeat(values, counts), np.ones(len(lengths), np.int64), budget)
    assert cuts(values, counts, budget).tolist() == one_by_one.tolist()
