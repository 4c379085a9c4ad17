"""The tensors of a forward pass by their paths (`decoder.1.cross.pattern`): labels, tables, heat maps.

`replayed` records them, a `LabelledTensor` has names for rows and columns, a `Heatmap` is a picture.
"""

import html
import re
import struct
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from rich.cells import cell_len
from torch import Tensor

from clearhead.disk import write_output
from clearhead.errors import ConfigError, ModelError
from clearhead.model import Edit, Model, Trace

HEAD = re.compile(r"(.+\.(?:self|cross))\.([0-9]{1,4})(\..+)?")
AXES = {
    **dict.fromkeys(("q", "z"), ("head", "rows", "d_k")),
    **dict.fromkeys(("k", "v"), ("head", "keys", "d_k")),
    **dict.fromkeys(("scores", "scaled", "masked", "pattern"), ("head", "rows", "keys")),
    **dict.fromkeys(("pre", "hidden"), ("rows", "d_ff")),
    **dict.fromkeys(("logits", "probs"), ("rows", "token")),
    "classes": ("class",),
    "ngrams": ("class",),
    "start": ("layer", "d_model"),
}
"""What each dimension counts, by the last part of a path; of all other tensors rows and d_model."""
MOST_ROWS, MOST_COLUMNS, WIDEST = 24, 10, 12
"""Rows and columns of a matrix that are printed, and characters of each label."""
FEW = 2
"""So many more rows or columns are printed too: a line that counts them would be no shorter."""
MOST_CELLS = 4_096
"""Cells up to which a notebook draws a heat map; beyond, it shows a table."""
CELL = 24
"""Side of a cell in an image, in pixels."""
ORANGE, BLUE = (0.70, 0.32, 0.0), (0.03, 0.27, 0.58)
"""Colours of the largest number below and above zero; zero is white."""
SHADES = " ░▒▓█"
"""Blocks for 0 to 1, in the colour of the text: legible on light and on dark."""


@torch.inference_mode()
def replayed(
    model: Model,
    source: Sequence[int],
    target: Sequence[int],
    edits: Mapping[str, Edit] | None = None,
) -> dict[str, Tensor]:
    """Every tensor of one teacher-forced pass, on the CPU and without a batch dimension."""
    trace = Trace(edits)
    model(*as_batch(model, source, target), tap=trace)
    return {path: tensor[0].float().cpu() for path, tensor in trace.seen.items()}


def as_batch(model: Model, *sides: Sequence[int], n: int = 1) -> list[Tensor | None]:
    """Each side as a batch of n equal rows; nothing, where it has no ids."""
    return [torch.tensor([side] * n, device=model.device) if side else None for side in sides]


def with_edit(edits: Mapping[str, Edit], path: str, edit: Edit) -> dict[str, Edit]:
    """The edits and one more, which acts after the one that there may be at its path."""
    earlier: Edit = edits.get(path, lambda x: x)
    return {**edits, path: lambda x: edit(earlier(x))}


def patterns(seen: Mapping[str, Tensor], kind: str = "") -> dict[str, Float[Tensor, "H T S"]]:
    """The weights of every attention, or of those of a kind (`self`, `cross`), by its path."""
    return {
        path.removesuffix(".pattern"): weights
        for path, weights in seen.items()
        if path.endswith(f"{kind}.pattern")
    }


def without_head(path: str, head: int | None = None) -> tuple[str, int | None]:
    """A path without the number of a head behind `self` or `cross`; and `head`, or that number."""
    if not (found := HEAD.fullmatch(path)):
        return path, head
    return found[1] + (found[3] or ""), int(found[2]) if head is None else head


def axes_of(path: str) -> tuple[str, ...]:
    """What the dimensions of a tensor count; rows and keys are positions of a source or target."""
    stack, *_, name = path.split(".")
    own = "source" if stack == "encoder" else "target"
    sides = {"rows": own, "keys": "source" if ".cross." in path else own}
    return tuple(sides.get(axis, axis) for axis in AXES.get(name, ("rows", "d_model")))


def stream_of(part: str, left: str) -> str:
    """The path of what passes by a sub-layer and is added to its output (residual stream).

    `left` is the name of what a sub-layer leaves there: `norm` (post-norm) or `add` (pre-norm).
    """
    block, _, kind = part.rpartition(".")
    name = {"self": "resid_pre", "cross": f"self.{left}", "ff": "resid_mid"}[kind]
    return f"{block}.{name}"


@dataclass(frozen=True, eq=False)
class LabelledTensor:
    """A tensor of the model; numpy takes it as an array, and `str()` is a table."""

    path: str
    values: Float[np.ndarray, "..."]
    axes: tuple[str, ...]
    """What each dimension counts: head, source, target, d_k, d_model, d_ff, token, class, layer."""
    labels: tuple[tuple[str, ...], ...]
    """The name of every index, dimension by dimension."""

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Float[np.ndarray, "..."]:
        return np.array(self.values, dtype=dtype, copy=copy)  # type: ignore[call-overload, no-any-return]

    def at(self, axis: str, index: int) -> "LabelledTensor":
        """One index of a dimension: a head, a row."""
        size = dict(zip(self.axes, self.values.shape, strict=True)).get(axis, 0)
        if not 0 <= index < size:
            raise ModelError(
                f"There is no {axis} {index} in {self.path}: it has {size or 'none'}.",
                f"Use 0 to {size - 1}." if size else f"It has {' and '.join(self.axes)}.",
            )
        place = self.axes.index(axis)
        return replace(
            self,
            path=f"{self.path}, {axis} {self.labels[place][index]}",
            values=np.asarray(self.values.take(index, axis=place)),
            axes=self.axes[:place] + self.axes[place + 1 :],
            labels=self.labels[:place] + self.labels[place + 1 :],
        )

    def __repr__(self) -> str:
        sizes = zip(self.values.shape, self.axes, strict=True)
        return f"<{self.path}: {' × '.join(f'{n} {axis}' for n, axis in sizes)}>"

    def slices(self) -> list["LabelledTensor"]:
        """A tensor for each index of the first dimension: one for each head."""
        return [self.at(self.axes[0], index) for index in range(len(self.values))]

    def as_matrix(self) -> "LabelledTensor":
        """A vector as a matrix of one row without a name; a matrix as it is."""
        if self.values.ndim != 1:
            return self
        labels = (("",), *self.labels)
        return replace(self, values=self.values[None], axes=("", *self.axes), labels=labels)

    def __str__(self) -> str:
        if self.values.ndim > 2:
            return "\n\n".join(map(str, self.slices()))
        return self.table(MOST_ROWS, MOST_COLUMNS)

    def _repr_html_(self) -> str:
        """In a notebook: a heat map, one for each head if there are several, or a table."""
        if self.values.ndim > 2:
            return "".join(each._repr_html_() for each in self.slices())
        if self.values.size > MOST_CELLS:
            return f"<pre>{html.escape(str(self))}</pre>"
        return (
            '<figure style="display:inline-block;margin:0 1em 1em 0">'
            f"<figcaption>{html.escape(self.path)}</figcaption>"
            f"{Heatmap(self.as_matrix()).svg()}</figure>"
        )

    def table(self, most_rows: int = sys.maxsize, most_columns: int = sys.maxsize) -> str:
        """All of a matrix or a vector as text, or its first rows and columns."""
        matrix = self.as_matrix()
        sizes = matrix.values.shape
        n_rows, n_columns = (
            n if n <= most + FEW else most
            for n, most in zip(sizes, (most_rows, most_columns), strict=True)
        )
        names, columns = matrix.labels
        rows = [["", *map(cut_label, columns[:n_columns])]]
        rows += [
            [cut_label(name), *(f"{value:.3f}" for value in values[:n_columns])]
            for name, values in zip(names[:n_rows], matrix.values, strict=False)
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [self.path, *("  ".join(map(str.rjust, row, widths)) for row in rows)]
        # what does not fit is counted, not dropped in silence
        left_out = {"rows": sizes[0] - n_rows, "columns": sizes[1] - n_columns}
        if more := ", ".join(f"{n} more {what}" for what, n in left_out.items() if n):
            lines.append(f"({more})")
        return "\n".join(lines)


def cut_label(label: str, widest: int = WIDEST) -> str:
    return label if len(label) <= widest else f"{label[: widest - 1]}…"


@dataclass(frozen=True, eq=False)
class Heatmap:
    """A matrix in blue, and orange where it is below zero; a notebook shows it."""

    matrix: LabelledTensor

    def __post_init__(self) -> None:
        if self.matrix.values.ndim != 2:
            raise ConfigError(
                f"{self.matrix.path} has {self.matrix.values.ndim} dimensions, "
                "and a picture has two.",
                "Name a head.",
            )

    def colours(self) -> UInt8[np.ndarray, "R C 3"]:
        values = np.nan_to_num(self.matrix.values.astype(float), neginf=0.0)
        share = (values / max(float(np.abs(values).max(initial=0)), 1e-12))[..., None]
        ends = np.where(share < 0, np.array(ORANGE), np.array(BLUE))
        return np.asarray((255 * (1 - np.abs(share) * (1 - ends))).round(), dtype=np.uint8)

    def blocks(self) -> list[str]:
        """Lines of text, column names first: the nearer to 1 a number is, the fuller its block."""
        rows, columns = self.matrix.labels
        margin = max(map(cell_len, rows), default=0)
        lines = [" ".join([" " * margin, *columns])]
        for name, row in zip(rows, self.matrix.values, strict=True):
            shades = (SHADES[round(float(share) * (len(SHADES) - 1))] for share in row)
            # Chinese and Japanese letters take two columns of a terminal each
            cells = (shade * cell_len(label) for shade, label in zip(shades, columns, strict=True))
            before = " " * (margin - cell_len(name))
            lines.append(" ".join([before + name, *cells]).rstrip())
        return lines

    def svg(self) -> str:
        """Vectors, with a title for each cell and labels as text."""
        rows, columns = self.matrix.labels
        left, top = (10 + 8 * max(map(len, names), default=0) for names in (rows, columns))
        parts = [
            f'<rect x="{left + CELL * c}" y="{top + CELL * r}" width="{CELL}" height="{CELL}" '
            f'fill="rgb({red},{green},{blue})"><title>'
            f"{html.escape(f'{rows[r]}, {columns[c]}: {self.matrix.values[r, c]:.4f}')}"
            "</title></rect>"
            for r, row in enumerate(self.colours().tolist())
            for c, (red, green, blue) in enumerate(row)
        ]
        parts += [
            f'<text x="{left - 6}" y="{top + CELL * (r + 0.65)}" text-anchor="end">'
            f"{html.escape(name)}</text>"
            for r, name in enumerate(rows)
        ]
        across = [(left + CELL * (c + 0.65), html.escape(name)) for c, name in enumerate(columns)]
        parts += [
            f'<text x="{x}" y="{top - 6}" text-anchor="start" '
            f'transform="rotate(-90 {x} {top - 6})">{name}</text>'
            for x, name in across
        ]
        width, height = left + CELL * len(columns) + 6, top + CELL * len(rows) + 6
        # grey is legible on light and on dark
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'role="img" aria-label="{html.escape(self.matrix.path)}">'
            f"<style>text{{font:13px monospace;fill:#777}}</style>{''.join(parts)}</svg>\n"
        )

    def png(self) -> bytes:
        pixels = self.colours().repeat(CELL, axis=0).repeat(CELL, axis=1)
        height, width, _ = pixels.shape
        parts = {
            b"IHDR": struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0),
            b"IDAT": zlib.compress(b"".join(b"\0" + row.tobytes() for row in pixels)),
            b"IEND": b"",
        }
        # each part is its length, its kind, its content and a checksum
        return b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            for kind, data in parts.items()
        )

    def save(self, path: str | Path) -> None:
        """Write it as the file's name asks: .svg or .png."""
        path = Path(path)
        if path.suffix not in (".svg", ".png"):
            raise ConfigError(
                f"A picture is a .svg or a .png, and {path.name} is neither.",
                "Give the file one of these endings.",
            )
        write_output(path, self.png() if path.suffix == ".png" else self.svg())

    _repr_svg_ = svg
