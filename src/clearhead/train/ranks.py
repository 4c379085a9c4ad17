"""Several processes, one training run: who I am among them, and what we add up together."""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


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

    def from_first(self, value: int | None) -> int | None:
        """What the first process holds, for all."""
        values = torch.tensor([-1 if value is None or not self.first else value], device=self.device)
        return None if (agreed := int(self.add_up(values)) + self.world - 1) < 0 else agreed

    def wait(self) -> None:
        """Until all have come this far."""
        if self.world > 1:
            dist.barrier()


def join_ranks(device: torch.device) -> Ranks:
    """The processes that torchrun started, or this one alone."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        return Ranks()
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return Ranks(dist.get_rank(), world, device.type)
