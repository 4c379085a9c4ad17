"""Small models on made-up text: what a minute of training tells about an architecture."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.config import TrainConfig
from clearhead.data.batches import Batch, Batches, PairBatch, TextBatch
from clearhead.data.lines import Progress
from clearhead.data.order import mix
from clearhead.model import Model
from clearhead.text import START
from clearhead.training import Job, Judge, Loss, StepReport, next_token_loss, train
from clearhead.training.state import Keeper

FIRST_WORD = 8
"""Ids below it are special tokens."""
N_WORDS = 24
VOCAB_SIZE = FIRST_WORD + N_WORDS
PASS = 100
"""Batches that count as one epoch, where there is no end of text."""
Make = Callable[[torch.Generator], Batch]


def toy_training(steps: int, rate: float, seed: int = 0) -> TrainConfig:
    """How a model learns from made-up text; `rate` is relative to the usual learning rates."""
    usual = TrainConfig()
    return usual.but(
        max_steps=steps,
        seed=seed,
        learning_rate=rate * usual.learning_rate,
        muon_learning_rate=rate * usual.muon_learning_rate,
        label_smoothing=0.0,
    )


class MadeUp(Batches[Any]):
    """An endless stream of made-up batches, each a pure function of the seed and its place."""

    def __init__(self, make: Make, seed: int = 0) -> None:
        self.make, self.seed = make, seed

    def __len__(self) -> int:
        return PASS

    def batch(self, place: int) -> Batch:
        return self.make(torch.Generator().manual_seed(int(mix(self.seed, place)[0] >> 1)))

    def fixed(self) -> Iterator[Batch]:
        """Batches that training never sees: those of places below zero."""
        return (self.batch(-1 - place) for place in range(4))


class NothingKept(Keeper):
    """A checkpoint store for trainings so short that they begin anew: it keeps nothing.

    What a keeper has to do besides is left as in the protocol, where it does nothing.
    """

    def steps(self) -> list[int]:
        return []


def random_words(shape: tuple[int, ...], random: torch.Generator) -> Int[Tensor, "..."]:
    return torch.randint(FIRST_WORD, VOCAB_SIZE, shape, generator=random)


def recall_batch(n_rows: int, length: int, back: int) -> Make:
    """Random words; at each position the answer is the word that stood `back` words before."""

    def make(random: torch.Generator) -> TextBatch:
        text = random_words((n_rows, back + length), random)
        return TextBatch(
            indices=torch.arange(n_rows),
            target_in=text,
            target_out=text.roll(back, dims=1),
            judged=(torch.arange(back + length) >= back).expand_as(text),
        )

    return make


def copy_batch(n_rows: int, shortest: int, longest: int, *, n_judged: int | None = None) -> Make:
    """Random words to be written again, the last `n_judged` being judged; a batch has one length."""

    def make(random: torch.Generator) -> PairBatch:
        length = int(torch.randint(shortest, longest + 1, (1,), generator=random))
        text = random_words((n_rows, length), random)
        start = torch.full((n_rows, 1), START)
        return PairBatch(
            indices=torch.arange(n_rows),
            source=text,
            source_mask=torch.ones_like(text, dtype=torch.bool),
            target_in=torch.cat([start, text[:, :-1]], dim=1),
            target_out=text,
            judged=(torch.arange(length) >= length - (n_judged or length)).expand_as(text),
        )

    return make


def learn(
    model: Model,
    batches: Batches[Any],
    config: TrainConfig,
    *,
    progress: Progress,
    what: str,
    loss: Loss | None = None,
) -> None:
    """Train a model in memory for `config.max_steps` updates; `progress` is told of each."""
    steps = config.max_steps or 1
    job = Job(
        model=model,
        batches=batches,
        loss=loss or next_token_loss(config.label_smoothing),
        config=config.but(validate_every=steps, film=False),
        steps=steps,
        judge=Judge(loss=lambda _: 0.0),
        keeper=NothingKept(),  # type: ignore[abstract]
    )
    for report in train(job):
        if isinstance(report, StepReport):
            progress(f"{what}: step", report.step, steps)
    model.eval()


@torch.inference_mode()
def share_right(model: Model, batches: Iterable[Any]) -> float:
    """Share of the judged words that the model finds most likely, the words before being given."""
    right = []
    for batch in batches:
        source = batch.source if isinstance(batch, PairBatch) else None
        likeliest = model(source, batch.target_in)[batch.judged].argmax(dim=-1)
        right.append(likeliest == batch.target_out[batch.judged])
    return float(torch.cat(right).float().mean())
