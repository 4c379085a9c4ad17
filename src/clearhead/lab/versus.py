"""LSTM and GRU beside the Transformer: the same pairs, the same time, about as many weights."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from clearhead.folder import RunFolder
from clearhead.lab.figures import ARCHITECTURES, name_of, plot_lines
from clearhead.lab.notebook import Experiment, Findings, Notebook, Row, points_of
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
        validations = [log_lines(run_of(notebook, point), "validation") for point in points]
        columns = {"updates": "step", "seconds": "seconds", "loss": "loss", "bleu": "score"}
        curves = [
            {**point, **{column: line[name] for column, name in columns.items()}}
            for point, lines in zip(points, validations, strict=True)
            for line in lines
        ]
        notebook.write_rows("curves", curves)
        self.draw(notebook, curves)
        samples = [lines[-1]["samples"] for lines in validations]
        return self.findings(rows, curves, examples(points, samples))

    def train(self, notebook: Notebook, files: Sequence[Path], point: Row) -> dict[str, Any]:
        """Train in the time there is, or go on; what the run has come to."""
        run, kind = run_of(notebook, point), point["architecture"]
        settings: dict[str, Any] = {
            "model": {"architecture": kind},
            "train": {"seed": point["seed"], "film": False},
        }
        for section, name, value in self.settings:
            settings.setdefault(section, {})[name] = value
        asked = request(
            files, run.path, budget=f"{self.seconds}s", size=self.size, settings=settings
        )
        stopped = None
        for report in fit(TranslationTask, asked.given, run.path, notebook.progress):
            if isinstance(report, StepReport):
                notebook.progress(f"{name_of(kind)} learns: step", report.step, report.steps)
            elif isinstance(report, Stopped):
                stopped = report.signal
        if stopped is not None:
            signal.raise_signal(stopped)  # it has waited until the checkpoint was saved
        return results(run)

    def draw(self, notebook: Notebook, curves: list[Row]) -> None:
        with notebook.picture(
            "quality-over-time",
            "Quality on held-out pairs over wall time",
            (11, 4),
        ) as figure:
            units = {"bleu": "BLEU", "loss": "loss (nats per token)"}
            for (measure, unit), axes in zip(units.items(), figure.subplots(1, 2), strict=True):
                axes.set(xlabel="seconds of training", ylabel=unit)
                for seed in self.seeds:
                    lines = {
                        kind: points_of(curves, "seconds", measure, architecture=kind, seed=seed)
                        for kind in ARCHITECTURES
                    }
                    labels = None if seed == self.seeds[0] else dict.fromkeys(lines, "")
                    plot_lines(axes, lines, labels)

    def findings(self, rows: list[Row], curves: list[Row], samples: str) -> Findings:
        header = ("", "seed", "weights", "updates", "tokens/s", "loss", "BLEU")
        shared = min(row["updates"] for row in rows)
        table = [(*header, "BLEU at equal updates")]
        for row in rows:
            model = {"architecture": row["architecture"], "seed": row["seed"]}
            scores = points_of(curves, "updates", "bleu", **model)
            before = [score for updates, score in scores if updates <= shared] or [scores[0][1]]
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
        return Findings(said=said, table=tuple(table), details=samples)


def run_of(notebook: Notebook, point: Row) -> RunFolder:
    return RunFolder(notebook.folder / "runs" / f"{point['architecture']}-{point['seed']}")


def log_lines(run: RunFolder, kind: str) -> list[dict[str, Any]]:
    """The lines of a kind in a run's log."""
    return [line for line in run.log.lines() if line["kind"] == kind]


def results(run: RunFolder) -> dict[str, Any]:
    """What a run that has ended has come to, as its log tells."""
    steps, chosen = log_lines(run, "step"), log_lines(run, "chosen")[-1]
    return {
        "weights": run.n_parameters(),
        "updates": steps[-1]["step"],
        "seconds": steps[-1]["seconds"],
        "tokens_per_second": sum(line["tokens"] for line in steps) / steps[-1]["seconds"],
        "loss": log_lines(run, "validation")[-1]["loss"],
        "bleu": chosen["scores"][chosen["weights"]],
    }


def examples(points: list[Row], samples: Sequence[Sequence[tuple[str, str]]]) -> str:
    """The same held-out sentences as each model translates them, as Markdown."""
    answers: dict[str, list[str]] = {}
    for point, own in zip(points, samples, strict=True):
        model = f"{name_of(point['architecture'])}, seed {point['seed']}"
        for source, answer in own:
            answers.setdefault(source, [f"- {source}"]).append(f"  - {model}: {answer}")
    lines = ["", "## The same sentences", ""]
    return "\n".join(lines + [line for group in answers.values() for line in group])
