"""Training from Python: files in, a model ready to use out, or its reports one by one."""

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clearhead.config import Given
from clearhead.folder import RunFolder
from clearhead.tasks.fit import TrainingRequest, fit, request
from clearhead.tasks.runs import TASKS, load
from clearhead.tasks.task import User
from clearhead.training import Report, Stopped
from clearhead.training.plan import Plan


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
        task="pretraining",
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
    if "objective" in asked:
        asked["task"] = "pretraining"
    return reports(request(files, into, **asked))


def reports(asked: TrainingRequest) -> Iterator[Plan | Report]:
    return fit(TASKS[asked.task], asked.given, asked.into)


def end(training: Iterator[Plan | Report]) -> None:
    """Train to the end; a signal that stops it cleanly then does what it would have done."""
    for report in training:
        last = report
    if isinstance(last, Stopped) and last.signal is not None:
        signal.raise_signal(last.signal)
