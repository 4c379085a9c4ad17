"""The autograd graph as what must happen before what: chains that no processor can shorten.

Recurrent cells are spelled out here; in torch's own layers the whole recurrence is one node.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.model.attention import Attention

CELLS: dict[str, type[nn.LSTMCell | nn.GRUCell]] = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}
KERNEL = 3


def layer_over(xs: Sequence[Tensor], kind: str) -> Tensor:
    """The last output of a layer over a text whose words are tensors of their own."""
    d = xs[0].size(-1)
    if kind in CELLS:
        cell, state = CELLS[kind](d, d), None
        for x in xs:
            state = cell(x[None], state)
        return state[0] if isinstance(state, tuple) else state  # type: ignore[return-value]
    text = torch.stack(list(xs))[None]
    if kind == "convolution":
        return nn.Conv1d(d, d, KERNEL, padding=KERNEL // 2)(text.mT)[0, :, -1]  # type: ignore[no-any-return]
    return Attention(d, n_heads=1)(text)[0, -1]  # type: ignore[no-any-return]


def leaf_vectors(n: int, d: int) -> list[Tensor]:
    """Vectors whose gradients are asked for one by one."""
    return [torch.randn(d, requires_grad=True) for _ in range(n)]


def levels(y: Tensor) -> Iterator[set[Any]]:
    """The operations that an output needs, by their distance from it: 0, then 1, 2, 3 …

    An operation that is reached by paths of several lengths stands on several levels.
    """
    level: set[Any] = {y.grad_fn}
    while level:
        yield level
        level = {each for node in level for each, _ in node.next_functions if each is not None}


def longest_chain(y: Tensor) -> int:
    """Operations on the longest path of a tensor's graph: they must wait for each other."""
    return sum(1 for _ in levels(y))


def shortest_path(y: Tensor, x: Tensor) -> int:
    """Operations on the shortest path from an output back to an input: how near the two are."""
    for length, level in enumerate(levels(y)):
        if any(getattr(node, "variable", None) is x for node in level):
            return length
    raise AssertionError("the output does not depend on the input")
