"""How good an output is: scores that say how they were computed, so that they can be compared."""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus BLEU as sacreBLEU computes it by default."""
    from sacrebleu.metrics.bleu import BLEU

    return corpus_score(BLEU(), hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus chrF2 as sacreBLEU computes it by default: kinder to languages with long words."""
    from sacrebleu.metrics.chrf import CHRF

    return corpus_score(CHRF(), hypotheses, references)


def corpus_score(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    check_lengths(hypotheses, references)
    found = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(found.name, found.score, str(metric.get_signature()))


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
