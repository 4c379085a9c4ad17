"""From people's files to a run folder: what training is for every task.

Fine-tuning is training that begins with another run: its tokenizer, its shape, and its weights that
fit by name.
"""

import json
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from clearhead.config import (
    SECTIONS,
    Config,
    Given,
    Mark,
    TrainConfig,
    layered,
    mark,
    spelled_out,
)
from clearhead.data.batches import Batches
from clearhead.data.lines import Progress
from clearhead.data.store import STORE_FORMAT, Store
from clearhead.disk import seen_from_here
from clearhead.errors import ConfigError, DataError, FolderError, NotFiniteError, shown
from clearhead.folder import Inheritance, RunFolder, RunPlan
from clearhead.folder.run import LOCK, least_bytes
from clearhead.look.film import frame
from clearhead.machine import device_for, free_memory, keep_freed_memory
from clearhead.model import Model, build
from clearhead.tasks.corpus import Corpus
from clearhead.tasks.looking import probes
from clearhead.tasks.runs import ended_run, use_weights
from clearhead.tasks.task import Task, Tokenizers, decide, with_vocabularies
from clearhead.training import (
    Chosen,
    Correction,
    Job,
    Note,
    Ranks,
    Report,
    ThreadChange,
    Validation,
    gathered,
    joined_ranks,
    stop_on_signals,
    train,
)
from clearhead.training.plan import Budget, Plan, measured_speed, parse_budget, planned

COPIES = 4
"""Numbers in memory for each weight in training: itself, its gradient and two moments."""
FEW_BATCHES = 64
"""So many batches may be accumulated for one update, even if there are fewer in all examples."""
SENT_AT_ONCE = 1 << 24
"""Bytes of a file that are sent to another host at a time."""
PER_TOKEN = {"tokens.weight", "source_tokens.weight", "head.tokens.weight", "head.bias"}


def fit(
    task: type[Task], given: Given, into: Path, progress: Progress = lambda *_: None
) -> Iterator[Plan | Report]:
    """Train to the end, or go on where a run in this folder stopped: the plan, then the reports."""
    begin = time.monotonic()
    keep_freed_memory()
    folder = RunFolder(into)
    decided = {} if folder.exists() else decided_for(task.name, given, into)
    config = Config(**decided) if decided else continued(folder, given, task.name)
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    device = device_for(config.train.device)
    with joined_ranks(device) as ranks, folder.lock() if ranks.first else nullcontext():
        # What is not in the folder yet is chosen by the first process; then all go on from there.
        corpus = Corpus(task, config.data, into, progress)
        if ranks.first and not folder.exists():
            create(corpus, decided, folder, world=ranks.world, device=device)
        elif ranks.first:
            extend(folder, config)
        ranks.wait()
        with seen_by_all(folder, ranks) as (folder, share):
            config = continued(folder, given, task.name)
            if ranks.first and config != folder.config():
                folder.write_config(config)
            if has_ended(folder):
                yield Note(0, told_to_train_on(folder))
                return
            yield from go_on(
                corpus, folder, config, ranks=ranks, share=share, device=device, begin=begin
            )


@contextmanager
def seen_by_all(folder: RunFolder, ranks: Ranks) -> Iterator[tuple[RunFolder, Callable[[], None]]]:
    """The run as this process can read it, and what all must call to see newer files of it.

    On hosts that share no disk, the first process sends its run folder to the others, which keep it
    in a temporary folder; only the first one writes to the run.
    """
    if ranks.world == 1 or is_shared(folder, ranks):
        yield folder, lambda: None
        return
    with tempfile.TemporaryDirectory(prefix="clearhead-") as place:
        copy = folder if ranks.first else RunFolder(Path(place) / folder.path.name)

        def send() -> None:
            send_files(folder, copy.path, ranks)

        send()
        yield copy, send


def is_shared(folder: RunFolder, ranks: Ranks) -> bool:
    """Whether all processes see the lock that the first one holds."""
    path = folder.path / LOCK
    here = path.read_bytes() if path.exists() else b""
    n_without = torch.tensor(float(here != ranks.bytes_from_first(here)), device=ranks.device)
    return not ranks.add_up(n_without)


def send_files(folder: RunFolder, copy: Path, ranks: Ranks) -> None:
    """Copy the files of the first process's folder to each of the others."""
    files = [*folder.path.glob("*"), *folder.checkpoints.path.glob("*/*")]
    names = [str(file.relative_to(folder.path)) for file in files if file.is_file()]
    for name in json.loads(ranks.bytes_from_first(json.dumps(names).encode())):
        path = copy / name
        if not path.resolve().is_relative_to(copy.resolve()):
            raise FolderError(
                f"The first process sent a file {shown(name)}.", "Trust no such host."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb" if ranks.first else "wb") as file:
            while piece := ranks.bytes_from_first(file.read(SENT_AT_ONCE) if ranks.first else b""):
                if not ranks.first:
                    file.write(piece)


def go_on(
    corpus: Corpus,
    folder: RunFolder,
    config: Config,
    *,
    ranks: Ranks,
    share: Callable[[], None],
    device: torch.device,
    begin: float,
) -> Iterator[Plan | Report]:
    """Train the run that is in the folder, from its newest checkpoint or from its beginning."""
    refuse_impossible(corpus.task, config)
    plan, made = folder.plan(), corpus.task(config, folder.tokenizers())
    refuse_other_examples(folder, plan, corpus.fingerprint(made))
    seconds = None if plan.seconds is None else parse_budget(config.train.budget).seconds
    yield Plan(config, plan.total, seconds, plan.reasons)
    corpus.split()
    store = corpus.store(made)
    judge, validation = corpus.judge(made)
    if corpus.sample.kept and ranks.first:  # they have just been read: the run is new
        baseline = made.baseline(corpus.sample.kept, corpus.judged)
        plan = plan.model_copy(update={"baseline": baseline})
        folder.write_plan(plan)
    if plan.baseline:
        yield Note(0, f"To beat: {plan.baseline}.")
    model, plan = yield from begun_model(folder, plan, made, store, corpus.folder)
    batches = made.batches(store)
    refuse_endless_updates(config.train, len(batches))
    with stop_on_signals() as stop:
        job = Job(
            model=model.to(device),
            batches=batches,
            loss=made.loss,
            config=config.train,
            steps=plan.course,
            judge=judge,
            keeper=folder.checkpoints,
            seconds=None if seconds is None else seconds - (time.monotonic() - begin),
            corrections=tuple(Correction(*each) for each in plan.corrections),
            thread_changes=tuple(ThreadChange(*each) for each in plan.threads),
            ranks=ranks,
            share=share,
            stop=stop,
        )
        yield from train_and_record(job, folder, plan, notes=about(made, store, validation))


def refuse_other_examples(folder: RunFolder, plan: RunPlan, examples: str) -> None:
    """Refuse to go on with other examples: the place in the data would mean nothing."""
    # earlier versions named them otherwise
    if plan.examples.startswith(f"{STORE_FORMAT}-") and plan.examples != examples:
        raise DataError(
            f"The training examples are not those that {folder.path} was begun with.",
            "Put the files back as they were, or train a new run with another --into.",
        )


def begun_model(
    folder: RunFolder, plan: RunPlan, task: Task, store: Store, into: Path
) -> Generator[Note, None, tuple[Model, RunPlan]]:
    """The model before its first update: drawn at random, inherited, or fitted without training.

    Notes tell what was done, and the plan keeps what was inherited.
    """
    config = task.config
    torch.manual_seed(config.train.seed)
    model = build(config.model)
    if folder.checkpoints.newest() is not None:  # it holds all that the other run gave
        return model, plan
    if base := base_run(config.train.start, into):
        inherited = inherit(model, base, task.tokenizers)
        plan = plan.model_copy(update={"inherited": inherited})
        yield Note(0, told_inheritance(inherited))
    if fitted := task.begin(model, store):
        yield Note(0, fitted)
    return model, plan


def decided_for(task: str, given: Given, into: Path) -> Given:
    """All settings that are decided for a new run, also by the run that it begins with."""
    base = base_run(TrainConfig(**layered(given).get("train", {})).start, into)
    return decide(task, given, inherited_settings(base, given) if base else None)


def create(
    corpus: Corpus, decided: Given, folder: RunFolder, *, world: int, device: torch.device
) -> None:
    """Make a new run folder: learn the tokenizers and choose all that is not decided."""
    task, config = corpus.task, corpus.resolve(decided)
    refuse_impossible(task, config)
    base = base_run("" if config.train.new_vectors else config.train.start, folder.path)
    tokenizers = base.tokenizers() if base else corpus.tokenizers(config.tokenizer)
    config = with_vocabularies(config, tokenizers)
    refuse_impossible(task, config)
    made = task(config, tokenizers)
    store = corpus.store(made)
    config = made.sized(store)
    refuse_endless_updates(config.train, len(made.batches(store)))
    corpus.progress("measuring this machine", 0, None)
    plan = measured_plan(task(config, tokenizers), decided, store, world=world, device=device)
    if not corpus.words.words:  # tokenizer and store were there already
        deque(corpus.training("reading"), maxlen=0)
    source, target = tokenizers
    RunFolder.create(
        folder.path,
        plan.config,
        target,
        None if source is target else source,
        words=corpus.words.numbers(),
        origin=base.origin_files() if base else None,
        plan=RunPlan(
            steps=plan.steps,
            seconds=plan.seconds,
            reasons=plan.reasons,
            n_examples=store.n_read,
            examples=store.fingerprint,
        ),
    )


def measured_plan(
    task: Task, decided: Given, store: Store, *, world: int, device: torch.device
) -> Plan:
    """The plan that fits the budget, by the speed of this machine."""
    config = task.config

    def batches(batch_tokens: int) -> Batches[Any]:
        changed = config.but(data=config.data.but(batch_tokens=batch_tokens))
        return type(task)(changed, task.tokenizers).batches(store)

    return planned(
        config,
        decided,
        n_tokens=task.n_predictions(store),
        n_batches=lambda batch_tokens: len(batches(batch_tokens)),
        speed=lambda model: measured_speed(
            model,
            config.train,
            loss=task.loss,
            batches=batches(config.data.batch_tokens),
            device=device,
        ),
        world=world,
    )


def refuse_impossible(task: type[Task], config: Config) -> None:
    """Refuse a model that the task cannot use, or that is too large for the memory."""
    model = config.model
    if model.family not in task.families:
        raise ConfigError(
            f'model.family = "{model.family}" is not for {task.name}.',
            f"Use {' or '.join(task.families)}.",
        )
    needed, there = COPIES * least_bytes(model), free_memory()
    if needed > there:
        size = ", ".join(f"{name} = {value:,}" for name, value in model.size().items())
        raise ConfigError(
            f"To train a model with {size} and {model.vocab_size:,} tokens takes at least "
            f"{needed / 1e9:,.1f} GB of memory, and {there / 1e9:,.1f} GB are free.",
            "Use a smaller model.d_model, model.d_ff or fewer layers, or --size small.",
        )


def refuse_endless_updates(train: TrainConfig, n_batches: int) -> None:
    if train.accumulate > max(n_batches, FEW_BATCHES):
        raise ConfigError(
            f"train.accumulate = {train.accumulate:,} batches for each update are more than the "
            f"{n_batches:,} that all examples make.",
            f"Use train.accumulate = {max(1, n_batches // 2):,} or less.",
        )


def about(task: Task, training: Store, validation: Store) -> list[Note]:
    """Notes for people about the examples: too few, some left out, or faults put right."""
    n_predicted = task.n_predictions(training)
    few = (
        f"{len(training):,} {task.unit} with {n_predicted:,} {task.predicted} to predict are few: "
        f"expect little below {task.enough:,}."
        if n_predicted < task.enough
        else ""
    )
    left_out = {"": training.left_out(), "Validation: ": validation.left_out()}
    told = [f"{part}{sentence}" for part, sentence in left_out.items() if sentence]
    return [Note(0, text) for text in (few, *told, *training.notes) if text]


def continued(folder: RunFolder, given: Given, task: str) -> Config:
    """The run's settings with those given now; what would make other updates is refused."""
    stored, ended = folder.config(), has_ended(folder)
    now = Config(**layered(stored.model_dump(), spelled_out(given), {"task": task}))
    before, after = settings_by_name(stored), settings_by_name(now)
    for name in before:
        if before[name] != after[name] and not may_change(
            name, before[name], after[name], ended=ended
        ):
            raise ConfigError(
                f"{folder.path} was begun with {name} = {before[name]}, and {after[name]} would "
                "make it another run.",
                "Leave the setting out to resume, or train a new run with another --into.",
            )
    return now


def has_ended(folder: RunFolder) -> bool:
    """Whether weights were chosen after the last of the updates that the plan has."""
    return folder.has_weights() and any(
        line.get("kind") == "chosen" and line["step"] >= folder.plan().total
        for line in folder.log.lines()
    )


def extend(folder: RunFolder, config: Config) -> None:
    """Let a run that has ended train on from its last weights, if it is given more time."""
    if not has_ended(folder):
        return
    afresh = (
        f"Begin a new run with its weights: clearhead train FILES --from {folder.path} --into RUN"
    )
    steps = [line for line in folder.log.lines() if line.get("kind") == "step"]
    if not steps or not steps[-1]["epoch"]:
        raise FolderError(
            f"{folder.log.path} tells of no step, so nobody knows how far {folder.path} has come.",
            afresh,
        )
    plan, max_steps, done = folder.plan(), config.train.max_steps, steps[-1]["step"]
    has_new_end = max_steps != folder.config().train.max_steps
    budget = Budget(steps=max_steps) if has_new_end else parse_budget(config.train.budget)
    wanted = steps_for(budget, plan, steps[-1])
    if wanted <= done:
        return
    if folder.checkpoints.newest() is None:
        raise FolderError(f"{folder.path} holds no checkpoint, so it cannot be trained on.", afresh)
    folder.write_config(config.but(train=config.train.but(max_steps=wanted)))
    more = (
        f"from step {done:,} on: {wanted - done:,} more steps, with a learning rate that rises anew"
    )
    folder.write_plan(
        plan.model_copy(
            update={
                "seconds": budget.seconds,
                "corrections": (*plan.corrections, (done, 0.0, wanted)),
                "reasons": (*plan.reasons, more),
            }
        )
    )


def steps_for(budget: Budget, plan: RunPlan, last: dict[str, Any]) -> int:
    """The number of updates in all that a budget allows, at the pace of those made so far."""
    done, seconds = last["step"], max(1e-3, last["seconds"])
    if budget.seconds is not None and budget.seconds > (plan.seconds or seconds):
        return int(done + max(1, round(done * (budget.seconds / seconds - 1))))
    if budget.steps or budget.epochs:
        return budget.steps or round((budget.epochs or 0) * done / last["epoch"])
    return int(done)


def told_to_train_on(folder: RunFolder) -> str:
    """What to tell a person who trains a run that has ended without giving it more time."""
    plan, budget = folder.plan(), folder.config().train.budget
    more = f"{2 * plan.seconds / 60:.0f}m" if plan.seconds else f"{2 * plan.total} steps"
    asked = f" (it had {budget})" if budget else ""
    return (
        f"{folder.path} has ended{asked}. To train on, give it more time in all: "
        f'clearhead train {folder.path} --budget "{more}"'
    )


def settings_by_name(config: Config) -> Given:
    settings = {
        f"{part}.{name}": value for part in SECTIONS for name, value in getattr(config, part)
    }
    return {"task": config.task, **settings}


def may_change(name: str, before: Any, after: Any, *, ended: bool) -> bool:
    """Whether a run may go on with another value of a setting.

    A budget of time may grow; one of steps or epochs may not, for the learning rate depends on it,
    unless the run has ended and trains on.
    """
    if name in ("train.budget", "train.max_steps") and ended:
        return True
    if name == "train.budget":
        return all(parse_budget(budget).seconds is not None for budget in (before, after))
    section, _, setting = name.partition(".")
    return section in SECTIONS and mark(section, setting) is Mark.FREE


def train_and_record(
    job: Job, folder: RunFolder, plan: RunPlan, notes: list[Note]
) -> Iterator[Report]:
    """Train and write each report to the log, frames to the film, and at the end the weights."""
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
        if not step and not any(folder.film.lines()):  # the film begins with the untrained model
            folder.film.write(frame(job.model, filmed, 0))
    try:
        for report in train(job):
            if isinstance(report, Validation) and filmed:
                folder.film.write(frame(job.model, filmed, report.step, report.loss))
            weights = gathered(job.model.state_dict()) if isinstance(report, Chosen) else {}
            if job.ranks.first:
                if changes := changes_of(plan, report, job):
                    plan = plan.model_copy(update=changes)
                    folder.write_plan(plan)
                if isinstance(report, Chosen):  # in the log when it is done: the run has ended
                    config = job.judge.calibrated(job.model.eval(), folder.config())
                    use_weights(folder, weights, config, report)
                folder.log.write(report.line())
                if isinstance(report, Chosen):
                    report = ended_run(folder, report)
            yield report
    except NotFiniteError as error:
        if job.ranks.first:
            folder.log.write({"kind": "notfinite", "text": error.whole})
        raise


def changes_of(plan: RunPlan, report: Report, job: Job) -> dict[str, Any]:
    """What a report changes in the plan, unless it repeats what an interrupted run reported."""
    if isinstance(report, Correction) and report not in job.corrections:
        made = (report.step, report.progress, report.steps)
        return {"corrections": (*plan.corrections, made)}
    if isinstance(report, ThreadChange) and report not in job.thread_changes:
        return {"threads": (*plan.threads, (report.step, report.threads))}
    return {}


def base_run(start: str, into: Path) -> RunFolder | None:
    """The run whose weights training begins with, if there is one."""
    return RunFolder.open(seen_from_here(into / start)) if start else None


def inherited_settings(base: RunFolder, given: Given) -> Given:
    """The model's shape and the tokenizer settings that a run takes over from its base run."""
    theirs = base.config()
    model = {
        name: value
        for name, value in theirs.model.model_dump().items()
        if mark("model", name) in (Mark.SIZE, Mark.SHAPE)
    }
    if given.get("train", {}).get("new_vectors"):
        return {"model": model}
    tokenizer = theirs.tokenizer.model_dump(exclude={"dropout"})
    for name, value in given.get("tokenizer", {}).items():
        if name in tokenizer and value != tokenizer[name]:
            raise ConfigError(
                f"tokenizer.{name} = {shown(value)} makes another tokenizer than that of "
                f"{base.path}, and its token vectors would be lost.",
                "Leave the setting out, or keep the vectors of the tokens that both have: "
                "--set train.new_vectors=true",
            )
    return {"model": model, "tokenizer": tokenizer}


@torch.no_grad()
def inherit(model: Model, base: RunFolder, tokenizers: Tokenizers) -> Inheritance:
    """Copy each weight of the same name and shape, and the vectors of tokens that both know."""
    if not base.has_weights():
        raise FolderError(
            f"{base.path} has no weights yet.",
            f"Train it to its end with: clearhead train {base.path}",
        )
    theirs, ours = base.model().state_dict(), model.state_dict()
    taken, known = [], 1.0
    for name, weight in ours.items():
        side = 0 if name.startswith("source") else 1
        own = tokenizers[side]
        other = base.tokenizers()[side] if name in PER_TOKEN else own
        fits = name in theirs and theirs[name].shape[1:] == weight.shape[1:]
        if fits and own.fingerprint != other.fingerprint:
            ids = other.vocabulary.ids()
            rows = {n: ids[token] for n, token in enumerate(own.vocabulary.tokens) if token in ids}
            weight[[*rows]] = theirs[name][[*rows.values()]].to(weight)
            known = min(known, len(rows) / len(weight))
        elif fits and theirs[name].shape == weight.shape:
            weight.copy_(theirs[name])
        else:
            continue
        taken.append(name)
    if not taken:
        raise ConfigError(
            f"Nothing in {base.path} fits this model.",
            "Leave out the settings that change its shape.",
        )
    return Inheritance(
        run=str(base.path),
        taken=tuple(taken),
        left=tuple(sorted(theirs.keys() - set(taken))),
        new=tuple(sorted(ours.keys() - set(taken))),
        known_tokens=known,
    )


def told_inheritance(inherited: Inheritance) -> str:
    """A sentence about the weights that a run begins with, and the parts of the model they are in."""
    told = []
    for what in ("taken", "left", "new"):
        names = getattr(inherited, what)
        places = f" ({', '.join(sorted({name.partition('.')[0] for name in names}))})"
        told.append(f"{len(names)} {what}{places if names else ''}")
    if inherited.known_tokens < 1:
        told.append(f"{inherited.known_tokens:.0%} of the tokens keep their vectors")
    return f"Weights from {inherited.run}: {'; '.join(told)}."
