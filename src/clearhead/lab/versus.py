"""The older way beside the Transformer: the same pairs, the same time, about as many weights."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from clearhead.folder import RunFolder
from clearhead.lab.figures import ARCHITECTURES, name_of, plot_lines
from clearhead.lab.notebook import Experiment, Findings, Notebook, Row
from clearhead.tasks.fit import fit
from clearhead.tasks.training import request
from clearhead.tasks.translation import TranslationTask
from clearhead.training import StepReport, Stopped


@dataclass(frozen=True, kw_only=True)
class Versus(Experiment):
    title = "LSTM and GRU beside the Transformer, in the same time"
    takes = "FILES"
    n_files = range(1, 3)
    quick: ClassVar[Mapping[str, Any]] = {"seconds": 45}

    seconds: int = 360
    """Time that each model has."""
    size: str = "tiny"
    seeds: tuple[int, ...] = (0,)
    settings: tuple[tuple[str, str, Any], ...] = ()
    """Other settings, as section, name and value."""

    def run(self, notebook: Notebook, files: Sequence[Path]) -> Findings:
        points = [
            {"architecture": kind, "seed": seed} for seed in self.seeds for kind in ARCHITECTURES
        ]
        rows = notebook.measured(
            "results", points, lambda point: self.train(notebook, files, point)
        )
        curves = [
            {**point, **found} for point in points for found in validations(run_of(notebook, point))
        ]
        notebook.write_rows("curves", curves)
        self.draw(notebook, curves)
        return self.findings(rows, curves, examples(notebook, points))

    def train(self, notebook: Notebook, files: Sequence[Path], point: Row) -> dict[str, Any]:
        """Train in the time there is, or go on; what the run has come to."""
        into, kind = run_of(notebook, point), point["architecture"]
        settings: dict[str, Any] = {
            "model": {"architecture": kind},
            "train": {"seed": point["seed"], "film": False},
        }
        for section, name, value in self.settings:
            settings.setdefault(section, {})[name] = value
        asked = request(files, into, budget=f"{self.seconds}s", size=self.size, settings=settings)
        stopped = None
        for report in fit(TranslationTask, asked.given, into, notebook.progress):
            if isinstance(report, StepReport):
                notebook.progress(f"{name_of(kind)} learns: step", report.step, report.steps)
            elif isinstance(report, Stopped):
                stopped = report.signal
        if stopped is not None:
            signal.raise_signal(stopped)  # it has waited until the checkpoint was saved
        return results(RunFolder(into))

    def draw(self, notebook: Notebook, curves: list[Row]) -> None:
        shows = "Quality on held-out pairs over wall time"
        with notebook.picture("quality-over-time", shows, (11, 4)) as figure:
            for measure, axes in zip(("bleu", "loss"), figure.subplots(1, 2), strict=True):
                for seed in self.seeds:
                    own = {kind: curve(curves, kind, seed, measure) for kind in ARCHITECTURES}
                    plot_lines(axes, own, None if seed == self.seeds[0] else dict.fromkeys(own, ""))
                axes.set(xlabel="seconds of training")
                axes.set_ylabel("BLEU" if measure == "bleu" else "loss (nats per token)")

    def findings(self, rows: list[Row], curves: list[Row], told: str) -> Findings:
        header = ("", "seed", "weights", "updates", "tokens/s", "loss", "BLEU")
        shared = min(row["updates"] for row in rows)
        table = [(*header, "BLEU at equal updates")]
        for row in rows:
            own = curve(curves, row["architecture"], row["seed"], "bleu", x="updates")
            before = [score for updates, score in own if updates <= shared] or [own[0][1]]
            table.append(
                (
                    name_of(row["architecture"]),
                    str(row["seed"]),
                    f"{row['weights']:,}",
                    f"{row['updates']:,}",
                    f"{row['tokens_per_second']:,.0f}",
                    f"{row['loss']:.3f}",
                    f"{row['bleu']:.1f}",
                    f"{before[-1]:.1f}",
                )
            )
        best = max(rows, key=lambda row: float(row["bleu"]))
        fastest = max(rows, key=lambda row: float(row["tokens_per_second"]))
        said = (
            f"In {self.seconds} seconds each, {name_of(best['architecture'])} translates best: "
            f"BLEU {best['bleu']:.1f} on the held-out pairs.",
            f"{name_of(fastest['architecture'])} learns from the most tokens a second on this "
            f"machine, {fastest['tokens_per_second']:,.0f}.",
            f"At equal updates ({shared:,}) the scores are those of the last validation before it; "
            "whoever makes more updates has a learning rate that is still high there.",
            f"{'One seed' if len(self.seeds) == 1 else f'{len(self.seeds)} seeds'} and one machine, "
            "where other work may have taken time from one more than from another: differences of "
            "a few BLEU mean nothing.",
        )
        return Findings(said=said, table=tuple(table), details=told)


def run_of(notebook: Notebook, point: Row) -> Path:
    return notebook.folder / "runs" / f"{point['architecture']}-{point['seed']}"


def results(run: RunFolder) -> dict[str, Any]:
    """What a run that has ended has come to, as its log tells."""
    log = list(run.log.lines())
    steps = [line for line in log if line["kind"] == "step"]
    chosen = next(line for line in reversed(log) if line["kind"] == "chosen")
    last = next(line for line in reversed(log) if line["kind"] == "validation")
    return {
        "weights": run.n_parameters(),
        "updates": steps[-1]["step"],
        "seconds": steps[-1]["seconds"],
        "tokens_per_second": sum(line["tokens"] for line in steps) / steps[-1]["seconds"],
        "loss": last["loss"],
        "bleu": chosen["scores"][chosen["weights"]],
    }


def validations(run: Path) -> Iterator[Row]:
    for line in RunFolder(run).log.lines():
        if line["kind"] == "validation":
            yield {
                "updates": line["step"],
                "seconds": line["seconds"],
                "loss": line["loss"],
                "bleu": line["score"],
            }


def curve(
    curves: list[Row], kind: str, seed: int, measure: str, x: str = "seconds"
) -> list[tuple[float, float]]:
    own = (row for row in curves if (row["architecture"], row["seed"]) == (kind, seed))
    return [(row[x], row[measure]) for row in own]


def examples(notebook: Notebook, points: list[Row]) -> str:
    """The same held-out sentences as each model translates them, as Markdown."""
    lines = ["", "## The same sentences", ""]
    samples: dict[str, list[str]] = {}
    for point in points:
        log = RunFolder(run_of(notebook, point)).log.lines()
        last = [line for line in log if line["kind"] == "validation"][-1]
        for source, answer in last["samples"]:
            kind = name_of(point["architecture"])
            samples.setdefault(source, []).append(f"  - {kind}, seed {point['seed']}: {answer}")
    for source, answers in samples.items():
        lines += [f"- {source}", *answers]
    return "\n".join(lines)
