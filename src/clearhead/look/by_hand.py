"""Any number of a look, by hand: what it was made of, and the arithmetic, in the paper's order.

Each number is computed anew in double precision from the tensors and weights that go into it. That
it comes out as the model had it is tested for every kind of number.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from clearhead.look.cell import RULES, Cell, Vector
from clearhead.look.gates import RECURRENT_RULES, RecurrentCell
from clearhead.look.labelled import without_head
from clearhead.look.replay import Replay


@dataclass(frozen=True, kw_only=True)
class ByHand:
    """One number with its derivation; `str()` tells it line by line."""

    path: str
    where: str
    """The labels of its row and column."""
    lines: tuple[tuple[str, float], ...]
    """Each step of the arithmetic and what it comes to; the last is the number."""
    model: float
    """What the model had, in single precision."""
    operands: Mapping[str, Vector] = field(default_factory=dict)
    """The vectors that went in, whole."""
    edited: bool = False
    """The model's own number was replaced here, so the two need not agree."""

    @property
    def value(self) -> float:
        """The number, computed anew."""
        return self.lines[-1][1]

    @property
    def agrees(self) -> bool:
        """Single precision keeps about seven digits of the largest number on the way."""
        largest = max((abs(value) for _, value in self.lines if math.isfinite(value)), default=0.0)
        return self.value == self.model or abs(self.value - self.model) <= 2e-5 * max(1.0, largest)

    def __str__(self) -> str:
        width = max(len(text) for text, _ in self.lines)
        steps = [f"  {text.ljust(width)}  = {value:.6g}" for text, value in self.lines]
        verdict = "edited here" if self.edited else "agrees" if self.agrees else "differs"
        end = f"  computed anew {self.value:.6g}, the model had {self.model:.6g}: {verdict}"
        return "\n".join([f"{self.path}  [{self.where}]", *steps, end])


def by_hand(look: Replay, path: str, row: int, col: int = 0, head: int | None = None) -> ByHand:
    """How one number came about: its operands and the arithmetic, recomputed."""
    path, own = without_head(path)
    head = (own if head is None else head) or 0
    number = look[path]
    place = (head, row, col) if "head" in number.axes else (row, col)[: number.values.ndim]
    for index in place:
        number = number.at(number.axes[0], index)
    part, _, name = path.rpartition(".")
    recurs = look.model.config.recurs
    kind, rules = (RecurrentCell, RECURRENT_RULES) if recurs else (Cell, RULES)
    cell = kind(look=look, part=part, row=row, col=col, head=head)
    return ByHand(
        path=path,
        where=number.path.removeprefix(f"{path}, "),
        lines=tuple(rules[name](cell)),
        model=float(number.values),
        operands=cell.operands,
        edited=path in look.taps,
    )
