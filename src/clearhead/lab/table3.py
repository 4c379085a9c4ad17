"""The paper's Table 3 at laptop scale: one part changed at a time, and what that does.

The base is the paper's, all widths an eighth of its own and half as many layers, so that each row
changes the same part by the same factor. What settings cannot say (a smaller d_k; no √d_k, no
positions, no residuals) is an edit that is in force while the model learns and while it is judged.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch

from clearhead import metrics
from clearhead.config import Config, Given, layered
from clearhead.decode import decode
from clearhead.lab.figures import COLOURS, INK, tick_plainly
from clearhead.lab.notebook import Experiment, Findings, Notebook, Row
from clearhead.lab.toys import learn
from clearhead.look.edits import edits_of
from clearhead.model import Edit, Model, Trace, build
from clearhead.tasks.corpus import Corpus
from clearhead.tasks.task import with_vocabularies
from clearhead.tasks.translation import GREEDY, TranslationTask, source_rows
from clearhead.training import Loss, mean_loss, next_token_loss

BASE: Given = {
    "model": {
        "d_model": 64,
        "d_ff": 256,
        "n_heads": 8,
        "n_encoder_layers": 3,
        "n_decoder_layers": 3,
        "dropout": 0.1,
    },
    "tokenizer": {"vocab_size": 2_000},
    "data": {"batch_tokens": 1_024, "max_length": 64, "validation_limit": 500},
}

PAPER_BASE = 4.92
"""Perplexity of the paper's base model."""
ASIDE = 0.13
"""How far a row's two kinds of points stand from its middle."""
TICKS = (0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50)


@dataclass(frozen=True)
class Variation:
    """A row of the table: what differs from the base, and what the paper found."""

    group: str
    name: str
    changes: Given
    edit: str = ""
    d_k: int = 0
    paper: tuple[str, float, float] | None = None
    """The same row in the paper, its perplexity and its BLEU."""


def with_model(group: str, name: str, paper: tuple[str, float, float], **changes: Any) -> Variation:
    return Variation(group, name, {"model": changes}, paper=paper)


VARIATIONS = (
    Variation("base", "base", {}, paper=("base", PAPER_BASE, 25.8)),
    with_model("A", "1 head", ("h = 1", 5.29, 24.9), n_heads=1),
    with_model("A", "4 heads", ("h = 4", 5.00, 25.5), n_heads=4),
    with_model("A", "16 heads", ("h = 16", 4.91, 25.8), n_heads=16),
    with_model("A", "32 heads", ("h = 32", 5.01, 25.4), n_heads=32),
    Variation("B", "d_k = 2", {}, d_k=2, paper=("d_k = 16", 5.16, 25.1)),
    Variation("B", "d_k = 4", {}, d_k=4, paper=("d_k = 32", 5.01, 25.4)),
    with_model("C", "1 layer", ("N = 2", 6.11, 23.7), n_encoder_layers=1, n_decoder_layers=1),
    with_model("C", "2 layers", ("N = 4", 5.19, 25.3), n_encoder_layers=2, n_decoder_layers=2),
    with_model("C", "4 layers", ("N = 8", 4.88, 25.5), n_encoder_layers=4, n_decoder_layers=4),
    with_model("C", "d_model = 32", ("d_model = 256", 5.75, 24.5), d_model=32),
    with_model("C", "d_model = 128", ("d_model = 1024", 4.66, 26.0), d_model=128),
    with_model("C", "d_ff = 128", ("d_ff = 1024", 5.12, 25.4), d_ff=128),
    with_model("C", "d_ff = 512", ("d_ff = 4096", 4.75, 26.2), d_ff=512),
    with_model("D", "dropout 0", ("P_drop = 0.0", 5.77, 24.6), dropout=0.0),
    with_model("D", "dropout 0.2", ("P_drop = 0.2", 4.95, 25.5), dropout=0.2),
    Variation("D", "no smoothing", {"train": {"label_smoothing": 0.0}}, paper=("ε = 0.0", 4.67, 25.3)),
    Variation("D", "smoothing 0.2", {"train": {"label_smoothing": 0.2}}, paper=("ε = 0.2", 5.47, 25.7)),
    with_model("E", "learned positions", ("learned", PAPER_BASE, 25.7), positions="learned"),
    Variation("ours", "no √d_k", {}, edit="no-scale"),
    Variation("ours", "no positions", {}, edit="no-positions"),
    Variation("ours", "no residuals", {}, edit="no-residual"),
    Variation("ours", "no warm-up", {"train": {"warmup": 0.0}}),
    Variation("ours", "post-norm", {"model": {"norm": "post", "init": "xavier"}}),
)  # fmt: skip
FEW = ("base", "1 head", "1 layer", "d_model = 32", "dropout 0", "learned positions", "no √d_k",
       "no positions", "no residuals", "post-norm")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Table3(Experiment):
    title = "Table 3 of the paper, at laptop scale"
    takes = "FILES"
    n_files = range(1, 3)
    quick: ClassVar[Mapping[str, Any]] = {"names": FEW, "steps": 150, "seeds": 1}

    names: tuple[str, ...] = tuple(variation.name for variation in VARIATIONS)
    steps: int = 250
    seeds: int = 2
    translated: int = 100
    """Held-out pairs that BLEU is measured on."""

    def run(self, notebook: Notebook, files: Sequence[Path]) -> Findings:
        bench = Bench(notebook, files)
        chosen = {each.name: each for each in VARIATIONS if each.name in self.names}
        rows = notebook.measured(
            "table3",
            [{"name": name, "seed": seed} for seed in range(self.seeds) for name in chosen],
            lambda point: self.train(notebook, bench, chosen[point["name"]], point["seed"]),
        )
        found = {name: [row for row in rows if row["name"] == name] for name in chosen}
        self.draw(notebook, list(chosen.values()), found)
        return self.findings(list(chosen.values()), found)

    def train(
        self, notebook: Notebook, bench: "Bench", variation: Variation, seed: int
    ) -> dict[str, float]:
        """Perplexity and BLEU on held-out pairs, after as many updates as all others have."""
        training = {"train": {"seed": seed, "max_steps": self.steps}}
        task = bench.task(layered(variation.changes, training))
        config, edits = task.config, edits_for(variation, task.config)
        torch.manual_seed(seed)
        model = build(config.model)
        learn(
            model,
            task.batches(bench.corpus.store(task)),
            config.train,
            progress=notebook.progress,
            what=variation.name,
            loss=edited_loss(config.train.label_smoothing, edits),
        )
        loss = mean_loss(edited_loss(0.0, edits), task.batches(bench.held_out))(model)
        return {
            "weights": sum(weight.numel() for weight in model.parameters()),
            "perplexity": math.exp(min(loss, 20.0)),
            "bleu": self.bleu(bench, model, edits),
        }

    @torch.inference_mode()
    def bleu(self, bench: "Bench", model: Model, edits: Mapping[str, Edit]) -> float:
        source, target = bench.tokenizers
        pairs = bench.corpus.judged[: self.translated]
        texts = source_rows(source, [pair.source for pair in pairs], model.config)
        tap = Trace(edits) if edits else None
        found = [target.decode(best[0].ids) for best in decode(model, texts, GREEDY, tap=tap)]
        return metrics.bleu(found, [pair.target for pair in pairs]).value

    def draw(
        self, notebook: Notebook, chosen: list[Variation], found: Mapping[str, list[Row]]
    ) -> None:
        base = mean(found["base"], "perplexity")
        with notebook.picture(
            "table3",
            "Perplexity of each variation relative to the base: ours, and the paper's",
            (7.5, 1.2 + 0.26 * len(chosen)),
        ) as figure:
            axes = figure.add_subplot(xscale="log")
            for place, each in enumerate(chosen):
                ratios = [row["perplexity"] / base for row in found[each.name]]
                axes.plot(ratios, [place - ASIDE] * len(ratios), "o", color=COLOURS["transformer"])
                if each.paper:
                    ratio, colour = each.paper[1] / PAPER_BASE, COLOURS["lstm"]
                    axes.plot(ratio, place + ASIDE, "D", color=colour, markersize=5)
            axes.axvline(1, color=INK, linewidth=0.8)
            axes.set_yticks(range(len(chosen)), [each.name for each in chosen])
            axes.invert_yaxis()
            low, high = axes.get_xlim()
            tick_plainly(axes, [tick for tick in TICKS if low <= tick <= high], most=len(TICKS))
            axes.set_xlabel("perplexity / that of the base (left is better)")
            axes.set_title("● here, one for each seed", color=COLOURS["transformer"])
            axes.set_title("◆ in the paper", color=COLOURS["lstm"], loc="right")

    def findings(self, chosen: list[Variation], found: Mapping[str, list[Row]]) -> Findings:
        ours, theirs = ("weights", "perplexity", "BLEU"), ("its perplexity", "its BLEU")
        header = ("", "variation", *ours, "in the paper", *theirs)
        table = (header, *(table_row(each, found[each.name]) for each in chosen))
        base, verdicts = found["base"], dict[bool, list[str]]({True: [], False: []})
        noise = 2 * deviation(base, "perplexity") or 0.03 * mean(base, "perplexity")
        for name, (_, in_paper, _) in (
            (each.name, each.paper) for each in chosen[1:] if each.paper
        ):
            change = mean(found[name], "perplexity") - mean(base, "perplexity")
            is_noise, claimed = abs(change) <= noise, in_paper - PAPER_BASE
            agrees = (change > 0) == (claimed > 0) if claimed else is_noise
            verdicts[agrees].append(f"{name} (within noise)" if is_noise else name)
        worst = max(found, key=lambda name: mean(found[name], "perplexity"))
        said = (
            f"In the direction of the paper: {', '.join(verdicts[True]) or 'none'}.",
            f"Not in its direction: {', '.join(verdicts[False]) or 'none'}.",
            f"Worst of all is {worst}: perplexity {with_spread(found[worst], 'perplexity')} "
            f"against {with_spread(base, 'perplexity')}.",
            f"{self.steps} updates of a model an eighth as wide are not 100,000 of the paper's: what "
            "helps a long training, dropout for one, may hurt a short one, and larger models are "
            "still behind. ± is the standard deviation over seeds.",
        )
        return Findings(said=said, table=table)


def table_row(variation: Variation, rows: Sequence[Row]) -> tuple[str, ...]:
    return (
        variation.group,
        variation.name,
        f"{rows[0]['weights']:,}",
        with_spread(rows, "perplexity"),
        with_spread(rows, "bleu"),
        *map(str, variation.paper or [""] * 3),
    )


class Bench:
    """What all variations share: the pairs, the tokenizer, the pairs held out."""

    def __init__(self, notebook: Notebook, files: Sequence[Path]) -> None:
        given = layered(BASE, {"data": {"files": [str(file.resolve()) for file in files]}})
        config = Config(**given)
        self.corpus = Corpus(TranslationTask, config.data, Path(), notebook.progress)
        self.corpus.resolve(given)
        self.tokenizers = self.corpus.tokenizers(config.tokenizer)
        self.config = with_vocabularies(config, self.tokenizers)
        self.held_out = self.corpus.judge(TranslationTask(self.config, self.tokenizers))[1]

    def task(self, changes: Given) -> TranslationTask:
        """The task of a model that differs from the base."""
        config = Config(**layered(self.config.model_dump(), changes))
        return TranslationTask(config, self.tokenizers)


def edits_for(variation: Variation, config: Config) -> dict[str, Edit]:
    """What is changed inside while the model learns and while it is judged."""
    if variation.d_k:
        return smaller_keys(variation.d_k, config)
    return dict(edits_of(variation.edit, config.model).taps) if variation.edit else {}


def smaller_keys(d_k: int, config: Config) -> dict[str, Edit]:
    """Queries and keys of d_k entries: the others are silent, and √d_k is that of what is left."""
    width = config.model.d_model // config.model.n_heads
    kept = (torch.arange(width) < d_k).float()
    scale = math.sqrt(width / d_k)
    short: dict[str, Edit] = {"q": lambda q: q * kept * scale, "k": lambda k: k * kept}
    scaled = edits_of("no-scale", config.model).taps  # which names every attention
    return {path.removesuffix("scaled") + name: short[name] for path in scaled for name in short}


def edited_loss(smoothing: float, edits: Mapping[str, Edit]) -> Loss:
    """The loss of a model whose tensors are edited on their way."""
    plain = next_token_loss(smoothing)
    return partial(plain, tap=Trace(edits)) if edits else plain


def mean(rows: Sequence[Row], name: str) -> float:
    return statistics.fmean(row[name] for row in rows)


def deviation(rows: Sequence[Row], name: str) -> float:
    return statistics.stdev(row[name] for row in rows) if len(rows) > 1 else 0.0


def with_spread(rows: Sequence[Row], name: str) -> str:
    off = f" ± {deviation(rows, name):.1f}" if len(rows) > 1 else ""
    return f"{mean(rows, name):.1f}{off}"
