"""From people's files to a run folder: what training is for every task."""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from clearhead.config import SECTIONS, Config, Given, Mark, TrainConfig, layered, mark, spelled_out
from clearhead.data.batches import Batches
from clearhead.data.lines import Progress
from clearhead.data.store import Store
from clearhead.errors import ConfigError, DataError, NotFiniteError
from clearhead.folder import RunFolder
from clearhead.machine import device_for, keep_freed_memory
from clearhead.model import build
from clearhead.tasks.card import card
from clearhead.tasks.corpus import Corpus
from clearhead.tasks.defaults import decide
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
from clearhead.train.plan import Plan, measured_speed, parse_budget, planned


def fit(
    task: type[Task], given: Given, into: Path, progress: Progress = lambda *_: None
) -> Iterator[Plan | Report]:
    """Train to the end, or go on where a run in this folder stopped: the plan, then the reports."""
    begin = time.monotonic()
    keep_freed_memory()
    folder = RunFolder(into)
    is_new = not folder.exists()
    decided = decided_for(task.name, given, into) if is_new else {}
    config = Config(**decided) if is_new else continued(folder, given, task.name)
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    device = device_for(config.train.device)
    corpus: Corpus | None = None
    with joined_ranks(device) as ranks, folder.lock() if ranks.first else nullcontext():
        if ranks.first and not folder.exists():
            corpus = create(
                task, decided, into, progress=progress, world=ranks.world, device=device
            )
        ranks.wait()
        config = continued(folder, given, task.name)
        if ranks.first and config != folder.config():
            folder.write_config(config)
        corpus = corpus or Corpus(task, config.data, into, progress)
        made = task(config, folder.tokenizers())
        plan = plan_in(folder, config)
        yield plan
        store = corpus.store(made)
        refuse_other_examples(store, folder)
        torch.manual_seed(config.train.seed)
        model = build(config.model)
        if (base := started_from(config.train.start, into)) and folder.checkpoints.newest() is None:
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


def decided_for(task: str, given: Given, into: Path) -> Given:
    """All that is decided about a new run, also by the one that it begins with."""
    first = decide(task, given)
    base = started_from(TrainConfig(**first.get("train", {})).start, into)
    return decide(task, given, like(base, given)) if base else first


def create(
    task: type[Task],
    decided: Given,
    into: Path,
    *,
    progress: Progress,
    world: int,
    device: torch.device,
) -> Corpus:
    """Make a new run folder: learn the tokenizers and choose all that is not decided."""
    config = Config(**decided)
    if not config.data.files:
        raise ConfigError(
            "There is nothing to learn from: data.files is empty.", "Name the training files."
        )
    base = started_from(config.train.start, into)
    corpus = Corpus(task, config.data, into, progress)
    tokenizers = (
        base.tokenizers()
        if base and not config.train.new_vectors
        else corpus.tokenizers(config.tokenizer)
    )
    config = task.resolve(decided, tokenizers, corpus.examples)
    made = task(config, tokenizers)
    store = corpus.store(made)
    progress("measuring this machine", 0, None)

    def batches(batch_tokens: int) -> Batches[Any]:
        data = config.data.but(batch_tokens=batch_tokens)
        return task(config.but(data=data), tokenizers).batches(store)

    plan = planned(
        config,
        decided,
        n_tokens=made.n_predictions(store),
        n_batches=lambda batch_tokens: len(batches(batch_tokens)),
        speed=lambda model: measured_speed(
            model,
            config.train,
            loss=made.loss,
            batches=batches(config.data.batch_tokens),
            device=device,
        ),
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


def continued(folder: RunFolder, given: Given, task: str) -> Config:
    """The run's settings with those given now; such as would change its updates are refused."""
    stored = folder.config()
    now = Config(**layered(stored.model_dump(), spelled_out(given), {"task": task}))
    for name, before, after in differences(stored, now):
        if not may_change(name, before, after):
            raise ConfigError(
                f"{folder.path} was begun with {name} = {before}, and {after} would make it "
                "another run.",
                "Leave the setting out to go on, or begin anew with another --into.",
            )
    return now


def differences(one: Config, other: Config) -> Iterator[tuple[str, Any, Any]]:
    """The settings in which two configs differ: name and both values."""
    if one.task != other.task:
        yield "task", one.task, other.task
    for section, kind in SECTIONS.items():
        for name in kind.model_fields:
            values = [getattr(getattr(config, section), name) for config in (one, other)]
            if values[0] != values[1]:
                yield f"{section}.{name}", *values


def may_change(name: str, before: Any, after: Any) -> bool:
    """Whether a run may go on with another value: a time may grow; steps and epochs shape a run."""
    if name == "train.budget":
        return all(parse_budget(budget).seconds is not None for budget in (before, after))
    section, _, setting = name.partition(".")
    return section in SECTIONS and mark(section, setting) is Mark.FREE


def plan_in(folder: RunFolder, config: Config) -> Plan:
    """The plan that the folder was made with; one cut short as it was made may have no reasons left."""
    assert config.train.max_steps is not None, "a plan knows how many"
    line: dict[str, Any] = next((line for line in folder.log.lines() if line["kind"] == "plan"), {})
    seconds = (
        parse_budget(config.train.budget).seconds if line.get("seconds", 0) is not None else None
    )
    return Plan(config, config.train.max_steps, seconds, tuple(line.get("reasons", ())))


def refuse_other_examples(store: Store, folder: RunFolder) -> None:
    """A place in the data means nothing in other data; an older store format cannot be compared."""
    store_format = store.fingerprint.partition("-")[0]
    for line in folder.log.lines():
        found = line["examples"] if line["kind"] == "plan" else ""
        if found.startswith(f"{store_format}-") and found != store.fingerprint:
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
