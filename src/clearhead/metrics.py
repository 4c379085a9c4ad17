"""How good an output is: scores that say how they were computed, so that they can be compared."""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import DataError


@dataclass(frozen=True)
class Score:
    """A figure with its name and the signature without which it means little."""

    name: str
    value: float
    signature: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.value:.1f}" + (f" ({self.signature})" if self.signature else "")


@dataclass(frozen=True, kw_only=True)
class ClassScore:
    """How one label fared: of those predicted, of those there, and both; each from 0 to 100."""

    precision: float
    recall: float
    f1: float
    count: int
    """How often the label is the right one."""


@dataclass(frozen=True, kw_only=True)
class PairedScore:
    """A score of two systems on the same test set."""

    name: str
    first: float
    second: float
    p_value: float | None = None
    """How likely such a difference is by chance; None where there is no test for it."""
    signature: str = ""


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus BLEU as sacreBLEU computes it by default."""
    return corpus_score("BLEU", hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus chrF2 as sacreBLEU computes it by default: kinder to languages with long words."""
    return corpus_score("CHRF", hypotheses, references)


def ter(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Translation edit rate (TER) as sacreBLEU computes it: edits per 100 words; lower is better."""
    return corpus_score("TER", hypotheses, references)


def sacrebleu_metric(name: str) -> Any:
    """A metric of sacreBLEU with its default settings; the import is late because it is slow."""
    from sacrebleu.metrics import METRICS

    return METRICS[name]()


def corpus_score(name: str, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    check_lengths(hypotheses, references)
    metric = sacrebleu_metric(name)
    found = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(found.name, found.score, str(metric.get_signature()))


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF2 of each output on its own, to find those that differ most; no corpus score."""
    metric = sacrebleu_metric("CHRF")
    pairs = zip(hypotheses, references, strict=True)
    return [metric.sentence_score(output, [right]).score for output, right in pairs]


def paired_bootstrap(
    first: Sequence[str], second: Sequence[str], references: Sequence[str]
) -> list[PairedScore]:
    """BLEU, chrF2 and TER of two systems, with the p-values of sacreBLEU's paired bootstrap test."""
    from sacrebleu.significance import PairedTest

    check_lengths(first, references)
    check_lengths(second, references)
    metrics = {"BLEU": "BLEU", "chrF2": "CHRF", "TER": "TER"}
    signatures, results = PairedTest(
        [("first", first), ("second", second)],
        {shown: sacrebleu_metric(name) for shown, name in metrics.items()},
        [list(references)],
        "bs",
    )()
    found: Mapping[str, Any] = results
    # of equal outputs sacreBLEU would say that their difference, 0, is never due to chance
    is_same = list(first) == list(second)
    return [
        PairedScore(
            name=name,
            first=float(found[name][0].score),
            second=float(found[name][1].score),
            p_value=1.0 if is_same else float(found[name][1].p_value),
            signature=str(signature),
        )
        for name, signature in signatures.items()
    ]


def mcnemar(
    first: Sequence[Hashable], second: Sequence[Hashable], right: Sequence[Hashable]
) -> PairedScore:
    """Accuracy of two classifiers, and the exact McNemar test: only texts count that one gets right."""
    scores = accuracy(first, right).value, accuracy(second, right).value
    hits = [(a == r, b == r) for a, b, r in zip(first, second, right, strict=True)]
    only_first, only_second = hits.count((True, False)), hits.count((False, True))
    n = only_first + only_second
    tail = sum(math.comb(n, k) for k in range(min(only_first, only_second) + 1))
    return PairedScore(
        name="accuracy",
        first=scores[0],
        second=scores[1],
        p_value=min(1.0, 2 * tail / 2**n),
        signature=f"exact McNemar; right alone: first {only_first:,}, second {only_second:,}",
    )


def accuracy(predicted: Sequence[Hashable], right: Sequence[Hashable]) -> Score:
    """The share of right labels, from 0 to 100."""
    check_lengths(predicted, right)
    hits = sum(p == r for p, r in zip(predicted, right, strict=True))
    return Score("accuracy", 100 * hits / len(right))


def mean_f1(scores: Mapping[Any, ClassScore]) -> Score:
    """Macro F1: the mean over the labels, rare ones counting as much as frequent ones."""
    return Score("macro F1", sum(score.f1 for score in scores.values()) / len(scores))


def micro_f1(
    predicted: Sequence[Collection[Hashable]], right: Sequence[Collection[Hashable]]
) -> Score:
    """Micro F1: over all labels of all texts together, frequent ones counting for more."""
    hits = sum(len(set(p) & set(r)) for p, r in zip(predicted, right, strict=True))
    return Score("micro F1", percent(2 * hits, sum(map(len, [*predicted, *right]))))


def per_label(
    predicted: Sequence[Collection[Hashable]], right: Sequence[Collection[Hashable]]
) -> dict[Hashable, ClassScore]:
    """The scores of each label that is predicted or right anywhere; a text may have several."""
    check_lengths(predicted, right)
    there, said = (Counter(label for each in side for label in each) for side in (right, predicted))
    hits = Counter(
        label for p, r in zip(predicted, right, strict=True) for label in set(p) & set(r)
    )
    return {
        label: ClassScore(
            precision=percent(hits[label], said[label]),
            recall=percent(hits[label], there[label]),
            f1=percent(2 * hits[label], said[label] + there[label]),
            count=there[label],
        )
        for label in sorted(there | said, key=str)
    }


def confusion(
    predicted: Sequence[Hashable], right: Sequence[Hashable]
) -> Counter[tuple[Hashable, Hashable]]:
    """How often each (right, predicted) pair of labels occurs."""
    check_lengths(predicted, right)
    return Counter(zip(right, predicted, strict=True))


def calibration_error(
    confidences: Sequence[float], hits: Sequence[bool], n_bins: int = 15
) -> Score:
    """Expected calibration error (ECE): how far confidence and accuracy lie apart."""
    check_lengths(confidences, hits)
    bins: dict[int, list[float]] = {}
    for confidence, hit in zip(confidences, hits, strict=True):
        bins.setdefault(min(int(confidence * n_bins), n_bins - 1), []).append(confidence - hit)
    error = 100 * sum(abs(sum(gaps)) for gaps in bins.values()) / len(hits)
    return Score("calibration error", error, f"bins:{n_bins}")


def spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Rank correlation, over what is a number in both; of fewer than three, none."""
    both = ~(np.isnan(a) | np.isnan(b))
    if both.sum() < 3:
        return float("nan")
    x, y = (ranks(values[both]) for values in (a, b))
    spread = x.std() * y.std()
    return float(((x - x.mean()) * (y - y.mean())).mean() / spread) if spread else float("nan")


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places in order, equal values sharing theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((counts.cumsum() - (counts + 1) / 2)[places])


def percent(part: int, total: int) -> float:
    """The share of a total; nothing of nothing counts as 0, as is the custom."""
    return 100 * part / total if total else 0.0


def check_lengths(outputs: Sequence[Any], references: Sequence[Any]) -> None:
    if len(outputs) != len(references) or not references:
        raise DataError(
            "Scoring needs one reference for each output, "
            f"found {len(references)} for {len(outputs)}.",
            "Give two sides of the same length, with at least one line.",
        )
