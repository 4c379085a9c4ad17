"""From people's files to a run folder: what training is for every task."""

import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from clearhead import __version__
from clearhead.config import SECTIONS, Config, Given, Mark, TrainConfig, layered, mark, spelled_out
from clearhead.data.batches import Batches
from clearhead.data.lines import Progress
from clearhead.data.store import STORE_FORMAT, Store
from clearhead.disk import sha256_of
from clearhead.errors import ConfigError, DataError, NotFiniteError
from clearhead.folder import Inheritance, RunFolder, RunPlan
from clearhead.look.film import frame
from clearhead.machine import device_for, keep_freed_memory
from clearhead.model import build
from clearhead.tasks.corpus import Corpus
from clearhead.tasks.inherit import Inherited, inherit, like, started_from
from clearhead.tasks.looking import probes
from clearhead.tasks.task import Task, decide, with_vocabularies
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
        # a place in the data means nothing in other data; earlier versions named them otherwise
        is_named = plan.examples.startswith(f"{STORE_FORMAT}-")
        if is_named and plan.examples != corpus.fingerprint(made):
            raise DataError(
                f"The training examples are not those that {folder.path} was begun with.",
                "Put the files back as they were, or begin anew with another --into.",
            )
        seconds = None if plan.seconds is None else parse_budget(config.train.budget).seconds
        yield Plan(config, plan.steps, seconds, plan.reasons)
        corpus.split()
        store = corpus.store(made)
        judge, validation = corpus.judge(made)
        torch.manual_seed(config.train.seed)
        model = build(config.model)
        if (base := started_from(config.train.start, into)) and folder.checkpoints.newest() is None:
            inherited = inherit(model, base, made.tokenizers)
            plan = plan.model_copy(update={"inherited": inherited})
            yield Inherited(0, inherited)
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
            yield from recorded(job, folder, config, plan, notes=about(store, validation))


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


def recorded(
    job: Job, folder: RunFolder, config: Config, plan: RunPlan, *, notes: list[Note]
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
    if filmed := probes(job):
        folder.film.cut(step)
    try:
        for report in train(job):
            if isinstance(report, Validation) and filmed:
                folder.film.write(frame(job.model, filmed, report.step, report.loss))
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


def card(folder: RunFolder, config: Config, chosen: Chosen) -> str:
    """Markdown; what is not known is not said."""
    log = list(folder.log.lines())
    last = {line["kind"]: line for line in log}
    model, data = config.model, config.data
    layers = {
        "encoder": f"{model.n_encoder_layers}",
        "decoder": f"{model.n_decoder_layers}",
        "encoder-decoder": f"{model.n_encoder_layers} + {model.n_decoder_layers}",
    }[model.family]
    held_out = f"- {data.validation_share:.0%} of the examples, held out"
    lines = [
        f"# {folder.path.name}",
        "",
        f"A {config.task} model made with clearhead {__version__}: {model.family}, "
        f"{layers} layers, width {model.d_model}, {model.n_heads} heads, {model.vocab_size:,} tokens.",
        "",
        "## Trained on",
        *(f"- {described_file(folder.path / file)}" for file in data.files),
        *(f"- {line['text']}" for line in log if line["kind"] == "note" and not line["step"]),
        *history(folder.plan().inherited, last.get("step")),
        "",
        "## Validated on",
        *(f"- {described_file(folder.path / file)}" for file in data.validation_files),
        *([] if data.validation_files else [held_out]),
        *reached(last.get("validation"), chosen),
        f"- in use: {chosen.weights}",
        "",
    ]
    return "\n".join(lines)


def history(other: Inheritance | None, step: dict[str, Any] | None) -> Iterable[str]:
    """What the run began with, and what it took."""
    if other:
        yield (
            f"- begun with {Path(other.run).name}: {len(other.taken)} of its weights taken, "
            f"{len(other.left)} left, {len(other.new)} new"
        )
    if step:
        minutes = f"{step['seconds'] / 60:.1f} minutes"
        yield f"- {step['step']:,} updates, {step['epoch']:.1f} passes, {minutes}"


def reached(validation: dict[str, Any] | None, chosen: Chosen) -> Iterable[str]:
    """The last validation, and the candidates' scores: minus the loss if there are no others."""
    if validation:
        loss, perplexity = validation["loss"], validation["perplexity"]
        yield f"- loss {loss:.4f}, perplexity {perplexity:.2f} after the last update"
        for name, score in chosen.scores.items():
            measured = f"{validation['score_name']} {score:.2f}"
            yield f"- {name}: {f'loss {-score:.4f}' if validation['score'] is None else measured}"


def described_file(path: Path) -> str:
    """A file by its name, size and hash; not by its place, which is nobody's business."""
    if not path.is_file():
        return path.name
    return f"{path.name}: {path.stat().st_size:,} bytes, SHA-256 {sha256_of(path)}"
