"""One update of the weights: forwards, backwards, over the processes; or why it cannot be made.

Several processes may train together, in parallel: who I am among them, what we add up, and tensors
that are sharded over us. What torch has for these takes most of a second to import, so it is
imported late.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from clearhead.config import TrainConfig
from clearhead.data.batches import Batch
from clearhead.errors import ConfigError, NotFiniteError
from clearhead.machine import is_bf16, told_by_torchrun
from clearhead.model import Model
from clearhead.model.block import Block
from clearhead.model.tap import Trace
from clearhead.training.loss import Loss

MEETING = ("RANK", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun tells each process, so that it finds the others."""
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

    def bytes_from_first(self, content: bytes) -> bytes:
        """The same of bytes (broadcast): of those of the others, nothing is used."""
        n_bytes = int(self.from_first(len(content)))
        if self.world == 1 or not n_bytes:
            return content[:n_bytes]
        given = bytearray(content) if self.first else bytearray(n_bytes)
        data = torch.frombuffer(given, dtype=torch.uint8).to(self.device)
        dist.broadcast(data, 0)
        return data.cpu().numpy().tobytes()

    def wait(self) -> None:
        """Until all have come this far (barrier)."""
        if self.world > 1:
            dist.barrier()


@contextmanager
def joined_ranks(device: torch.device) -> Iterator[Ranks]:
    """The processes that torchrun started, while they work together, or this one alone."""
    world = told_by_torchrun("WORLD_SIZE", 1)
    if world <= 1:
        yield Ranks()
        return
    told_by_torchrun("RANK", 0)
    if missing := [name for name in MEETING if name not in os.environ]:
        raise ConfigError(
            f"The environment says WORLD_SIZE = {world}, and not where the processes meet: "
            f"{', '.join(missing)}.",
            "Start processes that train together with torchrun; else unset WORLD_SIZE.",
        )
    if device.type == "cuda":
        torch.cuda.set_device(device)
    shared, rank, _ = next(rendezvous("env://"))
    # After a restart, torchrun's shared store still holds the addresses of the processes that died.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        timeout=TIMEOUT,
        store=dist.PrefixStore(attempt, shared),  # type: ignore[attr-defined]
        rank=rank,
        world_size=world,
    )
    yield Ranks(rank, world, device.type)
    dist.barrier()  # not after an error: the others would never come
    dist.destroy_process_group()


def full(tensor: Any) -> Tensor:
    """All of the tensor, on every process; where it is sharded (FSDP), each holds only a part."""
    return cast(Tensor, tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor)


def placed_like(example: Any, tensor: Tensor) -> Tensor:
    """The tensor on the example's device, and sharded as it is; an optimizer's count never is."""
    if not hasattr(example, "full_tensor") or tensor.shape != example.shape:
        return tensor.to(example.device)
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(
        tensor.to(example.device), example.device_mesh, example.placements, src_data_rank=None
    )


@dataclass(frozen=True)
class Outcome:
    """What an update found before it touched the weights."""

    loss: float
    gradient: float
    tokens: int
    stop: bool
    """Whether any process was asked to stop."""


class Objective(nn.Module):
    """The model with its loss, as one module; in mixed precision (autocast) where it is asked for."""

    def __init__(self, model: Model, loss: Loss, config: TrainConfig) -> None:
        super().__init__()
        self.model, self.loss = model, loss
        self.bf16 = is_bf16(config.precision, model.device)

    def forward(self, batch: Batch) -> tuple[Tensor, int]:
        with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.bf16):
            return self.loss(self.model, batch)


def distribute(objective: Objective, config: TrainConfig, ranks: Ranks) -> nn.Module:
    """The objective for several processes: data-parallel (DDP), or with sharded weights (FSDP2)."""
    model = objective.model
    if config.compile:
        model.compile()
    if ranks.world == 1:
        return objective
    if not config.shard:
        return DistributedDataParallel(objective)
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    for block in [module for module in model.modules() if isinstance(module, Block)]:
        fully_shard(block)
    fully_shard(model)
    for method in ("encode", "decode", "classify", "logits"):
        register_fsdp_forward_method(model, method)
    return objective


def update(
    objective: nn.Module,
    batches: Iterable[Batch],
    seed: int,
    clip: float,
    splits: int,
    ranks: Ranks,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Leave the clipped gradient of the mean loss on the parameters (gradient accumulation).

    Each loss is a sum, and its gradient is divided by the number of predictions of all processes
    together: several processes, or several pieces of a batch, give what one would.
    """
    torch.manual_seed(seed)
    objective.train()
    objective.zero_grad(set_to_none=True)
    pieces = [piece for batch in batches for piece in microbatches(batch, splits)]
    device = next(objective.parameters()).device
    totals = torch.zeros(3, dtype=torch.float64, device=device)
    for index, piece in enumerate(pieces):
        # Processes exchange gradients only after the last piece: before it, none do.
        parallel = objective if isinstance(objective, DistributedDataParallel) else None
        with parallel.no_sync() if parallel and index < len(pieces) - 1 else nullcontext():
            loss, n_tokens = objective(piece.to(device))
            loss.backward()
        totals[0] += loss.detach()
        totals[1] += n_tokens
    totals[2] = stop()  # asked as late as can be: a signal that comes during an update ends with it
    total, n_tokens, stops = ranks.add_up(totals).tolist()
    gradients = [
        parameter.grad for parameter in objective.parameters() if parameter.grad is not None
    ]
    scale = ranks.world / n_tokens  # the processes' gradients come as their mean
    norm = float(torch.nn.utils.get_total_norm(gradients)) * scale
    if math.isfinite(norm):
        torch._foreach_mul_(gradients, scale * min(1.0, clip / (norm + 1e-6)))
    return Outcome(total / n_tokens, norm, int(n_tokens), stops > 0)


def microbatches(batch: Batch, n_pieces: int) -> list[Batch]:
    """The batch in pieces by rows, none of them empty."""
    columns = {f.name: getattr(batch, f.name).tensor_split(n_pieces) for f in fields(batch)}
    pieces = [
        replace(batch, **{name: parts[i] for name, parts in columns.items()})
        for i in range(n_pieces)
    ]
    return [piece for piece in pieces if len(piece.indices)]


def not_finite(model: Model, loss: Loss, batches: Sequence[Batch], step: int) -> NotFiniteError:
    """The error to raise: the update, its examples, and the first place that is not finite."""
    examples = [int(index) for batch in batches for index in batch.indices]
    return NotFiniteError(
        f"Step {step} is not finite: {first_not_finite(model, loss, batches)}. "
        "The weights are as they were before it.\n"
        f"Its examples: {', '.join(map(str, examples[:8]))}{' …' if len(examples) > 8 else ''}.",
        "Try a lower train.learning_rate, or let some steps be left out with train.skip_nonfinite.",
    )


@torch.no_grad()
def first_not_finite(model: Model, loss: Loss, batches: Sequence[Batch]) -> str:
    """A weight, a tensor on its way or a weight's gradient, in the order in which they are made."""
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            return f"the weight {name} itself"
    for batch in batches:
        trace = Trace()
        loss(model, batch.to(model.device), trace)
        for path, tensor in trace.seen.items():
            # What a mask hides is -inf on purpose.
            if not path.endswith(".masked") and not tensor.isfinite().all():
                return f"first in the tensor {path}"
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            return f"first in the gradient of {name}"
    return "in the loss alone"
