"""What the four shows have in common: text of the package, its files, and how a show speaks."""

import bz2
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from rich.console import Console

from clearhead.config import Given, layered
from clearhead.disk import atomic_folder, write_atomically
from clearhead.errors import ConfigError
from clearhead.tasks import load

PARTS = ("train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class Words:
    """What a show says before the training and after it."""

    title: str
    text: str
    """What the text is like; {train} and {test} stand for the number of examples."""
    form: str
    training: str
    limits: str
    """What the trained model does not know."""
    asked: str
    """A text for the trained model, to look inside at."""
    yours: str
    """The command that trains on somebody's own text."""


class Show(ABC):
    """A small model that learns one task: the text, words about the training, and what came of it.

    It prints on the console that it is given; the training itself is left to the caller.
    """

    task: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    """How the names of its files of text end: one, or one for each language."""
    settings: ClassVar[Given]
    """A model that learns the text in a minute or two without a GPU."""
    words: ClassVar[Words]

    def __init__(self, console: Console, into: Path) -> None:
        self.console, self.into = console, into
        if into.name in ("", ".."):
            raise ConfigError(
                f"{into} is not a folder of its own for a run, with room for its text beside it.",
                "Give one by its name: --into runs/demo",
            )
        self.data = into.with_name(into.name + "-data")

    def given(self) -> Given:
        """The settings to train with; files are named as they are seen from the run."""
        seen = Path(os.path.relpath(self.data, self.into))
        train, valid = (
            [str(seen / f"{part}.{suffix}") for suffix in self.suffixes] for part in PARTS[:2]
        )
        return layered(self.settings, {"data": {"files": train, "validation_files": valid}})

    def introduce(self) -> None:
        """Write the text to learn from, and show some of it."""
        self.write_files()
        sizes = {part: len(self.lines(part)) for part in PARTS}
        self.say(self.words.title, self.words.text.format(**sizes))
        self.print_examples()
        self.say(
            "", f"The files are in {self.data}, {self.words.form}, as you would bring your own."
        )

    def perform(self) -> list[str]:
        """Show what the trained model can do, and how well; the value is what to type next."""
        self.write_files()
        commands, page = self.print_results(), self.into / "look.html"
        write_atomically(page, load(self.into).look(self.words.asked).html().encode())
        self.say(
            "A look inside",
            f'Every number behind its answer to "{self.words.asked}" is on one page, {page}. '
            "Open it in a browser:",
        )
        self.print_lines([page.resolve().as_uri()])
        self.say("What next", f"{self.words.limits} Try:")
        look = f'look {self.into} "{self.words.asked}"'
        return [*commands, look, f"serve {self.into}", f"info {self.into}", self.words.yours]

    @abstractmethod
    def print_examples(self) -> None:
        """Some of the text to learn from."""

    @abstractmethod
    def print_results(self) -> list[str]:
        """What the trained model does and how well; the value is commands to try with it."""

    def write_files(self) -> None:
        """Write the text into a folder beside the run, atomically; one that is there stays."""
        if self.data.exists():
            return
        with atomic_folder(self.data) as folder:
            for suffix in self.suffixes:
                for part, lines in zip(PARTS, shipped(f"{self.task}.{suffix}"), strict=True):
                    text = "".join(f"{line}\n" for line in lines)
                    (folder / f"{part}.{suffix}").write_text(text, encoding="utf-8", newline="\n")

    def file(self, part: str, number: int = 0) -> Path:
        """The file of a part; of the source language, where there are two."""
        return self.data / f"{part}.{self.suffixes[number]}"

    def lines(self, part: str, number: int = 0) -> list[str]:
        return self.file(part, number).read_text(encoding="utf-8").splitlines()

    def say(self, title: str, text: str) -> None:
        if title:
            self.console.print(f"{title}\n", style="bold")
        self.console.print(f"{text}\n")

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print lines as they are, a little to the right, and an empty one after them."""
        for line in lines:
            self.console.print(f"  {line}", soft_wrap=True)
        self.console.print()

    def print_pairs(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.print_lines(line for text, answer in pairs for line in (text, f"→ {answer}"))


def shipped(name: str) -> list[list[str]]:
    """A corpus of the package: the lines to train on, to validate with and to test with.

    Its file is dictionary-coded: a list of the words, then one character for each word. Blank lines
    stand between the parts.
    """
    packed = files("clearhead.demo").joinpath("data", f"{name}.bz2").read_bytes()
    words, coded = bz2.decompress(packed).decode().split("\n", 1)
    text = coded.translate(dict(enumerate(words.split("|"), start=32)))
    return [part.split("\n") for part in text.split("\n\n")]
