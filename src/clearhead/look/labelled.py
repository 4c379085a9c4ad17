"""Numbers with the names of their rows and columns."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

MOST_ROWS, MOST_COLUMNS, WIDEST = 24, 10, 12
"""What of a matrix is printed, and how much of each label."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """A tensor of the model; numpy takes it as an array, and `str()` is a table."""

    path: str
    values: Float[np.ndarray, "..."]
    axes: tuple[str, ...]
    """What each dimension counts: head, source, target, d_k, d_model, d_ff, token, class."""
    labels: tuple[tuple[str, ...], ...]
    """The name of every index, dimension by dimension."""

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[np.float32]:
        return np.array(self.values, dtype=dtype, copy=copy)  # type: ignore[call-overload, no-any-return]

    def at(self, axis: str, index: int) -> "Labelled":
        """One index of a dimension: a head, a row."""
        place = self.axes.index(axis)
        name = self.labels[place][index]
        return replace(
            self,
            path=f"{self.path}, {axis} {name}",
            values=self.values.take(index, axis=place),
            axes=self.axes[:place] + self.axes[place + 1 :],
            labels=self.labels[:place] + self.labels[place + 1 :],
        )

    def __repr__(self) -> str:
        sizes = zip(self.values.shape, self.axes, strict=True)
        return f"<{self.path}: {' × '.join(f'{n} {axis}' for n, axis in sizes)}>"

    def __str__(self) -> str:
        if self.values.ndim > 2:
            return "\n\n".join(
                str(self.at(self.axes[0], index)) for index in range(len(self.values))
            )
        rows = self.values if self.values.ndim == 2 else self.values[None]
        names = self.labels[0] if self.values.ndim == 2 else ("",)
        table = [["", *(cut(label) for label in self.labels[-1])]]
        table += [
            [cut(name), *(f"{value:.3f}" for value in row)]
            for name, row in zip(names, rows, strict=True)
        ]
        return "\n".join([self.path, *lines(table)])


def lines(table: list[list[str]]) -> list[str]:
    """A table with its columns aligned; what does not fit is counted, not dropped in silence."""
    n_rows, n_columns = len(table) - 1, len(table[0]) - 1
    shown = [row[: MOST_COLUMNS + 1] for row in table[: MOST_ROWS + 1]]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    text = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in shown
    ]
    left_out = [
        f"{n - most} more {what}"
        for n, most, what in (
            (n_rows, MOST_ROWS, "rows"),
            (n_columns, MOST_COLUMNS, "columns"),
        )
        if n > most
    ]
    return [*text, *([f"({', '.join(left_out)})"] if left_out else [])]


def cut(label: str) -> str:
    return label if len(label) <= WIDEST else label[: WIDEST - 1] + "…"
