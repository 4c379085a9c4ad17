"""Classification: a text in, its label out, or several."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead import metrics
from clearhead.config import Config, TrainConfig
from clearhead.data.batches import Batches, ByLength, LabelBatch, label_batch
from clearhead.data.encoding import Encoding, label_encoding
from clearhead.data.examples import Labelled, labelled
from clearhead.data.store import Store
from clearhead.errors import DataError, shown
from clearhead.model import Transformer
from clearhead.tasks.classifier import fitted_temperature, said
from clearhead.tasks.fit import Tokenizers
from clearhead.train import Judge, Loss, label_loss

MOST_LABELS = 1_000
TEXTS, FEWEST, MOST = 60_000, 5, 20
"""Texts to be read in all, and the bounds of how often that may be each of them."""


class ClassificationTask:
    """What training has to know about classification."""

    name = "classification"

    def read(self, paths: Iterable[Path]) -> Iterable[Labelled]:
        return labelled(*paths)

    def texts(self, example: Labelled) -> tuple[str, ...]:
        return (example.text,)

    def settled(
        self, config: Config, tokenizers: Tokenizers, examples: Iterable[Labelled]
    ) -> Config:
        """The settings that follow from the labels."""
        counts, several, n_texts = Counter[str](), config.labels.several, 0
        for example in examples:
            counts.update(example.labels)
            several |= len(example.labels) > 1
            n_texts += 1
        names = tuple(sorted(counts))
        refuse_odd(names, counts.total())
        labels: dict[str, Any] = {"names": names, "several": several}
        if config.labels.balance and not config.labels.weights:
            labels["weights"] = tuple(counts.total() / len(names) / counts[name] for name in names)
        model = {
            "family": "encoder",
            "vocab_size": tokenizers[1].vocab_size,
            "n_classes": len(names),
        }
        return config.but(
            model=config.model.but(**model),
            labels=config.labels.but(**labels),
            train=with_passes(config.train, n_texts),
        )

    def encoding(self, tokenizers: Tokenizers, config: Config) -> Encoding:
        return label_encoding(tokenizers[0], config.labels.names, config.data.max_length)

    def predictions(self, store: Store, config: Config) -> int:  # noqa: ARG002
        """In a pass: one for each text."""
        return len(store)

    def batches(self, store: Store, tokenizers: Tokenizers, config: Config) -> Batches[LabelBatch]:  # noqa: ARG002
        return ByLength(store, label_batch, config.data.batch_tokens, config.train.seed)

    def loss(self, config: Config) -> Loss:
        train, labels = config.train, config.labels
        return label_loss(train.label_smoothing, labels.several, train.word_dropout, labels.weights)

    def judge(
        self, examples: list[Labelled], store: Store, tokenizers: Tokenizers, config: Config
    ) -> Judge:
        return ClassificationJudge(examples, self.batches(store, tokenizers, config), config)


def with_passes(train: TrainConfig, n_texts: int) -> TrainConfig:
    """As many passes as so many texts deserve, where nobody has said how long; what is begun with needs half."""
    if train.budget or train.max_steps:
        return train
    passes = min(max(TEXTS / n_texts, FEWEST), MOST) / (2 if train.start else 1)
    return train.but(budget=f"{passes:.1f} epochs")


def refuse_odd(names: tuple[str, ...], n_examples: int) -> None:
    """One label teaches nothing; very many are a sign that another column was taken for them."""
    if 1 < len(names) <= MOST_LABELS:
        return
    raise DataError(
        f"{len(names):,} different labels in {n_examples:,} examples, such as {shown(names[0], 40)}; "
        f"a classifier needs 2 to {MOST_LABELS:,}.",
        "In a table the label comes first and then the text; .csv and .jsonl may name the columns label and text.",
    )


class ClassificationJudge:
    """Loss and accuracy over all validation texts; macro F1 where texts have several labels."""

    effort = 1.0

    def __init__(
        self, examples: list[Labelled], batches: Batches[LabelBatch], config: Config
    ) -> None:
        self.examples, self.batches, self.labels = examples, batches, config.labels
        self.name = "macro F1" if config.labels.several else "accuracy"

    @torch.no_grad()
    def loss(self, model: Transformer) -> float:
        device = model.tokens.weight.device
        losses = [
            label_loss(several=self.labels.several)(model, batch.to(device))
            for batch in self.batches.fixed()
        ]
        return sum(float(loss) for loss, _ in losses) / sum(n for _, n in losses)

    def score(self, model: Transformer, whole: bool) -> float | None:  # noqa: ARG002
        scores, right = self.scored(model)
        answers, truth = (
            said(scores, self.labels.several),
            [tuple(row.nonzero()[:, 0].tolist()) for row in right],
        )
        if self.labels.several:
            return metrics.mean_f1(metrics.per_label(answers, truth)).value
        return metrics.accuracy(answers, truth).value

    def samples(self, model: Transformer) -> tuple[tuple[str, str], ...]:  # noqa: ARG002
        return ()

    def calibrated(self, model: Transformer, config: Config) -> Config:
        """The settings with the temperature that makes the model's probabilities honest on the validation texts."""
        temperature = fitted_temperature(*self.scored(model), self.labels.several)
        return config.but(labels=config.labels.but(temperature=temperature))

    @torch.no_grad()
    def scored(self, model: Transformer) -> tuple[Float[Tensor, "N C"], Bool[Tensor, "N C"]]:
        """The scores of all classes for all validation texts, and which of them are right."""
        device = model.tokens.weight.device
        found = [
            (model(batch.source.to(device), real=batch.source_mask.to(device)).cpu(), batch.labels)
            for batch in self.batches.fixed()
        ]
        scores, labels = zip(*found, strict=True)
        return torch.cat(scores), torch.cat(labels)
