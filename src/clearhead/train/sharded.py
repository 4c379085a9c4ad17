"""Tensors that are split over processes, and whole ones: the way from one to the other.

What torch has for this takes most of a second to import, so it is imported only where something is split.
"""

from typing import Any

from torch import Tensor


def is_split(tensor: Any) -> bool:
    """Whether each process holds only a part of the tensor."""
    return hasattr(tensor, "full_tensor")


def put_together(tensor: Any) -> Tensor:
    """The whole tensor, for every process."""
    whole: Tensor = tensor.full_tensor() if is_split(tensor) else tensor
    return whole


def like(example: Any, tensor: Tensor) -> Tensor:
    """The tensor where the example is: on its device, and split as it is; counters are whole everywhere."""
    if not is_split(example) or tensor.shape != example.shape:
        return tensor.to(example.device)
    from torch.distributed.tensor import distribute_tensor

    mesh, placements = example.device_mesh, example.placements
    return distribute_tensor(tensor.to(example.device), mesh, placements, src_data_rank=None)
