"""Order as a pure function of (seed, epoch, place): deterministic shuffles, and length buckets.

A permutation is computed where it is asked for and never stored, so any process can say which
example comes at any place of any epoch, and nothing is replayed to go on. It is a Feistel network,
made of integer arithmetic alone, because numpy does not promise that its generators give the same
stream in its next version: a run must go on with the same batches whatever numpy is installed.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]

ROUNDS = 4
"""Feistel rounds, each of which moves both coordinates; two already pass for random to the eye."""
FINE_BITS = 5
"""Leading bits of a length that its bucket keeps: exact while they suffice, then to a sixteenth."""
N_GAPS = 1 << FINE_BITS
"""Classes of the gap (difference) between the lengths of the two sides."""
N_BUCKETS = (65 - FINE_BITS << FINE_BITS - 1) * N_GAPS
"""Buckets there are for lengths of any size."""


def mix(*parts: int | Ints) -> Words:
    """A key that looks random and depends on every part; arrays give an array of keys."""
    key = np.zeros(1, np.uint64)
    for part in parts:
        key = scrambled(key ^ np.atleast_1d(np.asarray(part, np.int64)).view(np.uint64))
    return key


def scrambled(x: Words) -> Words:
    """SplitMix64's output function: one flipped bit of x flips about half of those that come out."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def shuffled(places: Ints, sizes: int | Ints, keys: Words) -> Ints:
    """Where a shuffle of `sizes` things sends each place; each may be in a shuffle of its own.

    The places form a rectangle of nearly the right size; those that leave the list are sent on
    until they are back (cycle walking).
    """
    x, n, keys = (
        a.copy()
        for a in np.broadcast_arrays(places.astype(np.uint64), np.asarray(sizes, np.uint64), keys)
    )
    height = np.ceil(np.sqrt(n)).astype(np.uint64)
    width = (n + height - np.uint64(1)) // height
    astray = np.arange(len(x))
    while len(astray):
        x[astray] = feistel(x[astray], height[astray], width[astray], keys[astray])
        astray = astray[x[astray] >= n[astray]]
    return x.astype(np.int64)


def feistel(x: Words, height: Words, width: Words, keys: Words) -> Words:
    """A permutation of a rectangle: row and column in turn move by a hash of the other."""
    row, column = x // width, x % width
    for turn in range(ROUNDS):
        row = (row + scrambled(keys ^ column ^ np.uint64(2 * turn << 56))) % height
        column = (column + scrambled(keys ^ row ^ np.uint64(2 * turn + 1 << 56))) % width
    return row * width + column


def buckets(first: Ints, second: Ints) -> Ints:
    """The length bucket of each example with sides of these lengths; sorted by it, like is by like.

    Examples of a bucket agree in the longer side, which decides how many fit a batch, and nearly in
    the difference of the two. Every other length runs backwards through the differences, so
    neighbouring buckets are always alike.
    """
    longer = np.maximum(first, second)
    coarse = np.maximum(np.frexp(longer)[1].astype(np.int64) - FINE_BITS, 0)
    length_class = (coarse << FINE_BITS - 1) + (longer >> coarse)
    gap = (first - second >> coarse + 1) + N_GAPS // 2
    return np.asarray(length_class * N_GAPS + np.where(length_class % 2, N_GAPS - 1 - gap, gap))


def longest(bucket: Ints) -> Ints:
    """The length of the longer side that no example of the bucket exceeds."""
    length_class = bucket // N_GAPS
    coarse = np.maximum((length_class >> FINE_BITS - 1) - 1, 0)
    return np.asarray((length_class - (coarse << FINE_BITS - 1) + 1 << coarse) - 1)


def cuts(lengths: Ints, counts: Ints, budget: int) -> Ints:
    """Where to cut a sorted list into batches of at most `budget` tokens, padding included.

    A batch has one example at least. The list is given as runs: so many examples, each at most so
    long, the lengths rising. Since only lengths matter, every epoch has the same cuts however the
    examples of a bucket are shuffled.
    """
    found, start, end = [0], 0, 0
    for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
        rows = max(1, budget // length)
        if end - start > rows:
            start = end
            found.append(start)
        end += count
        more = range(start + rows, end, rows)
        found += more
        start = more[-1] if more else start
    return np.array([*found, end], np.int64)
