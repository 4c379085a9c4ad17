"""Small puzzles whose answers are known, as an endless stream of examples and some that are held out of it."""

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from clearhead.config import DecodeConfig, ModelConfig, TrainConfig
from clearhead.data.batches import Batches, LabelBatch, PairBatch, padded_with_end, shifted
from clearhead.decode import decode
from clearhead.model import Model, build
from clearhead.text import END, SPECIALS
from clearhead.training import Job, Judge, Loss, label_loss, next_token_loss, train
from training.tiny import MemoryKeeper

FIRST, N_DIGITS = len(SPECIALS), 10
LONGEST = 10
N_HELD_OUT = 500

Row = tuple[int, ...]
ANSWERS: dict[str, Callable[[Row], Row]] = {
    "copy": lambda row: row,
    "reverse": lambda row: row[::-1],
    "sort": lambda row: tuple(sorted(row)),
}


def is_held_out(row: Row) -> bool:
    """One row in ten, by its content, is never trained on."""
    return hashlib.sha256(bytes(row)).digest()[0] < 26


def rows(seed: int, n: int, held_out: bool, shortest: int = 1) -> list[Row]:
    """Rows of digits of several lengths, a pure function of the seed."""
    choice = random.Random(seed)
    found: list[Row] = []
    while len(found) < n:
        row = tuple(
            FIRST + choice.randrange(N_DIGITS) for _ in range(choice.randint(shortest, LONGEST))
        )
        if is_held_out(row) == held_out:
            found.append(row)
    return found


def rectangle(found: list[Row]) -> tuple[torch.Tensor, torch.Tensor]:
    return padded_with_end(
        np.array([token for row in found for token in row]), np.array([len(row) for row in found])
    )


@dataclass
class Puzzles(Batches[PairBatch]):
    """Pairs of a row and its answer."""

    answer: Callable[[Row], Row]
    seed: int
    size: int = 32

    def __len__(self) -> int:
        return 1_000

    def batch(self, place: int) -> PairBatch:
        found = rows(self.seed * 1_000_003 + place, self.size, held_out=False)
        source, mask = rectangle(found)
        target, judged = rectangle([self.answer(row) for row in found])
        return PairBatch(
            indices=torch.arange(self.size),
            target_in=shifted(target, judged),
            target_out=target,
            judged=judged,
            source=source,
            source_mask=mask,
        )

    def fixed(self) -> Iterator[PairBatch]:
        return iter(())


@dataclass
class Comparisons(Batches[LabelBatch]):
    """Rows with their labels."""

    seed: int
    size: int = 32

    def __len__(self) -> int:
        return 1_000

    def batch(self, place: int) -> LabelBatch:
        found = rows(self.seed * 1_000_003 + place, self.size, held_out=False)
        source, mask = rectangle(found)
        return LabelBatch(
            indices=torch.arange(self.size),
            source=source,
            source_mask=mask,
            labels=torch.eye(N_CLASSES, dtype=torch.bool)[labels(found)],
        )

    def fixed(self) -> Iterator[LabelBatch]:
        return iter(())


N_CLASSES = 3


def labels(found: list[Row]) -> list[int]:
    """Whether a row begins with less than it ends with, the same, or more."""
    return [1 + (row[0] > row[-1]) - (row[0] < row[-1]) for row in found]


def learned(config: ModelConfig, batches: Batches, loss: Loss, steps: int, seed: int) -> Model:
    torch.manual_seed(seed)
    model = build(config)
    course = TrainConfig(seed=seed, validate_every=steps, label_smoothing=0.0)
    judge = Judge(loss=lambda _: 0.0)  # the test measures, at the end
    job = Job(
        model=model,
        batches=batches,
        loss=loss,
        config=course,
        steps=steps,
        judge=judge,
        keeper=MemoryKeeper(),
    )
    for _ in train(job):
        pass
    return model.eval()


def shape(**changes: object) -> ModelConfig:
    sizes = {
        "vocab_size": FIRST + N_DIGITS,
        "d_model": 64,
        "d_ff": 128,
        "n_heads": 4,
        "dropout": 0.0,
    }
    layers = {"n_encoder_layers": 1, "n_decoder_layers": 1, "norm": "pre", "init": "small"}
    return ModelConfig(**{**sizes, **layers, **changes})


def solved(puzzle: str, seed: int, steps: int, **changes: object) -> float:
    """The share of held-out rows that a model trained on the puzzle answers exactly."""
    answer = ANSWERS[puzzle]
    model = learned(shape(**changes), Puzzles(answer, seed), next_token_loss(), steps, seed)
    asked = rows(seed, N_HELD_OUT, held_out=True)
    found = decode([model], [[*row, END] for row in asked], DecodeConfig(beam=1, guard=False))
    return sum(
        tuple(best[0].ids) == answer(row) for best, row in zip(found, asked, strict=True)
    ) / len(asked)


def classified(seed: int, steps: int) -> float:
    """The share of held-out rows that get their label."""
    settings = shape(family="encoder", n_classes=N_CLASSES, n_encoder_layers=2)
    model = learned(settings, Comparisons(seed, size=64), label_loss(), steps, seed)
    asked = rows(seed, N_HELD_OUT, held_out=True)
    source, mask = rectangle(asked)
    with torch.no_grad():
        guessed = model(source, real=mask).argmax(dim=1)
    return float((guessed == torch.tensor(labels(asked))).float().mean())
