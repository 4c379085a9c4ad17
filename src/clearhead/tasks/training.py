"""Training as people ask for it, in words or from Python: files in, a model ready to use out."""

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clearhead.config import Config, DataConfig, Given, layered, read_given
from clearhead.errors import ConfigError, shown
from clearhead.folder import RunFolder
from clearhead.tasks.fit import fit
from clearhead.tasks.pretraining import OBJECTIVES
from clearhead.tasks.runs import TASKS, load
from clearhead.tasks.task import User
from clearhead.training import Report, Stopped
from clearhead.training.plan import Plan


class TrainingRequest(NamedTuple):
    """What is to be trained: the name of its task, the settings given, the run folder."""

    task: str
    given: Given
    into: Path


def request(
    files: Sequence[str | Path],
    into: str | Path | None,
    *,
    task: str | None = None,
    objective: str | None = None,
    validation: Sequence[str | Path] = (),
    columns: Sequence[str] = (),
    budget: str | None = None,
    size: str | None = None,
    start: str | Path | None = None,
    settings: Given | None = None,
) -> TrainingRequest:
    """What people ask for in their own words, as settings.

    In place of files there may be a run to go on with, or a TOML file of settings. The task is the
    one that is given, or the run's, or the file's; with an `objective` it is pre-training.
    """
    given: Given = {}
    origin, first = Path(), str(files[0]) if len(files) == 1 else ""
    if first and into is None and RunFolder(first).exists():
        files, into = (), first
    elif first.endswith(".toml"):
        given, origin, files = read_given(Path(first)), Path(first).parent, ()
    if into is None:
        raise ConfigError(
            "There is no folder to train into.", "Give one, for example: --into runs/my-model"
        )
    if "" in (*map(str, files), *map(str, validation), str(into), str(start)):
        raise ConfigError("A file or folder has no name.", "Name each, or leave it out.")
    data = DataConfig(**layered(given).get("data", {}))
    training = files or [origin / file for file in data.files]
    validation = validation or [origin / file for file in data.validation_files]
    said = {
        "size": size or None,
        "data": {
            "files": [os.path.relpath(path, into) for path in training],
            "validation_files": [os.path.relpath(path, into) for path in validation],
            "columns": list(columns),
        },
        "train": {"budget": budget, "start": os.path.relpath(start, into) if start else None},
    }
    given, run = layered(given, what_is_given(said), settings or {}), RunFolder(into)
    if objective:
        task, family = "pretraining", family_for(objective)
        given = given if run.exists() else layered(given, {"model": {"family": family}})
    asked: Given = {"task": task or given.get("task", "translation")}
    known = Config(**asked) if task or not run.exists() else run.config()
    return TrainingRequest(known.task, given, run.path)


def what_is_given(values: Given) -> Given:
    """The settings without those that are left open, which are None or empty lists."""
    return {
        name: what_is_given(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if value not in (None, [])
    }


def family_for(objective: str) -> str:
    """The family of models that is pre-trained with an objective."""
    if objective not in OBJECTIVES:
        raise ConfigError(
            f"objective = {shown(objective)} is not known.", f"There are: {', '.join(OBJECTIVES)}."
        )
    return OBJECTIVES[objective]


def train(
    *files: str | Path,
    into: str | Path | None = None,
    task: str | None = None,
    validation: Sequence[str | Path] = (),
    columns: Sequence[str] = (),
    budget: str | None = None,
    size: str | None = None,
    start: str | Path | None = None,
    settings: Given | None = None,
) -> User:
    """Train a model, or resume a run that was interrupted, and load it.

    `task` is "translation" (the default), "chat", "classification" or "writing"; `budget` a time
    ("45m"), steps ("8000 steps") or epochs ("20 epochs"); `start` a run to fine-tune; `settings`
    any others by section: {"train": {"seed": 7}}. A single file may be a run or a config.toml.
    Nothing is printed: `watch` takes the same arguments and yields the reports.
    """
    asked = request(
        files,
        into,
        task=task,
        validation=validation,
        columns=columns,
        budget=budget,
        size=size,
        start=start,
        settings=settings,
    )
    end(reports(asked))
    return load(asked.into)


def pretrain(
    *files: str | Path,
    into: str | Path | None = None,
    objective: str = "masked",
    validation: Sequence[str | Path] = (),
    columns: Sequence[str] = (),
    budget: str | None = None,
    size: str | None = None,
    start: str | Path | None = None,
    settings: Given | None = None,
) -> User | None:
    """Pre-train on plain text, for `train` to fine-tune with `start`.

    The objective is to predict "masked" tokens (the answer is a Filler), the "next" token (a
    Writer), or removed spans ("denoise": None, as such a model has no use of its own).
    """
    asked = request(
        files,
        into,
        objective=objective,
        validation=validation,
        columns=columns,
        budget=budget,
        size=size,
        start=start,
        settings=settings,
    )
    end(reports(asked))
    writes_alone = RunFolder(asked.into).config().model.family != "encoder-decoder"
    return load(asked.into) if writes_alone else None


def watch(
    *files: str | Path, into: str | Path | None = None, **asked: Any
) -> Iterator[Plan | Report]:
    """Train as `train` does with the same arguments, and yield the plan and then every report.

    With an `objective` it pre-trains. A loop that is left stops the training, which can be resumed
    from its newest checkpoint; when the loop has ended, `load` the run.
    """
    return reports(request(files, into, **asked))


def reports(asked: TrainingRequest) -> Iterator[Plan | Report]:
    return fit(TASKS[asked.task], asked.given, asked.into)


def end(training: Iterator[Plan | Report]) -> None:
    """Train to the end; a signal that stopped it cleanly is then raised again."""
    for report in training:
        last = report
    if isinstance(last, Stopped) and last.signal is not None:
        signal.raise_signal(last.signal)
