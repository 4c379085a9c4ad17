"""What can be wrong with a corpus: how a fault is recognised, why it matters and what to do."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clearhead.data.examples import Row
from clearhead.doctor.alignment import NORMAL, median_deviation
from clearhead.doctor.survey import SCRIPTS, Kind, Survey, texts_of

Severity = Literal["error", "warning", "note"]
Mask = NDArray[np.bool_]

USUAL_SHARE = 0.8
"""Share of a side's lines that must be of one script before the others are called wrong."""
SHORT = 8
"""Characters; what is no longer may be a name."""
SIGMAS = 6.0
FACTOR = 3.0
"""A length outlier is so many times longer than usual, and so many deviations away."""
MANY_UNSEEN = 0.2
"""Share of unseen words above which a test text is of another kind than the training text."""
EXCERPT = 72
"""Characters of an example that are shown."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One kind of fault: how often, where first, how it looks and what to do."""

    name: str
    severity: Severity
    count: int
    path: str
    line: int
    example: str
    advice: str
    left_out: Mask = field(repr=False, compare=False)
    """The examples that `fix` leaves out because of it."""


class Check(NamedTuple):
    """How a fault is called, how grave it is, which examples have it, and what to do.

    `find` sees the corpus and the test examples, and marks examples: with True, with 1 + the side
    at fault (uint8), or with how far they slipped (int8).
    """

    name: str
    severity: Severity
    find: Callable[[Survey, Survey], NDArray[Any]]
    advice: str
    is_dropped: bool = True
    kind: Kind | None = None
    """The one kind of corpus that can have it, if not all can."""


def complete(corpus: Survey) -> Mask:
    """The examples that are there with all their sides, be they empty."""
    return np.asarray(~(np.asarray(corpus.broken, bool) | np.asarray(corpus.unpaired, bool)))


def n_empty_sides(corpus: Survey) -> NDArray[Any]:
    """How many sides of each complete example are empty."""
    n_empty = sum((np.asarray(side.traits.lengths) == 0).astype(np.uint8) for side in corpus.sides)
    return np.asarray(n_empty * complete(corpus))


def usable(corpus: Survey) -> Mask:
    """The examples that have something to say on both sides."""
    return np.asarray(complete(corpus) & (n_empty_sides(corpus) == 0))


def one_sided(corpus: Survey, _: Survey) -> Mask:
    found = n_empty_sides(corpus)
    return np.asarray((found > 0) & (found < len(corpus.sides)))


def repeated(corpus: Survey, _: Survey) -> Mask:
    """Examples that were there before, letter for letter; the first of each is not one of them."""
    again = np.ones(len(corpus), dtype=bool)
    again[np.unique(np.asarray(corpus.digests), return_index=True)[1]] = False
    return again & usable(corpus)


def copied(corpus: Survey, _: Survey) -> Mask:
    """Pairs of which nothing was translated; short ones may be names."""
    source, target = corpus.sides
    same = np.asarray(source.digests) == np.asarray(target.digests)
    is_text = np.asarray(source.scripts) > 0
    return np.asarray(
        same & is_text & (np.asarray(source.traits.lengths) > SHORT) & complete(corpus)
    )


def length_outliers(corpus: Survey, _: Survey) -> Mask:
    """Pairs whose lengths disagree far more than usual here, slipped ones apart."""
    found, kept = np.zeros(len(corpus), dtype=bool), usable(corpus)
    if not kept.any():
        return found
    a, b = (np.asarray(side.traits.lengths)[kept].astype(np.float64) for side in corpus.sides)
    ratio = np.log(b / a)
    middle = np.median(ratio)
    expected = a * np.exp(middle)
    surprise = np.abs(b - expected) / np.sqrt(b + expected)
    limit = max(np.log(FACTOR), 4 * NORMAL * median_deviation(ratio))
    least = max(3.0, SIGMAS * NORMAL * float(np.median(surprise)))
    found[kept] = (np.abs(ratio - middle) > limit) & (surprise > least)
    return np.asarray(found & (corpus.slipped == 0))


def wrong_script(corpus: Survey, _: Survey) -> NDArray[Any]:
    """1 + the side that is in another script than nearly all lines of that side; 0 for none."""
    found = np.zeros(len(corpus), dtype=np.uint8)
    for number, side in enumerate(corpus.sides, 1):
        scripts = np.asarray(side.scripts)
        counts = np.bincount(scripts, minlength=len(SCRIPTS))
        counts[0] = 0
        if counts.max() > USUAL_SHARE * counts.sum():
            found[(scripts != 0) & (scripts != counts.argmax())] = number
    return found


def contradicted(corpus: Survey, _: Survey) -> Mask:
    """Texts that stood there before with another label."""
    text, digests = np.asarray(corpus.sides[0].digests), np.asarray(corpus.label_digests)
    _values, first_ones, group = np.unique(text, return_index=True, return_inverse=True)
    return np.asarray(
        (digests != digests[first_ones[group]]) & ~repeated(corpus, corpus) & usable(corpus)
    )


def pair_digests(corpus: Survey) -> NDArray[Any]:
    """One number for all sides of an example, blind to case and spaces."""
    total = np.zeros(len(corpus), dtype=np.uint64)
    for side in corpus.sides:
        total = total * np.uint64(0x9E3779B97F4A7C15) + np.asarray(side.digests).view(np.uint64)
    return total


def leaked(corpus: Survey, test: Survey) -> Mask:
    """Training examples that are test examples, but for case and spaces."""
    return np.isin(pair_digests(corpus), pair_digests(test)[usable(test)]) & usable(corpus)


def half_leaked(corpus: Survey, test: Survey, side: int) -> Mask:
    """Training examples that share one side with a test example, but not both."""
    known = np.asarray(test.sides[side].digests)[usable(test)]
    same = np.isin(np.asarray(corpus.sides[side].digests), known)
    return same & ~leaked(corpus, test) & usable(corpus)


CHECKS = (
    Check(
        "not UTF-8",
        "error",
        lambda corpus, _: np.asarray(corpus.invalid),
        "Convert the file (iconv -f latin1 -t utf-8).",
    ),
    Check(
        "broken records",
        "error",
        lambda corpus, _: np.asarray(corpus.broken, bool),
        "Every record needs the same columns or fields; look for stray tabs, commas and quotes.",
    ),
    Check(
        "lines without a partner",
        "error",
        lambda corpus, _: np.asarray(corpus.unpaired, bool),
        "One file is longer: make both again from one table. Lines end at \\n only.",
    ),
    Check(
        "misaligned lines",
        "error",
        lambda corpus, _: corpus.slipped,
        "The right target is {value:+d} lines off: "
        "near here a file lacks a line, or has one too many.",
        kind="pairs",
    ),
    Check(
        "test examples in training",
        "error",
        leaked,
        "They make scores look better than they are: leave them out of training.",
    ),
    Check("one side empty", "warning", one_sided, "Nothing can be learned from half a pair."),
    Check(
        "empty lines",
        "warning",
        lambda corpus, _: n_empty_sides(corpus) == len(corpus.sides),
        "Nothing can be learned from them.",
    ),
    Check(
        "duplicates",
        "warning",
        repeated,
        "They count more than others in training; --fix keeps the first of each.",
    ),
    Check(
        "copies",
        "warning",
        copied,
        "The target repeats the source: a model learns to leave text as it is.",
        kind="pairs",
    ),
    Check(
        "length outliers",
        "warning",
        length_outliers,
        "One side is several times longer than usual: often half a translation, or a wrong one.",
        kind="pairs",
    ),
    Check(
        "wrong script",
        "warning",
        wrong_script,
        "Mainly letters of another script than this side's other lines.",
    ),
    Check(
        "contradicting labels",
        "warning",
        contradicted,
        "The same text stands earlier with another label: decide.",
        kind="labelled",
    ),
    Check(
        "line ends of other tools",
        "note",
        lambda corpus, _: np.asarray(corpus.line_ends),
        "Characters such as U+2028 or a lone CR are text here; --fix puts spaces for them.",
        is_dropped=False,
    ),
    Check(
        "test sources in training",
        "note",
        lambda corpus, test: half_leaked(corpus, test, 0),
        "With another target; natural for short and common sentences.",
        is_dropped=False,
        kind="pairs",
    ),
    Check(
        "test targets in training",
        "note",
        lambda corpus, test: half_leaked(corpus, test, 1),
        "With another source; natural for short and common sentences.",
        is_dropped=False,
        kind="pairs",
    ),
)
"""In the order of their gravity."""

NATURAL_IN_TEXT = {
    "empty lines": "They part paragraphs, and are learned as such.",
    "duplicates": "Short lines come back in running text; they are kept.",
    "wrong script": "Quotations, perhaps; they are kept.",
}
"""What is no fault in running text, and why."""


def findings(
    corpus: Survey, test: Survey, fetch: Callable[[set[int]], dict[int, Row[Any]]]
) -> list[Finding]:
    """All faults that a corpus has, given the test examples, of which there may be none.

    `fetch` finds the rows that serve as examples.
    """
    marked = [
        (check, marks)
        for check in CHECKS
        if check.kind in (None, corpus.kind) and (marks := check.find(corpus, test)).any()
    ]
    shown = fetch({first(marks) for _, marks in marked})
    return [finding(check, corpus, marks, shown.get(first(marks))) for check, marks in marked]


def first(marks: NDArray[Any]) -> int:
    return int(np.argmax(marks != 0))


def finding(check: Check, corpus: Survey, marks: NDArray[Any], row: Row[Any] | None) -> Finding:
    value = int(marks[first(marks)])
    side = value - 1 if marks.dtype == np.uint8 else None
    path, line = corpus.place(first(marks), side or 0)
    is_natural = corpus.kind == "text" and check.name in NATURAL_IN_TEXT
    return Finding(
        name=check.name,
        severity="note" if is_natural else check.severity,
        count=int(np.count_nonzero(marks)),
        path=path,
        line=line,
        example=excerpt(row, side) if row else "",
        advice=NATURAL_IN_TEXT[check.name] if is_natural else check.advice.format(value=value),
        left_out=(marks != 0) & (check.is_dropped and not is_natural),
    )


def excerpt(row: Row[Any], side: int | None) -> str:
    """The side at fault, or both, short enough to stand side by side."""
    texts = row.raws if row.example is None else texts_of(row.example)
    if side is not None and side < len(texts):
        return printable(texts[side], EXCERPT)
    return " ⇥ ".join(printable(text, EXCERPT // len(texts)) for text in texts)


def printable(text: str, width: int) -> str:
    """Text as a terminal may show it: shortened, and nothing in it that moves the cursor.

    A byte that is not UTF-8 is shown by its value, another character by its Unicode number.
    """
    cut = text if len(text) <= width else text[: width - 1] + "…"
    told = cut.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in told
    )
