"""The smallest things that can be trained, in memory."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from clearhead.config import ModelConfig, TrainConfig
from clearhead.data.batches import Batch, Batches, LabelBatch, PairBatch, TextBatch
from clearhead.model import Model, build
from clearhead.training import Judge, next_token_loss, total_loss
from clearhead.training.loop import Job

VOCAB = 12


def tiny_model(seed: int = 0, **settings: Any) -> Model:
    shape = {
        "vocab_size": VOCAB,
        "d_model": 16,
        "d_ff": 32,
        "n_heads": 2,
        "n_encoder_layers": 1,
        "n_decoder_layers": 1,
    }
    torch.manual_seed(seed)
    return build(
        ModelConfig(**{**shape, "dropout": 0.0, "norm": "pre", "init": "small", **settings})
    )


def pair_batch(seed: int = 0, rows: int = 4) -> PairBatch:
    """Made-up pairs of several lengths; the examples are numbered by the seed."""
    random = torch.Generator().manual_seed(seed)
    source = torch.randint(4, VOCAB, (rows, 5), generator=random)
    target = torch.randint(4, VOCAB, (rows, 6), generator=random)
    lengths = torch.randint(2, 6, (rows, 1), generator=random)
    return PairBatch(
        indices=seed * rows + torch.arange(rows),
        target_in=target.roll(1, dims=1),
        target_out=target,
        judged=torch.arange(6) < lengths + 1,
        source=source,
        source_mask=torch.arange(5) < lengths,
    )


def text_batch(seed: int = 0) -> TextBatch:
    pairs = pair_batch(seed)
    return TextBatch(
        indices=pairs.indices,
        target_in=pairs.target_in,
        target_out=pairs.target_out,
        judged=pairs.judged,
    )


def label_batch(seed: int = 0) -> LabelBatch:
    pairs = pair_batch(seed)
    return LabelBatch(
        indices=pairs.indices,
        source=pairs.source,
        source_mask=pairs.source_mask,
        labels=torch.eye(3, dtype=torch.bool)[[0, 1, 2, 1]],
    )


class SomePairs(Batches[PairBatch]):
    """An endless stream over a few made-up batches, in the same order in each epoch."""

    def __init__(self, n_batches: int = 5) -> None:
        self.n_batches = n_batches

    def __len__(self) -> int:
        return self.n_batches

    def batch(self, place: int) -> PairBatch:
        return pair_batch(place % self.n_batches)

    def fixed(self) -> Iterator[PairBatch]:
        return (pair_batch(n) for n in range(self.n_batches))


def loss_of(model: Model) -> float:
    """The loss on pairs of its own."""
    loss, n = total_loss(model, next_token_loss(), [pair_batch(99)])
    return loss / n


def judge(scores: list[float] | None = None) -> Judge:
    """Measures the loss; on the way it says what it is told to say."""
    score = None if scores is None else lambda _: scores.pop(0) if scores else math.nan
    return Judge(loss=loss_of, score=score)


@dataclass
class Kept:
    """A checkpoint in memory."""

    step: int
    files: dict[str, dict[str, torch.Tensor]]
    state: dict[str, Any]
    warnings: tuple[str, ...] = ()

    def tensors(self, name: str) -> dict[str, torch.Tensor]:
        return self.files[name]


@dataclass
class MemoryKeeper:
    """Checkpoints that never see a disk."""

    kept: dict[int, Kept] = field(default_factory=dict)

    def save(
        self, step: int, tensors: dict[str, dict[str, torch.Tensor]], state: dict[str, Any]
    ) -> None:
        copies = {
            name: {key: value.clone() for key, value in file.items()}
            for name, file in tensors.items()
        }
        self.kept[step] = Kept(step, copies, state)

    def newest(self) -> Kept | None:
        return self.kept[max(self.kept)] if self.kept else None

    def at(self, step: int) -> Kept | None:
        return self.kept.get(step)

    def steps(self) -> list[int]:
        return sorted(self.kept)

    def prune(self, keep_last: int, best: int | None) -> None:
        for step in self.steps()[:-keep_last]:
            if step != best:
                del self.kept[step]


def weights_of(job: Job) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in job.model.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Whether two sets of weights agree in every bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def gradients(model: Model) -> dict[str, torch.Tensor]:
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def rows_of(batches: list[Batch]) -> list[int]:
    return [int(index) for batch in batches for index in batch.indices]


def tiny_job(
    keeper: MemoryKeeper | None = None,
    steps: int = 10,
    model: dict[str, Any] | None = None,
    **job: Any,
) -> Job:
    """A job that trains in milliseconds; settings of TrainConfig and fields of Job may be given."""
    fields = {
        name: job.pop(name)
        for name in ("batches", "loss", "judge", "seconds", "corrections", "thread_changes", "stop")
        if name in job
    }
    return Job(
        **{
            "model": tiny_model(**(model or {})),
            "batches": SomePairs(),
            "loss": next_token_loss(0.1),
            "config": TrainConfig(**{"validate_every": 2, "threads": 1, **job}),
            "steps": steps,
            "judge": judge(),
            "keeper": keeper if keeper is not None else MemoryKeeper(),
            **fields,
        }
    )
