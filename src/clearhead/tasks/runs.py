"""Run folders of any task: load one, use it in several processes, or average its checkpoints.

On a CPU, processes that translate side by side are faster than as many threads of one process.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from typing import Any, Self

import torch

from clearhead import __version__
from clearhead.config import Config
from clearhead.disk import sha256_of
from clearhead.errors import FolderError, ModelError
from clearhead.folder import Inheritance, RunFolder
from clearhead.machine import device_for, keep_freed_memory
from clearhead.tasks.chat import Chatbot, ChatTask
from clearhead.tasks.classification import ClassificationTask, Classifier
from clearhead.tasks.corpus import Corpus
from clearhead.tasks.pretraining import Encoder, Filler, PretrainingTask
from clearhead.tasks.task import Task, User
from clearhead.tasks.translation import Translation, TranslationTask, Translator
from clearhead.tasks.writing import Writer, WritingTask
from clearhead.training import Chosen, mean_weights, worded
from clearhead.training.plan import duration

TASKS: dict[str, type[Task]] = {
    "translation": TranslationTask,
    "chat": ChatTask,
    "classification": ClassificationTask,
    "writing": WritingTask,
    "pretraining": PretrainingTask,
}
USERS: dict[str, type[User]] = {
    "translation": Translator,
    "chat": Chatbot,
    "classification": Classifier,
    "writing": Writer,
    "encoder": Filler,
    "decoder": Writer,
    "vectors": Encoder,
}
"""What a run of each task can be used as, and a pre-trained model of each family."""
STILL_FALLING = 0.02
"""A model is still learning if its validation loss fell by more than this share in the last quarter
of the time."""
MANY = 4_096
"""For more lines than this, times the width of the beam, starting worker processes pays."""
ENDING_SIGNALS = {signal.SIGINT, signal.SIGHUP, signal.SIGTERM}
"""Signals that end a program."""


def load(path: str | Path, device: str = "cpu", checkpoint: str = "") -> User:
    """The Translator, Chatbot, Classifier, Writer, Filler or Encoder in a run folder.

    `checkpoint` names other weights than those to use: "last", or the number of a step.
    """
    kind = user_of(RunFolder.open(path).config())
    if kind is None:
        raise FolderError(
            f"{path} was pre-trained to fill gaps in text, and has no use of its own.",
            f"Fine-tune it: clearhead train FILES --from {path} --into RUN",
        )
    return kind.load(path, device=device, checkpoint=checkpoint)


def user_of(config: Config) -> type[User] | None:
    """What a run can be used as; a denoiser has no use of its own."""
    pretrained = "vectors" if config.model.vectors else config.model.family
    return USERS.get(pretrained if config.task == "pretraining" else config.task)


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """A run at a glance."""

    path: Path
    task: str
    parameters: int
    steps: int
    """Updates that are saved, or done."""
    ended: bool
    score: str
    """What the weights in use reached on the validation set; empty where there are none."""
    changed: float
    """When it was last written to, in seconds since 1970."""
    bytes: int
    """On disk, checkpoints included."""

    @classmethod
    def of(cls, path: str | Path) -> Self:
        folder = RunFolder.open(path)
        config, chosen, step = folder.config(), None, 0
        for line in folder.log.lines():
            chosen = line if line.get("kind") == "chosen" else chosen
            step = max(step, line.get("step", 0))
        rating = chosen["scores"].get(chosen["weights"]) if chosen else None
        return cls(
            path=folder.path,
            task=config.task,
            parameters=folder.n_parameters(),
            steps=step,
            ended=folder.has_weights(),
            score="" if not chosen or rating is None else worded(chosen.get("name", ""), rating),
            changed=max(file.stat().st_mtime for file in folder.path.iterdir()),
            bytes=folder.size(),
        )


def runs_in(place: str | Path) -> list[RunInfo]:
    """The runs in a folder, the one that was last written to first."""
    found = [path for path in Path(place).glob("*") if RunFolder(path).exists()]
    return sorted(map(RunInfo.of, found), key=lambda run: -run.changed)


@dataclass(frozen=True, kw_only=True)
class Averaging:
    """How the mean of checkpoints compares with the weights that were in use; `str()` says it."""

    steps: tuple[int, ...]
    """The updates after which the checkpoints were saved."""
    n_wanted: int
    before: str
    """What the weights that were in use reach on the validation set."""
    mean: str
    former: Path | None
    """Where the weights that were in use are kept; None if they still are in use."""

    def __str__(self) -> str:
        few = f", {len(self.steps)} of the {self.n_wanted} asked for"
        outcome = (
            f"it is in use now.\nThe former weights are kept in {self.former}"
            if self.former
            else "these stay in use."
        )
        return (
            f"The mean of {len(self.steps)} checkpoints (steps {', '.join(map(str, self.steps))}"
            f"{few if len(self.steps) < self.n_wanted else ''}) reaches {self.mean} on the "
            f"validation set, the weights in use {self.before}: {outcome}"
        )


def average(run: str | Path, last: int = 5) -> Averaging:
    """Use the mean of the newest checkpoints, if it is better than the weights in use.

    Both are measured by the run's own judge on its validation set. With the mean come a new card
    and a new temperature; the former weights are kept under another name.
    """
    folder = RunFolder.open(run)
    with folder.lock():
        steps = steps_to_average(folder, last)
        config = folder.config()
        task = TASKS[config.task]
        corpus = Corpus(task, config.data, folder.path)
        corpus.split()
        judge, _ = corpus.judge(task(config, folder.tokenizers()))
        model = folder.model(str(device_for(config.train.device)))
        before = judge.rating(model)
        weights = mean_weights(folder.checkpoints.open(step).tensors("weights") for step in steps)
        model.load_state_dict(weights)
        mean, former = judge.rating(model), None
        if mean > before:
            former = folder.keep_former_weights()
            name = f"mean of the checkpoints {', '.join(map(str, steps))}"
            scores = {"in use before": before, name: mean}
            chosen = Chosen(
                steps[-1],
                name,
                scores,
                name=judge.name,
                n_examples=judge.n_examples,
                per_byte=judge.per_byte,
            )
            folder.log.write(chosen.line())
            use_weights(folder, weights, judge.calibrated(model, config), chosen)
    return Averaging(
        steps=steps,
        n_wanted=last,
        before=worded(judge.name, before),
        mean=worded(judge.name, mean),
        former=former,
    )


def steps_to_average(folder: RunFolder, last: int) -> tuple[int, ...]:
    """The newest checkpoints of a run that has ended, by their steps."""
    steps = tuple(folder.checkpoints.steps()[-last:])
    if not steps:
        raise FolderError(
            f"{folder.path} holds no checkpoints to average.",
            f"Train with train.keep_checkpoints = {last}.",
        )
    if not folder.has_weights():
        raise FolderError(
            f"{folder.path} has not ended, so there are no weights to compare with.",
            f"Train it to its end with: clearhead train {folder.path}",
        )
    return steps


def use_weights(
    folder: RunFolder, weights: Mapping[str, torch.Tensor], config: Config, chosen: Chosen
) -> None:
    """Write the weights, and the settings and the card that go with them."""
    folder.write_weights(weights)
    folder.write_config(config)
    folder.write_card(card(folder, config, chosen))


def card(folder: RunFolder, config: Config, chosen: Chosen) -> str:
    """The card of a run in Markdown: what it was trained on, and how well it does."""
    log = list(folder.log.lines())
    last = {line.get("kind"): line for line in log}
    model, data = config.model, config.data
    layers = {
        "encoder": f"{model.n_encoder_layers}",
        "decoder": f"{model.n_decoder_layers}",
        "encoder-decoder": f"{model.n_encoder_layers} + {model.n_decoder_layers}",
    }[model.family]
    kind = f"{model.architecture}, {model.family}" if model.recurs else model.family
    heads = "1 head" if model.recurs else f"{model.n_heads} heads"
    beside = f", and beside it a linear model of {model.n_grams:,} n-grams" if model.n_grams else ""
    held_out = f"- {data.validation_share:.0%} of the examples, held out"
    lines = [
        f"# {folder.path.name}",
        "",
        f"A {config.task} model made with clearhead {__version__}: {kind}, "
        f"{layers} layers, width {model.d_model}, {heads}, {model.vocab_size:,} tokens{beside}.",
        "",
        "## Trained on",
        *(f"- {described_file(folder.path / file)}" for file in data.files),
        *(f"- {line['text']}" for line in log if line.get("kind") == "note" and not line["step"]),
        *history(folder.plan().inherited, last.get("step")),
        "",
        "## Validated on",
        *(f"- {described_file(folder.path / file)}" for file in data.validation_files),
        *([] if data.validation_files else [held_out]),
        *reached(last.get("validation"), chosen),
        *([f"- to compare: {baseline}"] if (baseline := folder.plan().baseline) else []),
        f"- in use: {chosen.weights}",
        "",
    ]
    return "\n".join(lines)


def history(other: Inheritance | None, step: dict[str, Any] | None) -> Iterable[str]:
    if other:
        yield (
            f"- begun with {Path(other.run).name}: {len(other.taken)} of its weights taken, "
            f"{len(other.left)} left, {len(other.new)} new"
        )
    if step:
        yield (
            f"- {step['step']:,} steps, {step['epoch']:.1f} epochs, "
            f"{step['seconds'] / 60:.1f} minutes"
        )


def reached(validation: dict[str, Any] | None, chosen: Chosen) -> Iterable[str]:
    if validation and None not in (validation["loss"], validation["perplexity"]):
        yield (
            f"- loss {validation['loss']:.4f}, perplexity {validation['perplexity']:.2f} "
            "after the last step"
        )
    if validation:
        yield from (f"- {name}: {chosen.worded(name)}" for name in chosen.scores)


@dataclass(frozen=True, kw_only=True)
class Ended(Chosen):
    """The result of a training, and whether more time would help; `str()` says it to people."""

    unit: str
    """What its examples are called."""
    epochs: float
    seconds: float
    validations: tuple[tuple[int, float], ...]
    """All validation losses in order, each after the step that it was measured at."""
    baseline: str = ""
    """What a model without a network reaches on the same examples, where one was fitted."""

    @property
    def fall(self) -> float | None:
        """By which share the validation loss fell in the last quarter; None: too few to tell."""
        if len(self.validations) < 4:
            return None
        before = [loss for step, loss in self.validations if 4 * step <= 3 * self.step]
        return 1 - self.losses[-1] / (before[-1] or 1.0) if before else None

    @property
    def losses(self) -> list[float]:
        return [loss for _, loss in self.validations]

    @property
    def is_overfitted(self) -> bool:
        """The validation loss has risen clearly since it was lowest."""
        return len(self.losses) > 2 and self.losses[-1] > 1.02 * min(self.losses)

    @property
    def is_learning(self) -> bool:
        """The validation loss was still falling when the time was up."""
        return not self.is_overfitted and self.fall is not None and self.fall > STILL_FALLING

    def __str__(self) -> str:
        lines = [
            f"{self.worded(self.weights)} on {self.n_examples:,} held-out {self.unit}, after {self.step:,} steps "
            f"({self.epochs:.1f} epochs) in {duration(self.seconds)}; weights in use: {self.weights}."
        ]
        if self.baseline:
            lines.append(f"To compare: {self.baseline}, on the same {self.unit}.")
        if self.is_overfitted:
            lines.append(
                f"The validation loss rose again, from {min(self.losses):.2f} to "
                f"{self.losses[-1]:.2f}: the model learns the training text by heart (overfitting). "
                "More text would help, or a higher model.dropout; more time would not."
            )
        elif self.is_learning:
            lines.append(
                f"It was still learning: the validation loss fell by {self.fall:.0%} in the last "
                "quarter of the time. More time would help."
            )
        elif self.fall is not None:
            lines.append(
                "It had nearly stopped learning: more text would help more than more time."
            )
        return "\n".join(lines)


def ended_run(folder: RunFolder, chosen: Chosen) -> Ended:
    """The result of a training that has just chosen its weights, as its log has it."""
    log = list(folder.log.lines())
    steps = [line for line in log if line.get("kind") == "step"]
    validations = [line for line in log if line.get("kind") == "validation"]
    return Ended(
        **vars(chosen),
        unit=TASKS[folder.config().task].unit,
        baseline=folder.plan().baseline,
        epochs=steps[-1]["epoch"] if steps else 0.0,
        seconds=steps[-1]["seconds"] if steps else 0.0,
        validations=tuple(
            (line["step"], line["loss"]) for line in validations if line["loss"] is not None
        ),
    )


def described_file(path: Path) -> str:
    """A file by its name, size and hash; not by its path, which is private."""
    if not path.is_file():
        return path.name
    return f"{path.name}: {path.stat().st_size:,} bytes, SHA-256 {sha256_of(path)}"


def even_chunks(texts: list[str], n_workers: int) -> Iterator[list[str]]:
    """The texts in a few chunks for each worker, so that all are done at about the same time."""
    n_each = max(1, -(-len(texts) // (4 * n_workers)))
    return (texts[first : first + n_each] for first in range(0, len(texts), n_each))


def in_workers(
    runs: Sequence[str],
    chunks: Iterable[Sequence[str]],
    *,
    n_workers: int,
    int8: bool,
    checkpoint: str = "",
    **options: Any,
) -> Iterator[Translation]:
    """The translations of chunks of texts, in order, each chunk by one of several processes.

    Each worker process has a pipe of its own and one chunk at a time, so that nothing is shared
    that one of them could leave locked or half written when it is killed.
    """
    load = partial(Translator.load, *runs, int8=int8, checkpoint=checkpoint)
    with started_workers(n_workers, load, options) as idle:

        def translate(texts: list[str]) -> list[Translation]:
            pipe = idle.pop()  # there is one: of threads there are no more than pipes
            found = answer_from(pipe, texts, n_workers)
            idle.append(pipe)
            return found

        yield from in_threads(translate, chunks, n_threads=n_workers)


def answer_from(pipe: Connection, texts: list[str], n_workers: int) -> list[Translation]:
    """What a worker makes of a chunk: translations, or the error that it meets."""
    try:
        pipe.send(texts)
        answer = pipe.recv()
    except (EOFError, ConnectionError):
        raise ModelError(
            f"One of {n_workers} worker processes has died, perhaps for want of memory.",
            "Use fewer: --workers 1",
        ) from None
    if isinstance(answer, BaseException):
        raise answer
    assert isinstance(answer, list)
    return answer


def in_threads(
    translate: Callable[[list[str]], list[Translation]],
    chunks: Iterable[Sequence[str]],
    *,
    n_threads: int,
) -> Iterator[Translation]:
    """The translations of chunks of texts, in order, by threads that wait for somebody else:
    worker processes, or a backend's own decode. At most a few chunks are read ahead.
    """
    waiting: deque[Future[list[Translation]]] = deque()
    threads = ThreadPoolExecutor(
        n_threads, initializer=signal.pthread_sigmask, initargs=(signal.SIG_BLOCK, ENDING_SIGNALS)
    )  # signals are for the main thread
    try:
        for chunk in chunks:
            waiting.append(threads.submit(translate, list(chunk)))
            while waiting and (waiting[0].done() or len(waiting) > 2 * n_threads):
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


@contextmanager
def started_workers(
    n_workers: int, load: Callable[[], Translator], options: dict[str, Any]
) -> Iterator[list[Connection]]:
    """Start processes that translate, and yield a pipe to each; they end with the block."""
    context = multiprocessing.get_context("spawn")
    ensure_running()  # the first process to start would start this one too, and be disturbed
    workers, pipes = [], []
    try:
        for _ in range(n_workers):
            with undisturbed():
                ours, theirs = context.Pipe()
                worker = context.Process(target=translate_for_parent, args=(theirs, load, options))
                worker.start()
                theirs.close()
                workers.append(worker)
                pipes.append(ours)
        yield pipes
    finally:  # what is still at work is not wanted any more, and need not be waited for
        with undisturbed():
            for worker in workers:
                worker.kill()
                worker.join()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Block the signals that end a program; a process started meanwhile never gets any."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def translate_for_parent(
    pipe: Connection, load: Callable[[], Translator], options: dict[str, Any]
) -> None:
    """Translate the chunks that come through the pipe, with one thread, until it is closed."""
    threading.Thread(target=leave_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    keep_freed_memory()
    translator: Translator | None = None
    with suppress(EOFError, ConnectionError):
        while True:
            texts = pipe.recv()
            try:
                translator = translator or load()
                answer: object = translator.translate(texts, **options)
            except Exception as error:
                answer = error
            pipe.send(answer)


def leave_with_parent() -> None:
    """End this process as soon as its parent ends, which cannot do it when it is killed itself."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker was started by somebody"
    parent.join()
    os._exit(1)
