"""Every tensor of a listening pass by its path (`decoder.1.cross.pattern`); what a path tells."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from clearhead.model import Edit, Trace, Transformer

SQUARES = ("scores", "scaled", "masked", "pattern")
"""What an attention has for each two positions, in the order in which they come to be."""
ENDS = {"logits": "token", "probs": "token", "classes": "class"}
"""What the last tensors count."""


@torch.inference_mode()
def replayed(
    model: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    edits: Mapping[str, Edit] | None = None,
) -> dict[str, Tensor]:
    """Every tensor of one teacher-forced pass, on the CPU and without a batch dimension."""
    trace = Trace(edits)
    model(*as_batch(model, source, target), tap=trace)
    return {path: tensor[0].float().cpu() for path, tensor in trace.seen.items()}


def as_batch(model: Transformer, *sides: Sequence[int]) -> list[Tensor | None]:
    """Each side as a batch of one; nothing, where it has no ids."""
    return [torch.tensor([side], device=model.device) if side else None for side in sides]


def without_head(path: str) -> tuple[str, int | None]:
    """A path and the head in it, if there is one behind `self` or `cross`."""
    parts = path.split(".")
    for place in range(3, len(parts)):
        if parts[place - 1] in ("self", "cross") and parts[place].isdigit():
            return ".".join(parts[:place] + parts[place + 1 :]), int(parts[place])
    return path, None


def axes_of(path: str) -> tuple[str, ...]:
    """What the dimensions of a tensor count."""
    stack, *middle, name = path.split(".")
    kind = middle[-1] if middle else ""
    own = "source" if stack == "encoder" else "target"
    keys = "source" if kind == "cross" else own
    if name in SQUARES:
        return "head", own, keys
    if kind in ("self", "cross") and name in ("q", "k", "v", "z"):
        return "head", keys if name in "kv" else own, "d_k"
    if name in ENDS:
        return (ENDS[name],) if name == "classes" else (own, ENDS[name])
    return own, "d_ff" if kind == "ff" and name in ("pre", "hidden") else "d_model"
