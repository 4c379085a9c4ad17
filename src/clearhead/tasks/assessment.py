"""How good a classifier is on texts whose labels are known, for programs and as tables to read."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

import torch

from clearhead import metrics
from clearhead.data.examples import Labelled
from clearhead.errors import DataError, shown
from clearhead.metrics import ClassScore, Score
from clearhead.tasks.classification import Classifier, probabilities, said

MOST_COLUMNS = 12
"""Labels up to which all confusions are drawn; beyond, only the most frequent ones are told."""
N_CONFUSED = 12
WIDEST = 32


@dataclass(frozen=True)
class Assessment:
    """What a classifier reaches; `str()` is a page of tables."""

    scores: tuple[Score, ...]
    """Accuracy, macro F1, and the calibration error before and after the temperature."""
    labels: Mapping[str, ClassScore]
    """How each label fared."""
    confused: Mapping[tuple[Hashable, Hashable], int]
    """How often each (right, said) pair occurs; empty where texts have several labels."""
    n_texts: int

    def __str__(self) -> str:
        heads = [
            " · ".join(f"{score.name} {score.value:.1f}" for score in self.scores)
            + f" · {self.n_texts:,} texts"
        ]
        parts = ["\n".join([*heads, "", *self.table()])]
        if self.confused:
            parts.append(
                "\n".join(self.matrix() if len(self.labels) <= MOST_COLUMNS else self.pairs())
            )
        return "\n\n".join(parts)

    def table(self) -> Iterator[str]:
        """A line for each label."""
        width = max(map(len, map(short, ["label", *self.labels])))
        yield f"{'label':<{width}}  precision  recall     F1   texts"
        for label, score in self.labels.items():
            yield (
                f"{short(label):<{width}}  {score.precision:9.1f}  {score.recall:6.1f}  {score.f1:5.1f}  "
                f"{score.count:6,}"
            )

    def matrix(self) -> Iterator[str]:
        """All confusions: a row for each right label, a column for each that was said."""
        names = dict(zip(self.labels, ascii_lowercase, strict=False))
        width = max(map(len, map(short, names)))
        cell = max(4, *(len(f"{count:,}") + 1 for count in self.confused.values()))
        yield "right ↓  said →".ljust(width + 3) + "".join(
            f"{letter:>{cell}}" for letter in names.values()
        )
        for right, letter in names.items():
            counts = (self.confused.get((right, other), 0) for other in names)
            row = "".join(f"{f'{count:,}' if count else '·':>{cell}}" for count in counts)
            yield f"{letter}  {short(right):<{width}}".ljust(15) + row

    def pairs(self) -> Iterator[str]:
        """The most frequent confusions."""
        wrong = {pair: count for pair, count in self.confused.items() if pair[0] != pair[1]}
        yield "most often confused:" if wrong else "nothing was confused"
        for pair in sorted(wrong, key=lambda pair: (-wrong[pair], str(pair)))[:N_CONFUSED]:
            yield f"{wrong[pair]:4,} × {short(str(pair[0]))} taken for {short(str(pair[1]))}"


def short(label: str) -> str:
    return label if len(label) <= WIDEST else label[: WIDEST - 1] + "…"


def assess(classifier: Classifier, examples: Sequence[Labelled]) -> Assessment:
    """Compare what a classifier says with what is right."""
    refuse_unknown(classifier.labels, examples)
    several, temperature = classifier.config.labels.several, classifier.config.labels.temperature
    rows = classifier.tokenizer.encode_batch([example.text for example in examples])
    scores = classifier.scores([row[: classifier.limit] for row in rows])
    found = [tuple(classifier.labels[number] for number in each) for each in said(scores, several)]
    right = [example.labels for example in examples]
    labels = {str(label): score for label, score in metrics.per_label(found, right).items()}
    errors = []
    for name, factor in (("calibration error before", 1.0), ("after", temperature)):
        error = metrics.calibration_error(*confidences(classifier, scores / factor, right))
        errors.append(Score(name, error.value, error.signature))
    exact = metrics.accuracy(
        [frozenset(each) for each in found], [frozenset(each) for each in right]
    )
    main = (
        (Score("all labels right", exact.value), *micro_f1(found, right)) if several else (exact,)
    )
    confused = (
        {}
        if several
        else metrics.confusion([each[0] for each in found], [each[0] for each in right])
    )
    return Assessment((*main, metrics.mean_f1(labels), *errors), labels, confused, len(examples))


def micro_f1(found: Sequence[tuple[str, ...]], right: Sequence[tuple[str, ...]]) -> tuple[Score]:
    """F1 over all labels of all texts together."""
    hits = sum(len(set(said) & set(true)) for said, true in zip(found, right, strict=True))
    return (
        Score("micro F1", metrics.share(2 * hits, sum(map(len, found)) + sum(map(len, right)))),
    )


def confidences(
    classifier: Classifier, scores: torch.Tensor, right: Sequence[tuple[str, ...]]
) -> tuple[list[float], list[bool]]:
    """How sure the classifier is and whether it is right: of the label it says, or of every yes or no."""
    several = classifier.config.labels.several
    truth = torch.tensor([[name in labels for name in classifier.labels] for labels in right])
    found = probabilities(scores, several)
    if several:
        return found.flatten().tolist(), truth.flatten().tolist()
    best = found.max(dim=1)
    return best.values.tolist(), truth.gather(1, best.indices[:, None])[:, 0].tolist()


def refuse_unknown(names: Sequence[str], examples: Sequence[Labelled]) -> None:
    """A label that the classifier has never seen cannot be right, so no score would mean anything."""
    for number, example in enumerate(examples, 1):
        for label in example.labels:
            if label not in names:
                raise DataError(
                    f"Example {number:,} has the label {shown(label)}, which the classifier has not learned.",
                    f"It knows: {shown(', '.join(names))}.",
                )
