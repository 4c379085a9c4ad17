"""From people's files to a run folder: what training is for every task."""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from clearhead.config import SECTIONS, Config
from clearhead.data.lines import Progress
from clearhead.data.store import Store
from clearhead.errors import ConfigError, DataError, NotFiniteError
from clearhead.folder import RunFolder
from clearhead.machine import device_for, keep_freed_memory
from clearhead.model import build
from clearhead.tasks.card import card
from clearhead.tasks.corpus import Corpus
from clearhead.tasks.defaults import with_defaults
from clearhead.tasks.inherit import inherit, like, started_from
from clearhead.tasks.looking import Camera
from clearhead.tasks.task import Task
from clearhead.train import (
    Chosen,
    Correction,
    Job,
    Note,
    Report,
    Validation,
    gathered,
    joined_ranks,
    stop_on_signals,
    train,
)
from clearhead.train.plan import Plan, parse_budget, planned

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
    corpus: Corpus | None = None
    with joined_ranks(device) as ranks, folder.lock() if ranks.first else nullcontext():
        if ranks.first and not folder.exists():
            corpus = create(task, config, into, progress, ranks.world)
        ranks.wait()
        stored = RunFolder.open(into).config()
        config = continued(stored, config, folder)
        if ranks.first and config != stored:
            folder.write_config(config)
        corpus = corpus or Corpus(task, config.data, into, progress)
        made = task(config, folder.tokenizers())
        plan = plan_in(folder, config)
        yield plan
        store = corpus.store(made)
        refuse_other_examples(store, folder)
        torch.manual_seed(config.train.seed)
        model = build(config.model)
        if (base := started_from(config, folder.path)) and folder.checkpoints.newest() is None:
            inherited = inherit(model, base, made.tokenizers)
            if ranks.first and all(line["kind"] != "inherited" for line in folder.log.lines()):
                folder.log.write(inherited.line())
            yield inherited
        judge, validation = corpus.judge(made)
        for text in notes(store, validation):
            note = Note(0, text)
            if ranks.first and folder.checkpoints.newest() is None:
                folder.log.write(note.line())
            yield note
        with stop_on_signals() as stop:
            job = Job(
                model=model.to(device),
                batches=made.batches(store),
                loss=made.loss,
                config=config.train,
                steps=plan.steps,
                judge=judge,
                keeper=folder.checkpoints,
                seconds=None if plan.seconds is None else plan.seconds - (time.monotonic() - begin),
                corrections=corrections_in(folder),
                ranks=ranks,
                stop=stop,
            )
            yield from recorded(job, folder, config)


def create(task: type[Task], config: Config, into: Path, progress: Progress, world: int) -> Corpus:
    """Make a new run folder: learn the tokenizers and choose all that the settings leave open."""
    if not config.data.files:
        raise ConfigError(
            "There is nothing to learn from: data.files is empty.", "Name the training files."
        )
    base = started_from(config, into)
    config = with_defaults((like(base, config) if base else config).but(task=task.name))
    corpus = Corpus(task, config.data, into, progress)
    tokenizers = (
        base.tokenizers()
        if base and not config.train.new_vectors
        else corpus.tokenizers(config.tokenizer)
    )
    config = task.resolve(config, tokenizers, corpus.examples)
    made = task(config, tokenizers)
    store = corpus.store(made)
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
    return corpus


def notes(training: Store, validation: Store) -> list[str]:
    """What was left out or put right, for people."""
    left_out = validation.left_out()
    return [
        *filter(None, [training.left_out()]),
        *([f"Of the validation examples, {left_out}"] if left_out else []),
        *training.notes,
    ]


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


def recorded(job: Job, folder: RunFolder, config: Config) -> Iterator[Report]:
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
                        folder.write_config(job.judge.calibrated(job.model.eval(), config))
                    folder.write_card(card(folder, config, report))
            yield report
    except NotFiniteError as error:
        if job.ranks.first:
            folder.log.write({"kind": "notfinite", "text": error.whole})
        raise
