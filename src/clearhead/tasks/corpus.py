"""The examples of a run: a part to learn from, and a part held out to judge by.

The text is read through once to choose what is held out, once to learn tokens from the rest and
once to encode it; a run that goes on only chooses again, for the rest is in the cache.
"""

import hashlib
import json
import os
from collections import deque
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.config import Config, DataConfig, Given, TokenizerConfig
from clearhead.data.lines import Progress, is_pipe
from clearhead.data.order import mix
from clearhead.data.store import STORE_FORMAT, Store, chunks, prepare, temporary_store
from clearhead.disk import seen_from_here, sha256_of
from clearhead.errors import ConfigError, DataError, shown
from clearhead.folder import RunFolder
from clearhead.machine import cache_folder
from clearhead.tasks.task import Task, Tokenizers
from clearhead.text import Tokenizer
from clearhead.text.words import WordsSeen
from clearhead.training import Judge


class HeldOut:
    """Chooses, in one pass over examples of a number not yet known, those to hold out of training.

    Which ones is a pure function of their numbers and of how many there are: a hash of the number
    decides. The share to hold out falls as more are counted, so that few candidates have to be
    remembered. Of running text, the end is held out: single lines would be easy to guess from those
    around them.
    """

    def __init__(self, data: DataConfig) -> None:
        self.data = data
        self.n_examples = 0
        self.may_be_held: list[tuple[int, int, Any]] = []
        """Numbers, keys (hashes) and examples; in the end those with a small key are held out."""
        self.last: deque[Any] = deque(maxlen=data.validation_limit)

    def watched(self, examples: Iterable[Any]) -> Iterator[Any]:
        """Pass the examples on unchanged, while they are counted and candidates are kept."""
        for chunk in chunks(examples):
            numbers = np.arange(self.n_examples, self.n_examples + len(chunk))
            most = int(self.share(self.n_examples + 1) * 2**64)
            rows = zip(numbers.tolist(), mix(numbers).tolist(), chunk, strict=True)
            self.may_be_held += [row for row in rows if row[1] < most]
            self.last.extend(chunk)
            self.n_examples += len(chunk)
            yield from chunk

    def share(self, n_examples: int) -> float:
        """The share of so many examples to hold out: those whose 64-bit key is below it."""
        most = max(self.data.validation_share, 1.5 / n_examples)
        return min(most, self.data.validation_limit / n_examples)

    def chosen(self) -> tuple[Container[int], list[Any]]:
        """The numbers of the examples held out, and these examples: at least one, and not all."""
        n_examples = self.n_examples
        if n_examples < 2:
            raise DataError(
                "There is one line or example only, and two are needed: one to learn from, and one "
                "to validate on.",
                "Break the text into lines, give more examples, or name files to validate on.",
            )
        if isinstance(self.last[-1], str):
            n_held = min(max(1, round(self.share(n_examples) * n_examples)), n_examples - 1)
            return range(n_examples - n_held, n_examples), list(self.last)[-n_held:]
        limit = int(self.share(n_examples) * 2**64)
        found = {number: example for number, key, example in self.may_be_held if key < limit}
        if len(found) == n_examples:
            del found[0]
        found = found or {n_examples - 1: self.last[-1]}
        return found.keys(), list(found.values())


class Sample:
    """Examples evenly spread over a pass of unknown length, within a limit of characters."""

    LIMIT = 8_000_000

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.n_characters, self.n_seen, self.every = 0, 0, 1

    def add(self, example: Any, n_characters: int) -> None:
        if self.n_seen % self.every == 0:
            self.kept.append(example)
            self.n_characters += n_characters
        self.n_seen += 1
        if self.n_characters > self.LIMIT:
            self.kept, self.every = self.kept[::2], 2 * self.every
            self.n_characters //= 2


class Corpus:
    """A task's examples, as the settings name their files, seen from the run folder."""

    def __init__(
        self,
        task: type[Task],
        data: DataConfig,
        folder: Path,
        progress: Progress = lambda *_: None,
    ) -> None:
        self.task, self.data, self.folder, self.progress = task, data, folder, progress
        if not data.files:
            raise ConfigError(
                "There is nothing to learn from: data.files is empty.", "Name the training files."
            )
        files, validation_files = (
            [seen_from_here(folder / file) for file in each]
            for each in (data.files, data.validation_files)
        )
        if RunFolder(folder).exists():
            refuse_moved(folder, (*data.files, *data.validation_files))
        self.examples = task.read(*files, columns=data.columns)
        if pipes := [path for path in self.examples.paths if is_pipe(path)]:
            raise DataError(
                f"{shown(pipes[0])} is a pipe, and training reads its files several times.",
                "Save it to a file and give that.",
            )
        self.stamps = stamps(self.examples.paths)
        self.validation: Iterable[Any] = (
            task.read(*validation_files, columns=data.columns) if validation_files else ()
        )
        self.held_out: Container[int] = ()
        self.n_training: int | None = None
        """Examples to learn from, if they have been counted."""
        self.judged: list[Any] = []
        """The examples that validation is made on."""
        self.sample = Sample()
        """Some of the examples to learn from, kept the last time that they were read."""
        self.words = WordsSeen()
        """The words of the texts that the model reads, counted as examples are read."""

    def resolve(self, decided: Given) -> Config:
        """The settings that follow from the examples, which are split on the same pass."""
        examples = self.first_pass()
        config = self.task.resolve(decided, examples)
        self.split(examples)
        return config

    def split(self, examples: Iterator[Any] | None = None) -> None:
        """Read the first pass to its end, unless validation examples are known already."""
        if not self.validation:
            deque(examples or self.first_pass(), maxlen=0)

    def first_pass(self) -> Iterator[Any]:
        """All examples, while those to hold out are chosen if there are no validation files."""
        held_out = HeldOut(self.data)
        yield from self.with_progress(held_out.watched(self.examples), "reading")
        if not self.validation:
            self.held_out, chosen = held_out.chosen()
            self.validation, self.n_training = chosen, held_out.n_examples - len(chosen)

    def training(self, what: str) -> Iterator[Any]:
        """The examples that are not held out; `what` is the purpose that progress shows."""
        rest = (e for number, e in enumerate(self.examples) if number not in self.held_out)
        self.sample = Sample()
        for example in self.with_progress(rest, what):
            self.words.add(self.task.read_text(example))
            self.sample.add(example, sum(map(len, self.task.texts(example))))
            yield example
        if stamps(self.examples.paths) != self.stamps:
            raise DataError(
                f"{shown(', '.join(self.examples.paths))} changed while being read.",
                "Run again when nothing writes to the files.",
            )

    def with_progress(self, examples: Iterable[Any], what: str) -> Iterator[Any]:
        for number, example in enumerate(examples):
            if number % 1_000 == 0:
                self.progress(what, number, self.n_training)
            yield example

    def tokenizers(self, config: TokenizerConfig) -> Tokenizers:
        source = self.learned(slice(0, None if config.shared else 1), config)
        return source, source if config.shared else self.learned(slice(1, 2), config)

    def learned(self, sides: slice, config: TokenizerConfig) -> Tokenizer:
        examples = map(self.task.texts, self.training("learning tokens"))
        return Tokenizer.learn((text for texts in examples for text in texts[sides]), config)

    def store(self, task: Task) -> Store:
        """The training part as ids, from the cache if it is there."""
        return prepare(
            cache_folder() / self.fingerprint(task),
            self.training("tokenising"),
            task.encoding,
            max_length=self.data.max_length,
            notes=self.notes,
            cache_size=self.data.cache_size * 1e9,
        )

    def fingerprint(self, task: Task) -> str:
        """The name of the encoded training part: a hash of files, held-out share and encoding."""
        data, encoding = self.data, task.encoding
        held_out = [] if data.validation_files else [data.validation_share, data.validation_limit]
        examples = [task.name, self.files, held_out, data.max_length, *data.columns]
        settings = json.dumps([examples, encoding.fingerprint, encoding.vocab_sizes])
        return f"{STORE_FORMAT}-{hashlib.sha256(settings.encode()).hexdigest()[:32]}"

    @cached_property
    def files(self) -> list[tuple[list[str], str]]:
        """The endings of the training files, which say how to read them, and their SHA-256."""
        return [(path.suffixes, sha256_of(path)) for path in map(Path, self.examples.paths)]

    def notes(self) -> list[str]:
        return [
            f"{Path(path).name}: {sentence}."
            for path, notes in self.examples.notes.items()
            for sentence in notes.sentences()
        ]

    def judge(self, task: Task) -> tuple[Judge, Store]:
        """What validation measures, on the examples that are neither empty nor too long."""
        store, self.judged = temporary_store(self.validation, task.encoding, self.data.max_length)
        return replace(task.judge(self.judged, store), n_examples=len(self.judged)), store


def refuse_moved(folder: Path, files: Iterable[str]) -> None:
    """Refuse to go on with a run whose files are no longer where its settings say."""
    for file in files:
        if not (folder / file).exists():
            raise DataError(
                f"{folder} was begun with {shown(Path(file).name)}, and there is no "
                f"{shown(str(seen_from_here(folder / file)))}.",
                "If the run or the file was moved, give the files where they are now: "
                f"clearhead train FILES --into {folder}",
            )


def stamps(paths: Iterable[str]) -> list[tuple[int, int]]:
    """Sizes and times of files, which tell whether one was written to meanwhile."""
    return [(status.st_size, status.st_mtime_ns) for status in map(os.stat, paths)]
