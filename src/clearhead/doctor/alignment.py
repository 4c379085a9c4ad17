"""Sentence alignment: do two parallel files belong together line by line, and if not, from where?

Translations resemble their sources in length, in how they close and in the numbers and names they
hold. How much these tell is learned from the files themselves: every trait is weighed by how much
more often it is seen in lines that stand side by side than in lines some way apart. A block has
slipped when its lines agree no better than by chance, while a shift by a few lines restores the
file's usual level. So neither free translation nor a text whose neighbouring lines resemble each
other raises an alarm.
"""

import math
import re
import zlib
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_SHIFT = 8
"""Lines by which a block may have slipped."""
APART = 32
"""Lines between those that are surely no pair, yet of one neighbourhood: files may be sorted."""
SHORTEST_BLOCK = 8
"""Lines; a few free translations in a row are not a slip."""
FEWEST_LINES = 100
"""Below this nothing can be learned about what is usual."""
LEAST_TOLD = 0.1
"""Nats per line that agreement must tell on average, or else nothing can be said on alignment."""
SURE = 18.0
"""Nats of evidence for a slip, beyond what the number of places to look in makes likely."""

NORMAL = 1.4826
"""What makes a median absolute deviation a standard deviation, where values are normal."""

ANCHOR = re.compile(r"\d+|\b[A-Z]\w+")
CLOSING_MARKS = (".。।", "?？", "!！", ":：", ",，、;；", "…", "\"”“»')）")
CLOSINGS = {mark: n for n, marks in enumerate(CLOSING_MARKS, 1) for mark in marks}

Floats = NDArray[np.float64]


class Traits:
    """What can be compared between languages, a few bytes for each line."""

    def __init__(self) -> None:
        self.lengths, self.closings, self.anchors = array("I"), array("B"), array("Q")

    def add(self, line: str) -> None:
        line = line.strip()
        self.lengths.append(len(line))
        self.closings.append(CLOSINGS.get(line[-1:], 0))
        # A bit for each number and name, of which there are 64.
        self.anchors.append(sum({1 << (zlib.crc32(w.encode()) & 63) for w in ANCHOR.findall(line)}))


def lines_off(source: Traits, target: Traits) -> NDArray[np.int8]:
    """For each line by how many its target stands too late; 0 where all is well."""
    result = np.zeros(len(source.lengths), dtype=np.int8)
    if len(source.lengths) < FEWEST_LINES:
        return result
    compare = PairComparison(source, target)
    usual, chance = compare.usual, compare.chance
    if usual - chance < LEAST_TOLD:
        return result
    unshifted = compare.evidence(0)
    found = []
    for offset in (k for k in range(-MAX_SHIFT, MAX_SHIFT + 1) if k):
        shifted = compare.evidence(offset)
        for start, stop, gain in excursions(shifted - unshifted, SURE + math.log(len(shifted))):
            lost = unshifted[start:stop].mean() < chance + 0.4 * (usual - chance)
            restored = shifted[start:stop].mean() > chance + 0.6 * (usual - chance)
            if stop - start >= SHORTEST_BLOCK and lost and restored:
                found.append((gain, start, stop, offset))
    for _, start, stop, offset in sorted(found, reverse=True):  # each place is explained once
        if not result[start:stop].any():
            result[start:stop] = offset
    return result


def excursions(gain: Floats, least: float) -> list[tuple[int, int, float]]:
    """Stretches over which the gain sums to more than `least`, from first rise to peak."""
    total = np.concatenate([[0.0], np.cumsum(gain)])
    risen = total - np.minimum.accumulate(total)
    stretch = np.cumsum(risen == 0)
    found = []
    for number in np.unique(stretch[risen > least]):
        first, end = np.searchsorted(stretch, [number, number + 1])
        peak = first + int(np.argmax(risen[first:end]))
        found.append((int(first), int(peak), float(risen[peak])))
    return found


class PairComparison:
    """How much the agreement of two lines tells (log likelihood ratio), learned from the files."""

    def __init__(self, source: Traits, target: Traits) -> None:
        self.source, self.target, self.n_lines = source, target, len(source.lengths)
        self.lengths = [
            np.log1p(np.asarray(each.lengths).astype(float)) for each in (source, target)
        ]
        usual = self.best_offset()
        ratios = self.ratios(usual)
        self.middle = float(np.median(ratios))
        self.spread = NORMAL * median_deviation(ratios) + 0.02
        aligned = self.categories(usual)
        apart = np.hstack([self.categories(usual + APART), self.categories(usual - APART)])
        self.weights = [weigh(a, b) for a, b in zip(aligned, apart, strict=True)]
        self.usual = float(np.mean(self.total(aligned)))
        self.chance = float(np.mean(self.total(apart)))

    def sides(self, offset: int) -> tuple[slice, slice]:
        """Which source and target lines meet when the target stands `offset` lines later."""
        first, last = max(0, -offset), self.n_lines - max(0, offset)
        return slice(first, last), slice(first + offset, last + offset)

    def ratios(self, offset: int) -> Floats:
        """How much longer each target is than its source, as logarithms."""
        here, there = self.sides(offset)
        return np.asarray(self.lengths[1][there] - self.lengths[0][here])

    def best_offset(self) -> int:
        """Usually 0; a file that is shifted as a whole is measured where it agrees."""
        shifts = range(-MAX_SHIFT, MAX_SHIFT + 1)
        spreads = {shift: median_deviation(self.ratios(shift)) for shift in shifts}
        best = min(shifts, key=lambda shift: spreads[shift])
        return best if spreads[best] < 0.8 * spreads[0] else 0

    def categories(self, offset: int) -> NDArray[np.intp]:
        """For each trait (a row), which of a few kinds of agreement every pair of lines shows."""
        here, there = self.sides(offset)
        lengths = np.clip(np.abs(self.ratios(offset) - self.middle) / self.spread * 2, 0, 11)
        closings = (
            np.asarray(self.source.closings)[here] * 8 + np.asarray(self.target.closings)[there]
        )
        a, b = np.asarray(self.source.anchors)[here], np.asarray(self.target.anchors)[there]
        n_shared, n_others = np.bitwise_count(a & b), np.bitwise_count(a ^ b) // 2
        shared = np.minimum(n_shared, 3) * 3 + np.minimum(n_others, 2)
        anchors = np.where((a == 0) | (b == 0), 12 + (a == b), shared)
        return np.stack([lengths, closings, anchors]).astype(np.intp)

    def total(self, kinds: NDArray[np.intp]) -> Floats:
        return np.asarray(
            sum(weights[kind] for weights, kind in zip(self.weights, kinds, strict=True))
        )

    def evidence(self, offset: int) -> Floats:
        """For every source line, how much likelier that target line is its own."""
        result = np.zeros(self.n_lines)
        here, _ = self.sides(offset)
        result[here] = self.total(self.categories(offset))
        return result


def median_deviation(values: Floats) -> float:
    """The median absolute deviation (MAD), which outliers do not move."""
    return float(np.median(np.abs(values - np.median(values))))


def weigh(aligned: NDArray[Any], apart: NDArray[Any]) -> Floats:
    """How much likelier each kind is side by side than apart, as a clipped logarithm."""
    a, b = np.bincount(aligned, minlength=64) + 1.0, np.bincount(apart, minlength=64) + 1.0
    return np.asarray(np.clip(np.log(a / a.sum()) - np.log(b / b.sum()), -3, 3))
