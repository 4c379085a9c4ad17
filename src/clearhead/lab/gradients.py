"""Gradients and memory: how much of a gradient arrives k words back, and which words are recalled.

The paper's Table 1 counts the steps between two words: 1 in self-attention, as many as there are
words between them in a recurrent network.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from clearhead.config import ModelConfig
from clearhead.lab.complexity import layer_over, leaf_vectors, shortest_path
from clearhead.lab.figures import ARCHITECTURES, mark_place, name_of, plot_formula, plot_lines
from clearhead.lab.notebook import Experiment, Findings, Notebook, Row, points_of
from clearhead.lab.toys import (
    N_WORDS,
    VOCAB_SIZE,
    MadeUp,
    learn,
    recall_batch,
    share_right,
    toy_training,
)
from clearhead.model import Model, Tap, build

REMEMBERED = 0.9
"""Share of words right from which on a distance counts as inside the reference window."""
VANISHED = 1e-12
"""Shares below this are drawn as if they were this."""


@dataclass(frozen=True, kw_only=True)
class Gradients(Experiment):
    title = "Gradients and memory: how far back a network can learn to look"
    quick: ClassVar[Mapping[str, Any]] = {"backs": (1, 4, 16, 64), "steps": 300, "reach": 256}

    d: int = 64
    layers: int = 2
    backs: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    """Distances of the word to recall; a model is trained for each."""
    steps: int = 1_000
    rate: float = 1.0
    """Learning rates relative to the usual ones."""
    rows: int = 16
    reach: int = 512
    """The largest distance that a gradient is measured at."""
    learned_back: int = 4
    """What the trained models of the gradients have learned to recall."""

    def run(self, notebook: Notebook, files: Sequence[Path]) -> Findings:  # noqa: ARG002
        paths = notebook.measured("paths", [{"k": k} for k in self.backs], paths_between)
        flows = notebook.measured(
            "gradients",
            [{"trained": t, "architecture": kind} for t in (0, 1) for kind in ARCHITECTURES],
            lambda point: self.flow(notebook, point),
        )
        recalled = notebook.measured(
            "memory",
            [{"k": k, "architecture": kind} for k in self.backs for kind in ARCHITECTURES],
            lambda point: self.recall(notebook, point),
        )
        self.draw_flows(notebook, flows)
        self.draw(notebook, paths, recalled)
        return self.findings(flows, recalled)

    def untrained(self, kind: str) -> Model:
        torch.manual_seed(0)
        shape: dict[str, Any] = {"architecture": kind, "d_model": self.d}
        if kind == "transformer":
            shape |= {"n_heads": 4, "d_ff": 2 * self.d}
        config = ModelConfig(
            family="decoder",
            vocab_size=VOCAB_SIZE,
            n_decoder_layers=self.layers,
            dropout=0.0,
            **shape,
        )
        return build(config)

    def recall(self, notebook: Notebook, point: Row) -> dict[str, float]:
        """How well a model learns to say the word that stood k words before."""
        kind, back = point["architecture"], point["k"]
        model = self.untrained(kind)
        learn(
            model,
            MadeUp(recall_batch(self.rows, 32, back)),
            toy_training(self.steps, self.rate),
            progress=notebook.progress,
            what=f"{name_of(kind)} learns to recall from {back} words ago",
        )
        tests = MadeUp(recall_batch(4 * self.rows, 32, back))
        return {"accuracy": share_right(model, tests.fixed())}

    def flow(self, notebook: Notebook, point: Row) -> dict[str, float]:
        """The share of the gradient of the last word's loss that arrives k words before it."""
        model = self.untrained(point["architecture"])
        if point["trained"]:
            n_rows = max(1, 32 * self.rows // self.reach)
            learn(
                model,
                MadeUp(recall_batch(n_rows, self.reach, self.learned_back)),
                toy_training(self.steps, self.rate),
                progress=notebook.progress,
                what=f"{name_of(point['architecture'])} learns on {self.reach} words",
            )
        batch: Any = next(MadeUp(recall_batch(8, self.reach, self.learned_back)).fixed())
        norms = gradient_norms(model.eval(), batch.target_in, batch.target_out[:, -1])
        shares = norms / norms.sum()
        return {f"k{k}": float(shares[k]) for k in distances(self.reach)}

    def draw_flows(self, notebook: Notebook, flows: list[Row]) -> None:
        with notebook.picture(
            "gradients",
            "Share of the gradient of the last word's loss that arrives k words before it",
            (11, 4),
        ) as figure:
            panels = figure.subplots(1, 2, sharey=True)
            titles = "untrained", f"trained to recall from {self.learned_back} words ago"
            for trained, (axes, title) in enumerate(zip(panels, titles, strict=True)):
                profiles = {
                    row["architecture"]: [(k, max(row[f"k{k}"], VANISHED)) for k in self.drawn]
                    for row in flows
                    if row["trained"] == trained
                }
                axes.set(xscale="log", yscale="log", xlabel="k words before", title=title)
                plot_lines(axes, profiles, ticks=self.drawn, marker="")
                even = 1 / (self.reach + self.learned_back)
                plot_formula(axes, [(self.reach, even), (1, even)], "1/n", offset=3)
            panels[0].set_ylabel("share of the gradient")
            mark_place(panels[1], self.learned_back, "the answer")

    def draw(self, notebook: Notebook, paths: list[Row], recalled: list[Row]) -> None:
        with notebook.picture(
            "memory",
            "Words recalled from k words ago, after as many updates of each model",
            (6.5, 4),
        ) as figure:
            axes = figure.add_subplot(
                xscale="log", ylim=(0, 1.05), xlabel="k words ago", ylabel="share of words right"
            )
            lines = {kind: memory_of(recalled, kind) for kind in ARCHITECTURES}
            plot_lines(axes, lines, ticks=self.backs, most_ticks=8)
            chance = [(self.backs[0], 1 / N_WORDS), (self.backs[-1], 1 / N_WORDS)]
            plot_formula(axes, chance, "")
            axes.text(self.backs[0], 1 / N_WORDS + 0.02, f"chance: 1/{N_WORDS}", fontsize=9)
        with notebook.picture(
            "paths",
            "Operations between an output and the word k before it, in one layer",
            (6.5, 4),
        ) as figure:
            axes = figure.add_subplot(
                xscale="log",
                yscale="log",
                xlabel="k words before",
                ylabel="operations on the shortest path",
            )
            lines = {kind: points_of(paths, "k", kind) for kind in ARCHITECTURES}
            plot_lines(axes, lines, ticks=self.backs, most_ticks=8)

    @property
    def drawn(self) -> list[int]:
        """The distances at which a gradient is drawn: 0 has no place on a logarithmic scale."""
        return distances(self.reach)[1:]

    def findings(self, flows: list[Row], recalled: list[Row]) -> Findings:
        said, table = [], [("", "window", *(f"k = {k}" for k in self.backs), "gradient", "trained")]
        for kind in ARCHITECTURES:
            memory = memory_of(recalled, kind)
            reach = window(memory)
            before, after = (row[f"k{self.reach}"] for row in flows if row["architecture"] == kind)
            recall = (f"{share:.2f}" for _, share in memory)
            table.append((name_of(kind), str(reach), *recall, f"{before:.1e}", f"{after:.1e}"))
            said.append(
                f"{name_of(kind)}: its window is k = {reach}"
                f"{', the largest tried' if reach == self.backs[-1] else ''}; of the gradient, a "
                f"share of {before:.1e} arrives from {self.reach} words ago before training, "
                f"{after:.1e} after it."
            )
        said.append(
            f"window: the largest k up to which at least {REMEMBERED:.0%} of the words are right, "
            f"after {self.steps} updates of about as many weights. More updates, or a wider state, "
            "would move a recurrent network's window; its state must hold all k words, while "
            "attention keeps them all and only has to find one."
        )
        return Findings(said=tuple(said), table=tuple(table))


def paths_between(point: Row) -> dict[str, int]:
    """Operations between the output at the last word and the word k before it, in one layer."""
    texts = {kind: leaf_vectors(point["k"] + 1, 8) for kind in ARCHITECTURES}
    return {kind: shortest_path(layer_over(xs, kind), xs[0]) for kind, xs in texts.items()}


class TokensAsLeaf(Tap):
    """Replaces the token vectors by a leaf tensor, so that the backward pass computes its gradient."""

    vectors: Tensor

    def __call__(self, name: str, x: Tensor) -> Tensor:
        if name != "tokens":
            return x
        self.vectors = x.detach().requires_grad_()
        return self.vectors


def gradient_norms(model: Model, text: Tensor, answers: Tensor) -> Float[Tensor, " K"]:
    """‖∂ loss at the last word / ∂ vector of the word k before it‖, the mean over texts, for all k."""
    tap = TokensAsLeaf()
    logits = model.logits(model.decode(text, tap=tap)[:, -1:])[:, 0]
    loss = F.cross_entropy(logits, answers, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, tap.vectors)
    norms: Tensor = gradient.norm(dim=-1).mean(dim=0)
    return norms.flip(0)


def distances(reach: int) -> list[int]:
    """0, 1, 2, 3, 4, 6, 8, 12, … up to the largest: even steps on a logarithmic scale."""
    return [0, *sorted({round(2 ** (half / 2)) for half in range(2 * int(math.log2(reach)) + 1)})]


def memory_of(recalled: list[Row], kind: str) -> list[tuple[float, float]]:
    return points_of(recalled, "k", "accuracy", architecture=kind)


def window(memory: Sequence[tuple[float, float]]) -> int:
    """The distance up to which all are remembered; 0 if none is."""
    remembered = [*takewhile(lambda point: point[1] >= REMEMBERED, memory)]
    return int(remembered[-1][0]) if remembered else 0
