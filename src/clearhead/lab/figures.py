"""Pictures for a textbook: legible on light and on dark, labelled directly, no legend to look up.

Colours are of middle lightness and differ for colour-blind readers; the background is transparent.
"""

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from clearhead.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ARCHITECTURES = ("transformer", "lstm", "gru")
INK = "#7d7d7d"
COLOURS = {
    "transformer": "#2f81c8",
    "attention": "#2f81c8",
    "matrix part": "#1f9aa5",
    "lstm": "#d9730d",
    "gru": "#1a9a6c",
    "convolution": "#b05cc0",
    "sinusoidal": "#2f81c8",
    "learned": "#d9730d",
}
NAMES = {
    "transformer": "Transformer",
    "attention": "self-attention",
    "matrix part": "softmax(qkᵀ)v",
    "lstm": "LSTM",
    "gru": "GRU",
}
STYLE: Any = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "font.family": "sans-serif",
    "font.size": 10,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "savefig.transparent": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "clearhead",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
APART = 0.055
"""Least distance of two labels at the end of lines, as a share of the height."""


def require_matplotlib() -> None:
    """Refuse to begin what could not be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ConfigError(
            "The lab draws with matplotlib, which is not installed.",
            "Install it with: pip install 'clearhead[lab]'",
        ) from None


@contextmanager
def figure_with_files(size: tuple[float, float]) -> Iterator[tuple["Figure", dict[str, bytes]]]:
    """A figure to draw on, and its files by suffix, which are there when the block has ended."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure, files = Figure(figsize=size, layout="constrained"), dict[str, bytes]()
        yield figure, files
        for suffix in ("svg", "png"):
            content = io.BytesIO()
            metadata = {"Date": None} if suffix == "svg" else {"Software": None}
            figure.savefig(content, format=suffix, dpi=144, metadata=metadata)
            files[suffix] = content.getvalue()


def name_of(kind: str) -> str:
    return NAMES.get(kind, kind)


def plot_lines(
    axes: "Axes",
    lines: Mapping[str, Sequence[tuple[float, float]]],
    labels: Mapping[str, str] | None = None,
    *,
    ticks: Sequence[float] = (),
    most_ticks: int = 5,
    marker: str = "o",
) -> None:
    """Points joined by lines, in the colour of each kind, with its label at the end of its line.

    `ticks` are the places of the x axis that get a number.
    """
    for kind, points in lines.items():
        x, y = zip(*points, strict=True)
        axes.plot(x, y, color=COLOURS.get(kind, INK), marker=marker)
    label_ends(axes, lines, labels or {})
    if ticks:
        tick_plainly(axes, ticks, most_ticks)


def label_ends(
    axes: "Axes",
    lines: Mapping[str, Sequence[tuple[float, float]]],
    labels: Mapping[str, str],
) -> None:
    """A label to the right of the last point of each line; those that would meet move apart."""
    axes.margins(y=0.08)
    axes.autoscale_view()
    to_share = axes.transData + axes.transAxes.inverted()
    ends = {kind: float(to_share.transform(points[-1])[1]) for kind, points in lines.items()}
    for kind, place in moved_apart(ends).items():
        axes.text(
            1.02,
            place,
            labels.get(kind, name_of(kind)),
            color=COLOURS.get(kind, INK),
            transform=axes.transAxes,
            va="center",
        )


def moved_apart(ends: Mapping[str, float]) -> dict[str, float]:
    """The heights of labels, lowest first, moved up where two would meet, and none above the top."""
    order = sorted(ends, key=lambda kind: ends[kind])
    places, below = dict[str, float](), -math.inf
    for kind in order:
        below = places[kind] = max(ends[kind], below + APART)
    above = 1 + APART
    for kind in reversed(order):
        above = places[kind] = min(places[kind], above - APART)
    return places


def plot_formula(
    axes: "Axes",
    points: Sequence[tuple[float, float]],
    text: str,
    colour: str = INK,
    offset: float = -3,
) -> None:
    """A dashed line for what a formula says, with the formula beside its first point."""
    x, y = zip(*points, strict=True)
    rightwards = x[0] < x[-1]
    axes.plot(x, y, color=colour, linestyle=(0, (4, 3)), linewidth=1)
    axes.annotate(
        text,
        points[0],
        xytext=(5 if rightwards else -5, offset),
        textcoords="offset points",
        color=colour,
        fontsize=9,
        ha="left" if rightwards else "right",
        va="top" if offset < 0 else "bottom",
    )


def tick_plainly(axes: "Axes", values: Sequence[float], most: int = 5) -> None:
    """Numbers as people write them, at the points that were measured."""
    every = -(-len(values) // most)
    shown = list(values)[::-1][::every][::-1]
    axes.set_xticks(shown, [f"{value:,.10g}" for value in shown])
    axes.set_xticks([], minor=True)


def mark_place(axes: "Axes", x: float, text: str) -> None:
    """A dotted line at a place of the x axis, with what it is."""
    axes.axvline(x, color=INK, linewidth=0.8, linestyle=":")
    height = axes.get_xaxis_transform()
    axes.annotate(
        text, (x, 0.95), xycoords=height, xytext=(4, 0), textcoords="offset points", fontsize=9
    )
