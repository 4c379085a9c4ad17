"""Classification: a text in, its label out, or several, with their probabilities."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead import metrics
from clearhead.config import Config, Given
from clearhead.data.batches import Batches, ByLength, LabelBatch, label_batch
from clearhead.data.examples import LabelledText, labelled
from clearhead.data.store import Encoding, Store, chunks, label_encoding
from clearhead.errors import DataError, shown
from clearhead.look import Look
from clearhead.model import Model
from clearhead.tasks.looking import Asked, look_at_reading
from clearhead.tasks.ngrams import MOST_WEIGHTS, fit_ngrams, known_ngrams, linear_scores
from clearhead.tasks.task import N_SAMPLES, Task, User, by_length
from clearhead.training import Judge, Loss, Samples, label_loss, mean_loss, worded

TEMPERATURES = (0.05, 20.0)
"""The least and the most that scores are divided by."""


@dataclass(frozen=True, kw_only=True)
class Classification:
    """The labels of a text; `str()` is the label, or several joined by commas."""

    text: str
    labels: tuple[str, ...]
    """The likeliest; where texts may have several, all above 50 %, or else the likeliest."""
    probabilities: dict[str, float]
    """Of every label, the likeliest first; where texts may have several, each on its own."""
    notes: tuple[str, ...] = ()
    """What a person should know: that the text was cut off, or is empty."""

    @property
    def label(self) -> str:
        """The likeliest label."""
        return self.labels[0]

    @property
    def probability(self) -> float:
        """Of the likeliest label."""
        return self.probabilities[self.label]

    def __str__(self) -> str:
        return ",".join(self.labels)


class Classifier(User):
    """A model with the names of its labels."""

    ability = "classify"
    remedy = "clearhead train TABLE --task classification --into RUN"

    def _prepare(self) -> None:
        self.labels = self.config.labels.names
        self.limit = self.limit_of(self.config.data.max_length, len(self.tokenizer.reading(())))

    @staticmethod
    def suits(config: Config) -> bool:
        return bool(config.labels.names) and len(config.labels.names) == config.model.n_classes

    @overload
    def classify(self, text: str) -> Classification: ...
    @overload
    def classify(self, text: list[str]) -> list[Classification]: ...
    def classify(self, text: str | list[str]) -> Classification | list[Classification]:
        """The labels of a text, or of each of a list."""
        results = list(self.stream([text] if isinstance(text, str) else text))
        return results[0] if isinstance(text, str) else results

    def stream(self, texts: Iterable[str]) -> Iterator[Classification]:
        """Classifications in the order of the texts, while later texts are still being read."""
        return self.in_chunks(chunks(texts))

    def in_chunks(self, chunks: Iterable[Sequence[str]]) -> Iterator[Classification]:
        """The same for texts that come some at a time: no answer waits for the next chunk."""
        for chunk in chunks:
            rows = self.tokenizer.encode_batch(list(chunk))
            scores = self.scores([row[: self.limit] for row in rows])
            scores /= self.config.labels.temperature
            labels = chosen_labels(scores, self.config.labels.several)
            found = probabilities(scores, self.config.labels.several)
            for text, row, label, each in zip(chunk, rows, labels, found, strict=True):
                order = each.argsort(descending=True, stable=True).tolist()
                yield Classification(
                    text=text,
                    labels=tuple(self.labels[number] for number in label),
                    probabilities={self.labels[number]: float(each[number]) for number in order},
                    notes=self.notes(text, len(row)),
                )

    def look(self, text: str, edit: Asked = None) -> Look:
        return look_at_reading(
            self.model,
            self.tokenizer,
            text,
            encode=lambda text: self.tokenizer.reading(self.tokenizer.encode(text)[: self.limit]),
            task="classification",
            edit=edit,
            classes=self.labels,
            several=self.config.labels.several,
            temperature=self.config.labels.temperature,
        )

    def notes(self, text: str, n_tokens: int) -> tuple[str, ...]:
        if not text.strip():
            return ("the text is empty",)
        cut = f"only the first {self.limit} of {n_tokens:,} tokens were read"
        return (cut,) if n_tokens > self.limit else ()

    @torch.no_grad()
    def scores(self, rows: Sequence[Sequence[int]]) -> Float[Tensor, "N C"]:
        """The score of each label for each row of ids; rows of like length are read together."""
        device = self.model.device
        scores = torch.empty(len(rows), len(self.labels))
        for numbers, source, real in by_length([self.tokenizer.reading(row) for row in rows]):
            scores[numbers] = self.model(source.to(device), real=real.to(device)).float().cpu()
        return scores


def probabilities(scores: Float[Tensor, "N C"], several: bool) -> Float[Tensor, "N C"]:
    """What scores mean: one label of all, or each its own yes or no."""
    return scores.sigmoid() if several else scores.softmax(dim=-1)


def chosen_labels(scores: Float[Tensor, "N C"], several: bool) -> list[tuple[int, ...]]:
    """The labels that scores speak for, the likeliest first; whatever the temperature."""
    order = scores.argsort(dim=-1, descending=True, stable=True).tolist()
    if not several:
        return [(row[0],) for row in order]
    chosen = (scores > 0) | (scores == scores.max(dim=-1, keepdim=True).values)
    return [
        tuple(number for number in row if marks[number])
        for row, marks in zip(order, chosen.tolist(), strict=True)
    ]


def fitted_temperature(
    scores: Float[Tensor, "N C"], right: Bool[Tensor, "N C"], several: bool
) -> float:
    """Temperature scaling: what to divide scores by for the lowest loss, found by bisection.

    Few texts prove little, so no answer is taken as certain: of n texts, each counts as right n + 1
    times out of n + 2.
    """
    doubt = 1 / (len(scores) + 2)
    labels = right.double() * (1 - doubt) + doubt / (2 if several else scores.size(1))

    def slope(log_temperature: float) -> float:
        at = torch.tensor(log_temperature, dtype=torch.float64, requires_grad=True)
        loss = F.binary_cross_entropy_with_logits if several else F.cross_entropy
        return float(torch.autograd.grad(loss(scores.double() / at.exp(), labels), at)[0])

    low, high = torch.tensor(TEMPERATURES).log().tolist()
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return round(float(torch.tensor(low).exp()), 6)


MOST_LABELS = 1_000
TEXTS, FEWEST, MOST = 60_000, 5, 20
"""Texts to be read in all, and the bounds of how often that may be each of them (epochs).

Fine-tuning needs half."""


class ClassificationTask(Task):
    name = "classification"
    families = ("encoder",)
    unit = predicted = "texts"
    enough = 1_000

    read = staticmethod(labelled)

    @staticmethod
    def texts(example: LabelledText) -> tuple[str, ...]:
        return (example.text,)

    @classmethod
    def resolve(cls, decided: Given, examples: Iterator[LabelledText], /) -> Config:
        """The labels, their weights, and where there is no budget, as many passes as texts need."""
        config = Config(**decided)
        counts, several, n_texts = Counter[str](), config.labels.several, 0
        for example in examples:
            counts.update(example.labels)
            several |= len(example.labels) > 1
            n_texts += 1
        names = tuple(sorted(counts))
        # one label teaches nothing; of very many, most come from another column
        if not 1 < len(names) <= MOST_LABELS:
            raise DataError(
                f"{len(names):,} different labels in {counts.total():,} examples, such as "
                f"{shown(names[0], 40)}; a classifier needs 2 to {MOST_LABELS:,}.",
                "In a table the label comes first and then the text; .csv and .jsonl may name the "
                "columns label and text.",
            )
        balanced = tuple(counts.total() / len(names) / counts[name] for name in names)
        weights = config.labels.weights or (balanced if config.labels.balance else ())
        train = config.train
        if not (train.budget or train.max_steps):
            n_passes = min(max(TEXTS / n_texts, FEWEST), MOST) / (2 if train.start else 1)
            train = train.but(budget=f"{n_passes:.1f} epochs")
        return config.but(
            model=config.model.but(family="encoder", n_classes=len(names)),
            labels=config.labels.but(names=names, several=several, weights=weights),
            train=train,
        )

    @property
    def encoding(self) -> Encoding:
        return label_encoding(
            self.tokenizers[0], self.config.labels.names, self.config.data.max_length
        )

    def n_predictions(self, store: Store) -> int:
        return len(store)

    def batches(self, store: Store) -> Batches[LabelBatch]:
        return ByLength(
            store, label_batch, self.config.data.batch_tokens, seed=self.config.train.seed
        )

    def sized(self, store: Store) -> Config:
        model, tokenizer = self.config.model, self.tokenizers[0]
        most = min(self.config.data.max_n_grams, MOST_WEIGHTS // model.n_classes)
        found = most and len(known_ngrams(tokenizer, self.batches(store), most)[0])
        return self.config.but(model=model.but(n_grams=found))

    def begin(self, model: Model, store: Store) -> str:
        if not self.config.model.n_grams:
            return ""
        fit_ngrams(model.ngrams, self.tokenizers[0], self.batches(store))
        return f"A linear model of {self.config.model.n_grams:,} n-grams stands beside the encoder."

    @property
    def loss(self) -> Loss:
        train, labels = self.config.train, self.config.labels
        return label_loss(train.label_smoothing, labels.several, train.word_dropout, labels.weights)

    def baseline(self, training: list[LabelledText], validation: list[LabelledText]) -> str:
        names = self.config.labels.names
        right = torch.tensor([[name in each.labels for name in names] for each in validation])
        scores = linear_scores(training, [each.text for each in validation], names)
        found = self.measured(scores, right)
        return f"{worded(found.name, found.value)} by a linear model on words and n-grams"

    def measured(self, scores: Float[Tensor, "N C"], right: Bool[Tensor, "N C"]) -> metrics.Score:
        """Accuracy, or macro F1 where texts have several labels."""
        found = chosen_labels(scores, self.config.labels.several)
        truth = [tuple(row.nonzero()[:, 0].tolist()) for row in right]
        if self.config.labels.several:
            return metrics.mean_f1(metrics.per_label(found, truth))
        return metrics.accuracy(found, truth)

    def judge(self, examples: list[LabelledText], store: Store) -> Judge:
        """Loss and score over all validation texts."""
        several = self.config.labels.several
        batches = self.batches(store)

        def score(model: Model) -> float:
            return self.measured(*scored(model, batches)).value

        def calibrated(model: Model, config: Config) -> Config:
            temperature = fitted_temperature(*scored(model, batches), several)
            return config.but(labels=config.labels.but(temperature=temperature))

        def samples(model: Model) -> Samples:
            found = Classifier(model, self.tokenizers, self.config).classify(
                [example.text for example in examples[:N_SAMPLES]]
            )
            return tuple((each.text, f"{each} ({each.probability:.0%})") for each in found)

        return Judge(
            loss=mean_loss(label_loss(several=several), batches),
            name="macro F1" if several else "accuracy",
            score=score,
            full_score=score,
            samples=samples,
            calibrated=calibrated,
        )


@torch.no_grad()
def scored(
    model: Model, batches: Batches[LabelBatch]
) -> tuple[Float[Tensor, "N C"], Bool[Tensor, "N C"]]:
    """The scores of all classes for all texts, and which of them are right."""
    device = model.device
    found = [
        (model(batch.source.to(device), real=batch.source_mask.to(device)).cpu(), batch.labels)
        for batch in batches.fixed()
    ]
    scores, labels = zip(*found, strict=True)
    return torch.cat(scores), torch.cat(labels)
