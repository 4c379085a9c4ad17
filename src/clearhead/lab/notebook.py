"""A lab notebook: a folder with the measured points (CSV), pictures of them, and a report.

Each point is on the disk before the next is measured, so an interrupted experiment goes on where it
stopped. A folder belongs to one experiment, with one set of sizes, files, and one machine: what was
measured otherwise is not mixed with it.
"""

import csv
import io
import json
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from clearhead.data.lines import Progress
from clearhead.disk import locked, make_folder, read_inside, sweep, write_atomically
from clearhead.errors import ConfigError, FolderError
from clearhead.lab.figures import figure_with_files, require_matplotlib
from clearhead.machine import n_processors, processor
from clearhead.tasks.runs import described_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]
"""A measured point: what was set, then what was found; numbers or words by their names."""
SETUP = "setup.json"
LARGEST = 2**26
"""Bytes of a file of points; beyond, it is none of ours."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What an experiment has shown; `str()` is what a terminal shows."""

    said: tuple[str, ...]
    """In plain words, also where a claim did not hold."""
    table: tuple[tuple[str, ...], ...]
    """Rows of cells, the first being the names of the columns."""
    details: str = ""
    """More Markdown for the report alone."""

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self.table, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in self.table
        ]
        return "\n".join([*lines, "", *self.said])

    def markdown(self) -> str:
        head, *rows = [f"| {' | '.join(row)} |" for row in self.table]
        table = [head, "|" + "---|" * len(self.table[0]), *rows]
        return "\n".join([*(f"- {sentence}" for sentence in self.said), "", *table, self.details])


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """A question to the architecture; its fields are the sizes that it is asked at."""

    title: ClassVar[str]
    takes: ClassVar[str] = ""
    """The files that it needs, as the command line names them."""
    n_files: ClassVar[range] = range(1)
    quick: ClassVar[Mapping[str, Any]]
    """Sizes for an answer in three minutes, where they differ."""

    @abstractmethod
    def run(self, notebook: "Notebook", files: Sequence[Path]) -> Findings:
        """Measure what the notebook does not hold yet, draw all, and say what was found."""


class Notebook:
    """The folder of one experiment, while it is being made."""

    def __init__(self, folder: Path, progress: Progress = lambda *_: None) -> None:
        self.folder, self.progress = folder, progress
        self.pictures: dict[str, str] = {}
        """What each picture shows, by its name."""

    def measured(
        self, name: str, points: Sequence[Row], measure: Callable[[Row], Mapping[str, Any]]
    ) -> list[Row]:
        """The points of a table, each measured once: those in its CSV file are taken from there."""
        known = {identity(row, points[0]): row for row in self.rows(name)}
        for number, point in enumerate(points):
            self.progress(name, number, len(points))
            if identity(point, point) not in known:
                known[identity(point, point)] = {**point, **measure(point)}
                self.write_rows(name, list(known.values()))
        return [known[identity(point, point)] for point in points]

    def rows(self, name: str) -> list[Row]:
        if not (self.folder / f"{name}.csv").exists():
            return []
        text = read_inside(self.folder, f"{name}.csv", LARGEST).decode()
        return [
            {column: value_of_cell(cell) for column, cell in row.items()}
            for row in csv.DictReader(io.StringIO(text))
        ]

    def write_rows(self, name: str, rows: Sequence[Row]) -> None:
        """Write a table as CSV, atomically."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        self.write(f"{name}.csv", text.getvalue().encode())

    def write(self, name: str, content: bytes) -> None:
        write_atomically(self.folder / name, content)

    @contextmanager
    def picture(self, name: str, shows: str, size: tuple[float, float]) -> Iterator["Figure"]:
        """A figure to draw on; at the end of the block it is written as SVG and as PNG."""
        self.progress(f"drawing {name}", 0, None)
        with figure_with_files(size) as (figure, files):
            yield figure
        for suffix, content in files.items():
            self.write(f"{name}.{suffix}", content)
        self.pictures[name] = shows


def points_of(rows: Sequence[Row], x: str, y: str, **where: Any) -> list[tuple[float, float]]:
    """Two columns of a table as the points of a line, of the rows that have the values `where`."""
    return [(row[x], row[y]) for row in rows if where.items() <= row.items()]


def identity(row: Row, point: Row) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in point)


def value_of_cell(cell: str) -> Any:
    """A cell as a number, if it is one."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(cell)
    return cell


def perform(
    experiment: Experiment,
    files: Sequence[str | Path],
    into: str | Path,
    progress: Progress = lambda *_: None,
) -> Findings:
    """Do an experiment, or the rest of one, in a folder; the report is written last."""
    require_matplotlib()
    name = type(experiment).__name__.lower()
    if len(files) not in experiment.n_files:
        needs = f"takes {experiment.takes or 'no files'}"
        raise ConfigError(
            f"The experiment {name} {needs}, and was given {len(files)} paths.",
            f"For example: clearhead lab {name} {experiment.takes}".rstrip() + " --into lab",
        )
    paths, folder = [Path(file) for file in files], Path(into)
    make_folder(folder)
    sweep(folder)
    with locked(folder / "lock"):
        notebook = Notebook(folder, progress)
        setup = setup_of(experiment, name, paths)
        claim(notebook, setup)
        findings = experiment.run(notebook, paths)
        report = report_of(experiment.title, notebook, setup, findings=findings)
        notebook.write("report.md", report.encode())
    return findings


def setup_of(experiment: Experiment, name: str, files: Sequence[Path]) -> dict[str, Any]:
    """All that must be the same for points to stand in one table, as it is read back from JSON."""
    cores = "1 core" if n_processors() == 1 else f"{n_processors()} cores"
    setup = {
        "experiment": name,
        "sizes": asdict(experiment),
        "files": [described_file(path) for path in files],
        "machine": f"{processor()}, {cores}, {platform.system()}",
        "torch": str(torch.__version__),
    }
    return dict(json.loads(json.dumps(setup)))


def claim(notebook: Notebook, setup: Mapping[str, Any]) -> None:
    """Write what the folder is for, or refuse one that is for something else."""
    if (notebook.folder / SETUP).exists():
        try:
            found = json.loads(read_inside(notebook.folder, SETUP, LARGEST))
        except ValueError:
            found = None
        held = found if isinstance(found, dict) else {}
        if other := ", ".join(name for name in setup if held.get(name) != setup[name]):
            raise FolderError(
                f"{notebook.folder} was begun with another {other}, and would mix two experiments.",
                "Choose another folder with --into, or go on with what it was begun with.",
            )
    elif any(notebook.folder.glob("*.csv")):
        raise FolderError(
            f"{notebook.folder} holds tables that no experiment has written.",
            "Choose another folder with --into.",
        )
    else:
        notebook.write(SETUP, json.dumps(setup, indent=2).encode())


def report_of(
    title: str, notebook: Notebook, setup: Mapping[str, Any], *, findings: Findings
) -> str:
    """What was found, on what, with the pictures: a page of Markdown."""
    sizes = ", ".join(f"{name} {value}" for name, value in setup["sizes"].items())
    tables = ", ".join(f"`{path.name}`" for path in sorted(notebook.folder.glob("*.csv")))
    parts = [
        f"# {title}",
        "",
        f"Measured on {setup['machine']}, torch {setup['torch']}. Sizes: {sizes}.",
        *(f"File: {file}." for file in setup["files"]),
        "",
        findings.markdown(),
        "",
        *(f"![{shows}]({name}.svg)\n\n{shows}\n" for name, shows in notebook.pictures.items()),
        f"The numbers are in {tables}.",
        "",
    ]
    return "\n".join(parts)
