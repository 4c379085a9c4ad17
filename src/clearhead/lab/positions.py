"""The paper's positions: sines whose differences are rotations, and texts longer than any seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.config import ModelConfig
from clearhead.lab.figures import COLOURS, INK, label_ends, mark_place, plot_lines
from clearhead.lab.notebook import Experiment, Findings, Notebook, Row
from clearhead.lab.toys import (
    N_WORDS,
    VOCAB_SIZE,
    MadeUp,
    copy_batch,
    learn,
    share_right,
    toy_training,
)
from clearhead.model import build
from clearhead.model.positions import sinusoids

EXACT = 1e-5
"""A difference below this is rounding: the vectors are of single precision."""
KINDS = ("sinusoidal", "learned")
LAST = 4
"""Words at the end of a text that are asked for: in a long one, all of them stand at new places."""


@dataclass(frozen=True, kw_only=True)
class Positions(Experiment):
    title = "Positions: sinusoids as rotations, and texts longer than any seen in training"
    quick: ClassVar[Mapping[str, Any]] = {"steps": 1_000, "seeds": 1}

    d: int = 128
    n: int = 256
    """Positions that are drawn and compared."""
    offsets: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    longest_seen: int = 24
    lengths: tuple[int, ...] = (4, 8, 16, 24, 28, 32, 40, 48, 64, 96)
    trained_width: int = 64
    steps: int = 2_000
    rate: float = 1.0
    """Learning rates relative to the usual ones."""
    seeds: int = 2

    def run(self, notebook: Notebook, files: Sequence[Path]) -> Findings:  # noqa: ARG002
        table = sinusoids(torch.arange(self.n), self.d)
        maps = notebook.measured(
            "linear-maps",
            [{"k": k} for k in self.offsets],
            lambda point: {"largest_error": map_error(table, point["k"])},
        )
        products = [{"distance": k, **products_at(table, k)} for k in range(self.n // 2)]
        notebook.write_rows("dot-products", products)
        points = [{"positions": kind, "seed": seed} for seed in range(self.seeds) for kind in KINDS]
        trained = notebook.measured("lengths", points, lambda point: self.train(notebook, point))
        means = {kind: self.mean_over_seeds(trained, kind) for kind in KINDS}
        self.draw_sinusoids(notebook, table)
        self.draw(notebook, products, means)
        return self.findings(maps, products, means)

    def train(self, notebook: Notebook, point: Row) -> dict[str, float]:
        """Accuracy at each length of a model that learned to copy shorter texts."""
        torch.manual_seed(point["seed"])
        config = ModelConfig(
            vocab_size=VOCAB_SIZE,
            d_model=self.trained_width,
            n_encoder_layers=2,
            n_decoder_layers=2,
            positions=point["positions"],
            max_positions=max(self.lengths),
            dropout=0.0,
        )
        model = build(config)
        learn(
            model,
            MadeUp(copy_batch(32, LAST, self.longest_seen), point["seed"]),
            toy_training(self.steps, self.rate, point["seed"]),
            progress=notebook.progress,
            what=f"copying with {point['positions']} positions",
        )
        tests = {n: MadeUp(copy_batch(32, n, n, n_judged=LAST), seed=n) for n in self.lengths}
        return {str(n): share_right(model, batches.fixed()) for n, batches in tests.items()}

    def mean_over_seeds(self, trained: list[Row], kind: str) -> dict[int, float]:
        """The accuracy of a kind of positions at each length."""
        own = [row for row in trained if row["positions"] == kind]
        return {n: sum(float(row[str(n)]) for row in own) / len(own) for n in self.lengths}

    def draw_sinusoids(self, notebook: Notebook, table: Float[Tensor, "N D"]) -> None:
        halves = {
            "sin(pos / 10000^(2i/d))": table.T[0::2],
            "cos(pos / 10000^(2i/d))": table.T[1::2],
        }
        with notebook.picture(
            "sinusoids",
            "Every position as a vector: a sine in each even entry, its cosine in the next",
            (10, 3.6),
        ) as figure:
            panels = figure.subplots(1, 2, sharey=True)
            for axes, (title, half) in zip(panels, halves.items(), strict=True):
                image = axes.imshow(
                    half.numpy(), aspect="auto", cmap="PuOr", interpolation="nearest"
                )
                axes.set(title=title, xlabel="position")
            panels[0].set_ylabel("pair i")
            figure.colorbar(image, ax=panels, shrink=0.8)

    def draw(
        self, notebook: Notebook, products: list[Row], means: Mapping[str, Mapping[int, float]]
    ) -> None:
        with notebook.picture(
            "dot-products",
            "PE(pos) · PE(pos + k) depends on the distance k alone: it is Σ cos(ωᵢ k)",
            (6, 3.6),
        ) as figure:
            axes = figure.add_subplot(xlabel="distance k", ylabel="PE(pos) · PE(pos + k)")
            distances = [row["distance"] for row in products]
            for start in starts(products[0]):
                measured = [row[start] for row in products]
                axes.plot(distances, measured, color=COLOURS["transformer"], alpha=0.6)
            formula = [row["formula"] for row in products]
            axes.plot(distances, formula, color=INK, linestyle=(0, (4, 3)))
            last = {"transformer": [(distances[-1], measured[-1])]}
            label_ends(axes, last, {"transformer": "from four\npositions"})
            axes.text(0.5, 0.8, "Σ cos(ωᵢ k), ωᵢ = 10000^(−2i/d)", transform=axes.transAxes)
        with notebook.picture(
            "new-lengths",
            f"The last {LAST} words of a text to be copied, "
            f"after training on texts of {LAST} to {self.longest_seen} words",
            (6.5, 3.6),
        ) as figure:
            axes = figure.add_subplot(
                ylim=(0, 1.05), xlabel="length of the text (words)", ylabel="share of them right"
            )
            plot_lines(axes, {kind: [*curve.items()] for kind, curve in means.items()})
            mark_place(axes, self.longest_seen, "longest seen")

    def findings(
        self, maps: list[Row], products: list[Row], means: Mapping[str, Mapping[int, float]]
    ) -> Findings:
        worst = max(row["largest_error"] for row in maps)
        spread = max(abs(row[start] - row["formula"]) for row in products for start in starts(row))
        longest, seen = max(self.lengths), self.longest_seen
        next_length = min(n for n in self.lengths if n > seen)
        sines, learned = (means[kind] for kind in KINDS)
        said = (
            f"PE(pos + k) is a linear map of PE(pos), the same for all positions: the largest "
            f"difference is {worst:.1e}, {'rounding alone' if worst < EXACT else 'more than rounding'}.",
            f"The dot product of two positions is that of the formula, which knows their distance "
            f"alone, within {spread:.1e}.",
            f"On texts of {longest} words, {longest / seen:.0f} times as long as any seen, the model "
            f"with sinusoids gets {sines[longest]:.0%} of the last {LAST} words right and the one "
            f"with learned positions {learned[longest]:.0%} ({1 / N_WORDS:.0%} would be chance).",
            f"Just beyond what was seen ({next_length} words) it is {sines[next_length]:.0%} and "
            f"{learned[next_length]:.0%}. The paper hoped that sinusoids would reach lengths never "
            f"seen: here {hope(sines[longest], sines[next_length])}.",
        )
        header = ("words", *map(str, self.lengths))
        rows = [
            (kind, *(f"{share:.2f}" for share in mean.values())) for kind, mean in means.items()
        ]
        return Findings(said=said, table=(header, *rows))


def rotation(k: int, d: int) -> Float[Tensor, "D D"]:
    """The matrix M for which PE(pos + k) = PE(pos) M: each pair of sine and cosine is turned."""
    sine, cosine = sinusoids(torch.tensor(k), d).double().view(-1, 2).T
    pairs = torch.stack([cosine, -sine, sine, cosine], dim=-1).view(-1, 2, 2)
    whole: Tensor = torch.block_diag(*pairs)  # type: ignore[no-untyped-call]
    return whole


def map_error(table: Float[Tensor, "N D"], k: int) -> float:
    """The largest difference between PE(pos + k) and PE(pos) M over all positions."""
    turned = table[:-k].double() @ rotation(k, table.size(1))
    return float((turned - table[k:].double()).abs().max())


def products_at(table: Float[Tensor, "N D"], k: int) -> dict[str, float]:
    """PE(pos) · PE(pos + k) from a few positions, and what the formula says."""
    n, d = table.shape
    found = {
        f"from_{pos}": float(table[pos] @ table[pos + k]) for pos in (0, n // 8, n // 4, n // 2 - 1)
    }
    i = torch.arange(d // 2, dtype=torch.float64)
    return {**found, "formula": float((k * 10_000 ** (-2 * i / d)).cos().sum())}


def starts(row: Row) -> list[str]:
    """The columns of the products that are measured from a position."""
    return [name for name in row if name.startswith("from_")]


def hope(far: float, just: float) -> str:
    """What became of the paper's hope, at a length far beyond those seen and just beyond them."""
    if far > 0.9:
        return "they do"
    return "they do a little beyond, and not far" if just > 0.5 else "they do not"
