"""The paper's Table 1, measured: what a layer costs as texts grow longer and vectors wider."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from timeit import Timer
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from clearhead.lab.figures import COLOURS, name_of, plot_formula, plot_lines
from clearhead.lab.notebook import Experiment, Findings, Notebook, Row, points_of
from clearhead.model.attention import Attention, attend, merge_heads, split_heads

HEAD_WIDTH = 64
"""Entries of a head's vectors, as in the paper."""
SAMPLE_SECONDS = 2e-3
"""A timed sample repeats its work until it takes about this long."""
NEAR = 0.25
"""How far a fitted exponent may be from the formula's to agree with it."""
TASKS = {"layer": "a layer", "step": "a training step", "token": "one more token"}
KINDS = ("attention", "matrix part", "lstm", "gru", "convolution")
RECURRENT: dict[str, type[nn.LSTM | nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
CELLS: dict[str, type[nn.LSTMCell | nn.GRUCell]] = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}
KERNEL = 3
FORMULAS = {
    "attention": "n²·d + n·d²",
    "matrix part": "n²·d",
    "lstm": "n·d²",
    "gru": "n·d²",
    "convolution": "k·n·d²",
}
"""The paper's complexity of each kind of layer."""
EXPONENTS = {
    "matrix part": {"n": 2.0, "d": 1.0},
    "lstm": {"n": 1.0, "d": 2.0},
    "gru": {"n": 1.0, "d": 2.0},
    "convolution": {"n": 1.0, "d": 2.0},
}
"""The exponents of n and of d in these formulas; a sum of two terms has none."""
OF_TOKEN = {"matrix part": ("n·d", 1.0), "lstm": ("d²", 0.0)}
"""The complexity of one more token, and the exponent of n in it."""


@dataclass(frozen=True, kw_only=True)
class Complexity(Experiment):
    title = "Complexity: the paper's Table 1 on this machine"
    quick: ClassVar[Mapping[str, Any]] = {
        "lengths": (16, 32, 64, 128, 256, 512, 1_024),
        "rounds": 9,
    }

    lengths: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1_024, 2_048)
    widths: tuple[int, ...] = (32, 64, 128, 256, 512)
    width: int = 128
    """The width at which lengths are compared."""
    length: int = 128
    """The length at which widths are compared."""
    rounds: int = 15
    """Times that all kinds are timed in turn; the least counts, for a busy machine only adds."""
    chain_lengths: tuple[int, ...] = (4, 8, 16, 32, 64)

    def run(self, notebook: Notebook, files: Sequence[Path]) -> Findings:  # noqa: ARG002
        points = [{"task": task, "n": n, "d": self.width} for task in TASKS for n in self.lengths]
        by_width = [{"task": "layer", "n": self.length, "d": d} for d in self.widths]
        # Interleaved over the lengths, so that a slow minute does not bend a curve.
        with one_thread():
            rows = notebook.measured("times", points, self.times)
            wide = notebook.measured("widths", by_width, self.times)
        chains = notebook.measured("chains", [{"n": n} for n in self.chain_lengths], longest_chains)
        self.draw(notebook, rows, wide, chains)
        return self.findings(rows, wide, chains)

    def times(self, point: Row) -> dict[str, float]:
        works = {kind: timed_work(point["task"], kind, point["n"], point["d"]) for kind in KINDS}
        return least_seconds(works, self.rounds)

    def draw(self, notebook: Notebook, rows: list[Row], wide: list[Row], chains: list[Row]) -> None:
        with notebook.picture(
            "time-and-length",
            f"Time against the length n, vectors of {self.width}; fitted exponents of n",
            (13, 4.2),
        ) as figure:
            for number, (task, what) in enumerate(TASKS.items(), 1):
                axes = figure.add_subplot(
                    1,
                    len(TASKS),
                    number,
                    title=what,
                    xlabel="length n (tokens)",
                    ylabel="milliseconds" if number == 1 else "",
                )
                draw_curves(axes, [row for row in rows if row["task"] == task], "n")
        with notebook.picture(
            "time-and-width",
            f"A layer against the width d, at length {self.length}; fitted exponents of d",
            (6, 4.2),
        ) as figure:
            axes = figure.add_subplot(xlabel="width d", ylabel="milliseconds")
            draw_curves(axes, wide, "d")
        with notebook.picture(
            "sequential-operations",
            "The longest chain of operations that must wait for each other, in one layer",
            (6, 4.2),
        ) as figure:
            axes = figure.add_subplot(
                xscale="log",
                yscale="log",
                xlabel="length n (tokens)",
                ylabel="operations one after another",
            )
            lines = {kind: points_of(chains, "n", kind) for kind in KINDS if kind in chains[0]}
            labels = {kind: f"{name_of(kind)}: {told_chain(line)}" for kind, line in lines.items()}
            plot_lines(axes, lines, labels, ticks=self.chain_lengths)

    def findings(self, rows: list[Row], wide: list[Row], chains: list[Row]) -> Findings:
        header = (
            "", "paper", "n: layer", "n: step", "n: token", "d: layer", "sequential: paper", "measured",
        )  # fmt: skip
        table: list[tuple[str, ...]] = [header]
        said = []
        for kind in KINDS:
            of_n = [exponent(points_of(rows, "n", kind, task=task)) for task in TASKS]
            of_d = exponent(points_of(wide, "d", kind))
            fitted = (f"{value:.2f}" for value in (*of_n, of_d))
            chain = told_chain(points_of(chains, "n", kind)) if kind in chains[0] else ""
            claimed_chain = "" if not chain else "n" if kind in RECURRENT else "1"
            formula = f"O({FORMULAS[kind]})"
            table.append((name_of(kind), formula, *fitted, claimed_chain, chain))
            for variable, claimed in EXPONENTS.get(kind, {}).items():
                found = of_n[0] if variable == "n" else of_d
                said.append(beside_the_paper(kind, variable, found, claimed))
        for task, what in TASKS.items():
            curve = [row for row in rows if row["task"] == task]
            said.append(crossing_told(what, curve, self.width))
        said.append(
            f"Each time is the least processor time of {self.rounds}, one thread, one text; exponents "
            "are fitted by least squares to the logarithms, over the longer half of the range, "
            "where fixed costs matter least."
        )
        return Findings(said=tuple(said), table=tuple(table))


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in one thread while inside: how work is shared between threads is another question."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def timed_work(task: str, kind: str, n: int, d: int) -> Callable[[], object]:
    """What is timed: a forward pass over n positions, one with its backward pass, or position n + 1."""
    torch.manual_seed(0)
    if task == "token":
        return torch.inference_mode()(next_token(kind, n, d))
    forward, leaves = whole_layer(kind, n, d)
    if task == "layer":
        return torch.inference_mode()(forward)
    gradient = torch.randn_like(forward())
    return lambda: torch.autograd.grad(forward(), leaves, gradient)


def whole_layer(kind: str, n: int, d: int) -> tuple[Callable[[], Tensor], list[Tensor]]:
    """A layer as a function, and the tensors that its gradient is computed for."""
    x = torch.randn(1, n, d, requires_grad=True)
    heads = max(1, d // HEAD_WIDTH)
    if kind == "matrix part":
        q, k, v = (split_heads(torch.randn(1, n, d), heads).requires_grad_() for _ in range(3))
        return lambda: attend(q, k, v, None), [q, k, v]
    if kind in RECURRENT:
        cells = RECURRENT[kind](d, d, batch_first=True)
        return lambda: cells(x)[0], [x, *cells.parameters()]
    if kind == "convolution":
        kernel = nn.Conv1d(d, d, KERNEL, padding=KERNEL // 2)
        return lambda: kernel(x.mT), [x, *kernel.parameters()]
    attention = Attention(d, heads)
    return lambda: attention(x), [x, *attention.parameters()]


def next_token(kind: str, n: int, d: int) -> Callable[[], object]:
    """One more position after n others, whose keys and values, or state, are kept (KV cache)."""
    x, heads = torch.randn(1, 1, d), max(1, d // HEAD_WIDTH)
    q, k, v = (split_heads(torch.randn(1, m, d), heads) for m in (1, n, n))
    if kind == "matrix part":
        return lambda: attend(q, k, v, None)
    if kind in RECURRENT:
        cells, state = RECURRENT[kind](d, d, batch_first=True), torch.randn(1, 1, d)
        before = (state, state) if kind == "lstm" else state
        return lambda: cells(x, before)[0]
    if kind == "convolution":
        kernel, window = nn.Conv1d(d, d, KERNEL), torch.randn(1, d, KERNEL)
        return lambda: kernel(window)
    attention = Attention(d, heads)

    def attended_and_kept() -> object:
        z = attend(attention.queries(x), k, v, None)
        return attention.out(merge_heads(z)), attention.keys_and_values(x)

    return attended_and_kept


def least_seconds(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The least time of each, timed in turn, so that a busy moment hits all alike.

    It is processor time, so that what else runs on the machine does not count.
    """
    timers = {name: Timer(work, timer=time.process_time) for name, work in works.items()}
    repeats = {}
    for name, timer in timers.items():
        works[name]()  # a warm-up
        repeats[name] = max(1, math.ceil(SAMPLE_SECONDS / max(timer.timeit(1), 1e-6)))
    samples = [
        {name: timer.timeit(repeats[name]) / repeats[name] for name, timer in timers.items()}
        for _ in range(rounds)
    ]
    return {name: min(sample[name] for sample in samples) for name in works}


def longest_chains(point: Row) -> dict[str, int]:
    """Operations that must wait for each other in a layer over n words: no processor shortens them."""
    kinds = ("attention", "lstm", "gru", "convolution")
    return {kind: longest_chain(layer_over(leaf_vectors(point["n"], 8), kind)) for kind in kinds}


def layer_over(xs: Sequence[Tensor], kind: str) -> Tensor:
    """The last output of a layer over a text whose words are tensors of their own.

    Recurrent cells are spelled out: in torch's own layers the whole recurrence is one node.
    """
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


def upper_half(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    return points[len(points) // 2 :]


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of y against x on log–log paper, by least squares over the upper half."""
    logs = torch.tensor(upper_half(points), dtype=torch.float64).log()
    x, y = (logs - logs.mean(dim=0)).T
    return float(x @ y / (x @ x))


def draw_curves(axes: Any, rows: list[Row], variable: str) -> None:
    """Milliseconds of every kind, its fitted exponent in its label, the formulas dashed."""
    lines = {
        kind: [(x, 1e3 * seconds) for x, seconds in points_of(rows, variable, kind)]
        for kind in KINDS
    }
    labels = {
        kind: f"{name_of(kind)}  ${variable}^{{{exponent(points):.2f}}}$"
        for kind, points in lines.items()
    }
    axes.set(xscale="log", yscale="log")
    plot_lines(axes, lines, labels, ticks=[x for x, _ in lines["lstm"]])
    for kind, of_token in OF_TOKEN.items():
        of_layer = FORMULAS[kind], EXPONENTS[kind][variable]
        formula, power = of_token if rows[0]["task"] == "token" else of_layer
        half = upper_half(lines[kind])
        last_x, last_y = half[-1]
        line = [(x, last_y * (x / last_x) ** power) for x, _ in half]
        plot_formula(axes, line, formula, COLOURS[kind])


def told_chain(points: Sequence[tuple[float, float]]) -> str:
    """How a chain grows with the length, as a formula."""
    (n, first), (m, last) = points[0], points[-1]
    slope = (last - first) / (m - n)
    return f"{last:.0f}" if not slope else f"{slope:g}·n + {first - slope * n:g}"


def beside_the_paper(kind: str, variable: str, fitted: float, claimed: float) -> str:
    how = "more slowly" if fitted < claimed else "faster"
    holds = abs(fitted - claimed) <= NEAR
    told = "as the paper says" if holds else f"{how} than the paper's {variable}^{claimed:g}"
    return f"The time of {name_of(kind)} grows as {variable}^{fitted:.2f}: {told}."


def crossing_told(what: str, rows: Sequence[Row], d: int) -> str:
    """Where self-attention stops being faster than an LSTM."""
    curve = [(row["n"], math.log(row["attention"] / row["lstm"])) for row in rows]
    for (n, here), (m, there) in pairwise(curve):
        if here <= 0 < there:
            crossed = n * (m / n) ** (here / (here - there))
            return f"For {what} at d = {d}, self-attention is faster than an LSTM up to n ≈ {crossed:.0f}."
    who = "faster" if curve[-1][1] <= 0 else "slower"
    return f"For {what} at d = {d}, self-attention is {who} than an LSTM at n = {curve[-1][0]}."
