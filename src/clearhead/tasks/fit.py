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
from clearhead.data.store import STORE_FORMAT, Store
from clearhead.errors import ConfigError, DataError, NotFiniteError
from clearhead.folder import RunFolder, RunPlan
from clearhead.machine import device_for, keep_freed_memory
from clearhead.model import build
from clearhead.tasks.card import card
from clearhead.tasks.corpus import Corpus
from clearhead.tasks.defaults import decide
from clearhead.tasks.inherit import inherit, like, started_from
from clearhead.tasks.looking import Camera
from clearhead.tasks.task import Task, with_vocabularies
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
    with joined_ranks(device) as ranks, folder.lock() if ranks.first else nullcontext():
        # What is not in the folder yet is chosen by the first process; then all go on from there.
        corpus = Corpus(task, config.data, into, progress)
        if ranks.first and not folder.exists():
            create(corpus, decided, folder, world=ranks.world, device=device)
        ranks.wait()
        config, plan = continued(folder, given, task.name), folder.plan()
        if ranks.first and config != folder.config():
            folder.write_config(config)
        made = task(config, folder.tokenizers())
        refuse_other_examples(plan, corpus.fingerprint(made), folder)
        seconds = None if plan.seconds is None else parse_budget(config.train.budget).seconds
        yield Plan(config, plan.steps, seconds, plan.reasons)
        corpus.split()
        store = corpus.store(made)
        judge, validation = corpus.judge(made)
        torch.manual_seed(config.train.seed)
        model = build(config.model)
        if (base := started_from(config.train.start, into)) and folder.checkpoints.newest() is None:
            inherited = inherit(model, base, made.tokenizers)
            plan = plan.model_copy(update={"inherited": inherited.record()})
            yield inherited
        with stop_on_signals() as stop:
            job = Job(
                model=model.to(device),
                batches=made.batches(store),
                loss=made.loss,
                config=config.train,
                steps=plan.steps,
                judge=judge,
                keeper=folder.checkpoints,
                seconds=None if seconds is None else seconds - (time.monotonic() - begin),
                corrections=tuple(Correction(*each) for each in plan.corrections),
                ranks=ranks,
                stop=stop,
            )
            notes = about(store, validation)
            yield from recorded(job, folder, config=config, plan=plan, notes=notes)


def decided_for(task: str, given: Given, into: Path) -> Given:
    """All that is decided about a new run, also by the one that it begins with."""
    first = decide(task, given)
    base = started_from(TrainConfig(**first.get("train", {})).start, into)
    return decide(task, given, like(base, given)) if base else first


def create(
    corpus: Corpus, decided: Given, folder: RunFolder, *, world: int, device: torch.device
) -> None:
    """Make a new run folder: learn the tokenizers and choose all that is not decided."""
    task, config = corpus.task, corpus.resolve(decided)
    base = started_from(config.train.start, folder.path)
    tokenizers = (
        base.tokenizers()
        if base and not config.train.new_vectors
        else corpus.tokenizers(config.tokenizer)
    )
    config = with_vocabularies(config, tokenizers)
    made = task(config, tokenizers)
    store = corpus.store(made)
    corpus.progress("measuring this machine", 0, None)

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
    RunFolder.create(
        folder.path,
        plan.config,
        target,
        None if source is target else source,
        plan=RunPlan(
            steps=plan.steps,
            seconds=plan.seconds,
            reasons=plan.reasons,
            n_examples=store.n_read,
            examples=store.fingerprint,
        ),
    )


def about(training: Store, validation: Store) -> list[Note]:
    """What was left out of the examples, or put right in them, for people."""
    left_out = {"": training.left_out(), "Validation: ": validation.left_out()}
    told = [f"{part}{sentence}" for part, sentence in left_out.items() if sentence]
    return [Note(0, text) for text in (*told, *training.notes)]


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


def refuse_other_examples(plan: RunPlan, fingerprint: str, folder: RunFolder) -> None:
    """A place in the data means nothing in other data; earlier versions named them otherwise."""
    is_known = plan.examples.startswith(f"{STORE_FORMAT}-")
    if is_known and plan.examples != fingerprint:
        raise DataError(
            f"The training examples are not those that {folder.path} was begun with.",
            "Put the files back as they were, or begin anew with another --into.",
        )


def recorded(
    job: Job, folder: RunFolder, *, config: Config, plan: RunPlan, notes: list[Note]
) -> Iterator[Report]:
    """The reports of the training, each written to the log; at the end, the weights and the
    card."""
    newest = job.keeper.newest()
    step = newest.step if newest else 0
    job.ranks.wait()  # until all have read the plan
    if job.ranks.first:
        folder.log.cut(step)
        if plan != folder.plan():
            folder.write_plan(plan)
        logged = list(folder.log.lines())
        for note in notes:
            if note.line() not in logged:
                folder.log.write(note.line())
    yield from notes
    camera = Camera(job, folder, step)
    try:
        for report in train(job):
            if isinstance(report, Validation):
                camera.shoot(report)
            weights = gathered(job.model.state_dict()) if isinstance(report, Chosen) else {}
            if job.ranks.first:
                is_known = isinstance(report, Correction) and report in job.corrections
                if isinstance(report, Correction) and not is_known:
                    made = (report.step, report.progress, report.steps)
                    plan = plan.model_copy(update={"corrections": (*plan.corrections, made)})
                    folder.write_plan(plan)
                if not (is_known and report.step <= step):
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
