"""Several processes, one training run: who I am among them, and what we add up together."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous


@dataclass(frozen=True)
class Ranks:
    """My place among the processes that train together; alone, everything here does nothing."""

    rank: int = 0
    world: int = 1
    device: str = "cpu"

    @property
    def first(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def add_up(self, values: Tensor) -> Tensor:
        """The sum over all processes, the same for each."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def from_first(self, value: float) -> float:
        """What the first process holds, for all."""
        values = torch.tensor(value if self.first else 0.0, dtype=torch.float64, device=self.device)
        return float(self.add_up(values))

    def wait(self) -> None:
        """Until all have come this far."""
        if self.world > 1:
            dist.barrier()


@contextmanager
def joined_ranks(device: torch.device) -> Iterator[Ranks]:
    """The processes that torchrun started, while they work together, or this one alone."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Ranks()
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    store, rank, _ = next(rendezvous("env://"))
    # After a restart, the store that torchrun shares still holds the addresses of the processes that died.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = dist.PrefixStore(attempt, store)  # type: ignore[attr-defined]
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo", store=store, rank=rank, world_size=world
    )
    yield Ranks(rank, world, device.type)
    dist.barrier()  # not after an error: the others would never come
    dist.destroy_process_group()
