"""From people's files to a run folder: what training is for every task."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from clearhead.config import SECTIONS, Config
from clearhead.data.prepare import prepare
from clearhead.data.store import Store
from clearhead.errors import ConfigError, DataError, NotFiniteError
from clearhead.folder import RunFolder
from clearhead.machine import cache_folder, device_for, keep_freed_memory
from clearhead.model import build
from clearhead.tasks.card import card
from clearhead.tasks.defaults import with_defaults
from clearhead.tasks.inherit import inherit, like, started_from
from clearhead.tasks.looking import Camera
from clearhead.tasks.split import split
from clearhead.tasks.task import Task, Tokenizers
from clearhead.text import Tokenizer
from clearhead.train import (
    Chosen,
    Correction,
    Job,
    Judge,
    Report,
    Validation,
    gathered,
    joined_ranks,
    stop_on_signals,
    train,
)
from clearhead.train.plan import Plan, parse_budget, planned

Progress = Callable[[str, int, int | None], None]
"""Told what is being done, how much of it is done, and how much there is, where that is known."""
MAY_CHANGE = frozenset({
    "budget", "validate_every", "save_every", "keep_checkpoints", "patience", "skip_nonfinite", "film",
})  # fmt: skip
"""Training settings in which a run may differ from the one that it goes on with: they change no update."""


def fit(
    task: type[Task], config: Config, into: Path, progress: Progress = lambda *_: None
) -> Iterator[Plan | Report]:
    """Train to the end, or go on where a run in this folder stopped: first the plan, then the reports."""
    begin = time.monotonic()
    keep_freed_memory()
    folder = RunFolder(into)
    if folder.exists():
        config = continued(folder.config(), config, folder)
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    device = device_for(config.train.device)
    with joined_ranks(device) as ranks, folder.lock() if ranks.first else nullcontext():
        if ranks.first and not folder.exists():
            create(task, config, into, progress, ranks.world)
        ranks.wait()
        stored = RunFolder.open(into).config()
        config = continued(stored, config, folder)
        if ranks.first and config != stored:
            folder.write_config(config)
        corpus = Corpus.of(task, config, folder.path, progress)
        made = task(config, folder.tokenizers())
        plan = plan_in(folder, config)
        yield plan
        store = corpus.train(made)
        refuse_other_examples(store, folder)
        torch.manual_seed(config.train.seed)
        model = build(config.model)
        if (base := started_from(config, folder.path)) and folder.checkpoints.newest() is None:
            inherited = inherit(model, base, made.tokenizers)
            if ranks.first and all(line["kind"] != "inherited" for line in folder.log.lines()):
                folder.log.write(inherited.line())
            yield inherited
        with stop_on_signals() as stop:
            job = Job(
                model=model.to(device),
                batches=made.batches(store),
                loss=made.loss,
                config=config.train,
                steps=plan.steps,
                judge=corpus.judge(made),
                keeper=folder.checkpoints,
                seconds=None if plan.seconds is None else plan.seconds - (time.monotonic() - begin),
                corrections=corrections_in(folder),
                ranks=ranks,
                stop=stop,
            )
            yield from recorded(job, folder, corpus)


@dataclass(frozen=True)
class Corpus:
    """A task's examples, in a part to learn from and a part to judge by."""

    task: type[Task]
    config: Config
    examples: Iterable[Any]
    """All that the training files hold, also what is held out."""
    training: Iterable[Any]
    validation: Iterable[Any]
    progress: Progress

    @classmethod
    def of(cls, task: type[Task], config: Config, folder: Path, progress: Progress) -> "Corpus":
        """The examples in the files that the settings name, seen from the run folder."""
        examples = task.read([Path(os.path.relpath(folder / file)) for file in config.data.files])
        if config.data.validation_files:
            validation = task.read(
                [Path(os.path.relpath(folder / file)) for file in config.data.validation_files]
            )
            return cls(task, config, examples, examples, validation, progress)
        n_examples = sum(1 for _ in told(examples, "reading", None, progress))
        return cls(task, config, examples, *split(examples, n_examples, config.data), progress)

    def tokenizers(self) -> Tokenizers:
        """Learned from the training part: one for all sides, or one for each."""
        if self.config.tokenizer.shared:
            tokenizer = self.learned(slice(None))
            return tokenizer, tokenizer
        return self.learned(slice(0, 1)), self.learned(slice(1, 2))

    def learned(self, sides: slice) -> Tokenizer:
        texts = (text for example in self.training for text in self.task.texts(example)[sides])
        return Tokenizer.learn(
            told(texts, "learning tokens", None, self.progress), self.config.tokenizer
        )

    def train(self, task: Task) -> Store:
        return self.store(self.training, task, self.config.data.max_length)

    def store(self, examples: Iterable[Any], task: Task, max_length: int | None) -> Store:
        return prepare(
            cache_folder(),
            examples,
            task.encoding,
            max_length,
            lambda done, total: self.progress("tokenising", done, total),
        )

    def judge(self, task: Task) -> Judge:
        return task.judge(list(self.validation), self.store(self.validation, task, None))


def create(task: type[Task], config: Config, into: Path, progress: Progress, world: int) -> None:
    """Make a new run folder: learn the tokenizers and choose all that the settings leave open."""
    if not config.data.files:
        raise ConfigError(
            "There is nothing to learn from: data.files is empty.", "Name the training files."
        )
    base = started_from(config, into)
    config = with_defaults((like(base, config) if base else config).but(task=task.name))
    corpus = Corpus.of(task, config, into, progress)
    tokenizers = base.tokenizers() if base and not config.train.new_vectors else corpus.tokenizers()
    config = task.resolve(config, tokenizers, corpus.examples)
    made = task(config, tokenizers)
    store = replace(corpus, config=config).train(made)
    progress("measuring this machine", 0, None)
    plan = planned(
        config,
        parse_budget(config.train.budget),
        n_tokens=made.n_predictions(store),
        loss=made.loss,
        batches=lambda size: task(
            config.but(data=config.data.but(batch_tokens=size)), tokenizers
        ).batches(store),
        world=world,
    )
    source, target = tokenizers
    folder = RunFolder.create(into, plan.config, target, None if source is target else source)
    folder.log.write(
        {
            "kind": "plan",
            "reasons": plan.reasons,
            "seconds": plan.seconds,
            "examples": store.fingerprint,
        }
    )


def continued(stored: Config, given: Config, folder: RunFolder) -> Config:
    """The run's own settings, with those changes that leave the updates as they are; others are refused."""
    changes: dict[str, Any] = {}
    for section in SECTIONS:
        for name in getattr(given, section).model_fields_set:
            before, now = (
                getattr(getattr(stored, section), name),
                getattr(getattr(given, section), name),
            )
            if before == now or section == "decode":
                continue
            if (
                section != "train"
                or name not in MAY_CHANGE
                or (name == "budget" and not are_times(before, now))
            ):
                raise ConfigError(
                    f"{folder.path} was begun with {section}.{name} = {before}, and {now} would make it another run.",
                    "Leave the setting out to go on, or begin anew with another --into.",
                )
            changes[name] = now
    return stored.but(train=stored.train.but(**changes)) if changes else stored


def are_times(*budgets: str) -> bool:
    """Whether these are times, of which a run may have more or less; steps and epochs shape it from the beginning."""
    return all(parse_budget(budget).seconds is not None for budget in budgets)


def plan_in(folder: RunFolder, config: Config) -> Plan:
    """The plan that the folder was made with; one cut short as it was made may have no reasons left."""
    assert config.train.max_steps is not None, "a plan knows how many"
    line: dict[str, Any] = next((line for line in folder.log.lines() if line["kind"] == "plan"), {})
    seconds = (
        parse_budget(config.train.budget).seconds if line.get("seconds", 0) is not None else None
    )
    return Plan(config, config.train.max_steps, seconds, tuple(line.get("reasons", ())))


def refuse_other_examples(store: Store, folder: RunFolder) -> None:
    """A place in the data means nothing in other data."""
    for line in folder.log.lines():
        if line["kind"] == "plan" and line["examples"] != store.fingerprint:
            raise DataError(
                f"The training examples are not those that {folder.path} was begun with.",
                "Put the files back as they were, or begin anew with another --into.",
            )


def corrections_in(folder: RunFolder) -> tuple[Correction, ...]:
    """The corrections that the log knows, also those after the newest checkpoint."""
    lines = [line for line in folder.log.lines() if line["kind"] == "correction"]
    return tuple(Correction(line["step"], line["progress"], line["steps"]) for line in lines)


def recorded(job: Job, folder: RunFolder, corpus: Corpus) -> Iterator[Report]:
    """The reports of the training, each written to the log; at the end, the weights to use and the card."""
    newest = job.keeper.newest()
    job.ranks.wait()  # until all have read the log
    if job.ranks.first:
        step = newest.step if newest else 0
        folder.log.cut(step)
        for correction in job.corrections:
            if correction.step > step:  # a second interruption must not lose it
                folder.log.write(correction.line())
    camera = Camera(job, folder, newest.step if newest else 0)
    try:
        for report in train(job):
            if isinstance(report, Validation):
                camera.shoot(report)
            weights = gathered(job.model.state_dict()) if isinstance(report, Chosen) else {}
            if job.ranks.first:
                if report not in job.corrections:
                    folder.log.write(report.line())
                if isinstance(report, Chosen):
                    folder.write_weights(weights)
                    if job.judge.calibrated is not None:
                        folder.write_config(job.judge.calibrated(job.model.eval(), corpus.config))
                    folder.write_card(card(folder, corpus.config, report))
            yield report
    except NotFiniteError as error:
        if job.ranks.first:
            folder.log.write({"kind": "notfinite", "text": error.whole})
        raise


def told(items: Iterable[Any], what: str, total: int | None, progress: Progress) -> Iterator[Any]:
    """The items as they are, while progress is told of them."""
    for number, item in enumerate(items):
        if number % 1_000 == 0:
            progress(what, number, total)
        yield item
