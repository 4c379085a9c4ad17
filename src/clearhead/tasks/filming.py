"""The camera of a training run: a few of its examples, traced at every validation."""

from itertools import islice
from typing import Any

from torch import Tensor

from clearhead.data.batches import Batch, Batches
from clearhead.folder import RunFolder
from clearhead.look.film import LONGEST, Probe, frame
from clearhead.train import Job, Validation

N_PROBES = 3
MOST_HEADS = 512
"""Heads in all layers together; beyond, a film would take more than some megabytes."""


class Camera:
    """Writes a frame of every head at each validation; a run of several processes, or a huge model, has none."""

    def __init__(self, job: Job, folder: RunFolder, step: int) -> None:
        self.job, self.folder = job, folder
        config = job.model.config
        n_heads = config.n_heads * (config.n_encoder_layers + 2 * config.n_decoder_layers)
        is_on = job.config.film and job.ranks.world == 1 and n_heads <= MOST_HEADS
        self.probes = probes(job.batches) if is_on else []
        if self.probes:
            folder.film.cut(step)

    def shoot(self, report: Validation) -> None:
        if self.probes:
            self.folder.film.write(frame(self.job.model, self.probes, report.step, report.loss))


def probes(batches: Batches[Any]) -> list[Probe]:
    """Some examples of a good length, cut to what a frame holds."""
    chosen: Batch | None = None
    for batch in islice(batches.fixed(), 200):
        chosen = batch
        if max(len(side) for side in sides(batch, 0)) >= LONGEST - 3:
            break
    if chosen is None:
        return []
    n_rows = len(chosen.indices)
    rows = sorted({0, n_rows // 2, n_rows - 1})[:N_PROBES]
    return [Probe(*(tuple(side[:LONGEST]) for side in sides(chosen, row))) for row in rows]


def sides(batch: Any, row: int) -> tuple[list[int], list[int]]:
    """What the encoder and the decoder read in a row of a batch."""
    source, target = (
        real(getattr(batch, name)[row]) if name in vars(batch) else []
        for name in ("source", "target_in")
    )
    return source, target


def real(ids: Tensor) -> list[int]:
    """The ids without the padding behind them."""
    found: list[int] = ids.tolist()
    while found and found[-1] == 0:
        found.pop()
    return found
