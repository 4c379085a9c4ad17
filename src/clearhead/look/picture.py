"""A matrix as an image, without any drawing library: SVG with its labels as text, PNG with a pixel block per cell."""

import html
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from clearhead.errors import ConfigError
from clearhead.look.labelled import Labelled

CELL = 24
"""Side of a cell, in pixels."""
ORANGE, BLUE = (0.70, 0.32, 0.0), (0.03, 0.27, 0.58)
"""The far ends: below zero and above; zero is white."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A matrix in blue, and orange where it is below zero; a notebook shows it."""

    matrix: Labelled

    def __post_init__(self) -> None:
        if self.matrix.values.ndim != 2:
            raise ConfigError(
                f"{self.matrix.path} has {self.matrix.values.ndim} dimensions, and a picture has two.",
                "Name a head.",
            )

    def colours(self) -> UInt8[np.ndarray, "R C 3"]:
        values = np.nan_to_num(self.matrix.values.astype(float), neginf=0.0)
        share = (values / max(float(np.abs(values).max(initial=0)), 1e-12))[..., None]
        ends = np.where(share < 0, np.array(ORANGE), np.array(BLUE))
        return np.asarray((255 * (1 - np.abs(share) * (1 - ends))).round(), dtype=np.uint8)

    def svg(self) -> str:
        rows, columns = self.matrix.labels
        left, top = (10 + 8 * max(map(len, names), default=0) for names in (rows, columns))
        parts = [
            f'<rect x="{left + CELL * c}" y="{top + CELL * r}" width="{CELL}" height="{CELL}" fill="rgb({red},{green},'
            f'{blue})"><title>{html.escape(f"{rows[r]}, {columns[c]}: {self.matrix.values[r, c]:.4f}")}</title></rect>'
            for r, row in enumerate(self.colours().tolist())
            for c, (red, green, blue) in enumerate(row)
        ]
        parts += [
            label(left - 6, top + CELL * (r + 0.65), name, "end") for r, name in enumerate(rows)
        ]
        across = [(left + CELL * (c + 0.65), name) for c, name in enumerate(columns)]
        parts += [
            label(x, top - 6, name, "start", f' transform="rotate(-90 {x} {top - 6})"')
            for x, name in across
        ]
        size = left + CELL * len(columns) + 6, top + CELL * len(rows) + 6
        style = "<style>text{font:13px monospace;fill:#777}</style>"  # grey is legible on light and on dark
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" role="img" '
            f'aria-label="{html.escape(self.matrix.path)}">{style}{"".join(parts)}</svg>\n'
        )

    def png(self) -> bytes:
        pixels = self.colours().repeat(CELL, axis=0).repeat(CELL, axis=1)
        height, width, _ = pixels.shape
        lines = b"".join(b"\0" + row.tobytes() for row in pixels)
        head = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
        return (
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", head)
            + chunk(b"IDAT", zlib.compress(lines))
            + chunk(b"IEND", b"")
        )

    def save(self, path: str | Path) -> None:
        """As the file's name asks: .svg or .png."""
        path = Path(path)
        if path.suffix not in (".svg", ".png"):
            raise ConfigError(
                f"A picture is a .svg or a .png, and {path.name} is neither.", "Name it so."
            )
        path.write_bytes(self.png() if path.suffix == ".png" else self.svg().encode())

    def _repr_svg_(self) -> str:
        return self.svg()


def chunk(kind: bytes, data: bytes) -> bytes:
    """A part of a PNG file: its length, its kind, its content and a checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def label(x: int | float, y: int | float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{more}>{html.escape(text)}</text>'
