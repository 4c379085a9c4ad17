"""Several processes, one training run: who I am, what we add up, and tensors sharded over us.

What torch has for sharded tensors takes most of a second to import, so it is imported late.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

TIMEOUT = timedelta(hours=24)
"""How long a process waits for the others: the first may have a large corpus to prepare. It need
not be short, for torchrun ends the others when one dies."""


@dataclass(frozen=True)
class Ranks:
    """My place in the process group that trains together; alone, everything here does nothing."""

    rank: int = 0
    world: int = 1
    device: str = "cpu"

    @property
    def first(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def add_up(self, values: Tensor) -> Tensor:
        """The sum over all processes (all-reduce), the same for each."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def from_first(self, value: float) -> float:
        """What the first process holds, for all."""
        values = torch.tensor(value if self.first else 0.0, dtype=torch.float64, device=self.device)
        return float(self.add_up(values))

    def wait(self) -> None:
        """Until all have come this far (barrier)."""
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
    # After a restart, torchrun's shared store still holds the addresses of the processes that died.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = dist.PrefixStore(attempt, store)  # type: ignore[attr-defined]
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=TIMEOUT, store=store, rank=rank, world_size=world)
    yield Ranks(rank, world, device.type)
    dist.barrier()  # not after an error: the others would never come
    dist.destroy_process_group()


def full(tensor: Any) -> Tensor:
    """All of the tensor, on every process; where it is sharded (FSDP), each holds only a part."""
    found: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return found


def placed_like(example: Any, tensor: Tensor) -> Tensor:
    """The tensor on the example's device, and sharded as it is; an optimizer's count never is."""
    if not hasattr(example, "full_tensor") or tensor.shape != example.shape:
        return tensor.to(example.device)
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(
        tensor.to(example.device), example.device_mesh, example.placements, src_data_rank=None
    )
