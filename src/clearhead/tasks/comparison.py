"""Two systems on one test set: is the difference more than chance, and where do they differ?"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from clearhead import metrics
from clearhead.data.examples import labelled, pairs
from clearhead.data.lines import Lines
from clearhead.errors import ConfigError, DataError
from clearhead.folder import RunFolder
from clearhead.look.edits import word_diff
from clearhead.metrics import PairedScore
from clearhead.tasks.classification import Classifier
from clearhead.tasks.evaluation import evaluate, evaluate_labels, evaluate_translations
from clearhead.tasks.runs import load
from clearhead.tasks.task import User
from clearhead.tasks.translation import Translator

System = User | Path
"""A trained model, or a file that holds an output on each line."""
SHOWN = 5
"""Differences that `str()` shows of each side."""
BELIEVED = 0.05
"""The p-value below which a difference is usually taken for real."""
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } th, td { padding: .2rem .8rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
section { border-top: 1px solid #8886; padding: .6rem 0; } p { margin: .1rem 0; }
b { display: inline-block; min-width: 7rem; font-weight: 500; opacity: .65; }
mark { background: #e9c46a80; color: inherit; border-radius: .2rem; }
:root { color-scheme: light dark; }
"""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """An example that the systems answer differently."""

    number: int
    """Its place in the test set, from 1."""
    text: str
    right: str
    """The reference, or the right labels."""
    first: str
    second: str
    gain: float
    """By how much the second is better: in chrF2, or 100 for a label that it alone has right."""

    def told(self, names: Sequence[str]) -> str:
        heads = ("reference", *names)
        width = max(map(len, heads))
        rows = zip(heads, (self.right, self.first, self.second), strict=True)
        lines = (f"        {head:<{width}}  {text}" for head, text in rows)
        return "\n".join([f"{self.number:>6,}  {self.text}", *lines])


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How two systems fare on the same test set; `str()` is what people read, `html()` a page."""

    unit: str
    """What the examples are called, in the plural."""
    n_examples: int
    scores: tuple[PairedScore, ...]
    differences: tuple[Difference, ...] = ()
    """Examples with different answers; those that the second answers better come first."""
    names: tuple[str, str] = ("first", "second")

    def values(self) -> dict[str, Any]:
        """All of it, for programs."""
        return asdict(self)

    def table(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("", *self.names, "difference", "p")]
        for each in self.scores:
            digits = 4 if each.name == "bits per byte" else 1
            p_value = "" if each.p_value is None else f"{each.p_value:.3f}"
            numbers = (f"{value:.{digits}f}" for value in (each.first, each.second))
            change = f"{each.second - each.first:+.{digits}f}"
            rows.append((each.name, *numbers, change, p_value))
        return rows

    def summary(self) -> Iterator[str]:
        """What the numbers say, in words."""
        for each in self.scores:
            if each.signature:
                yield f"{each.name}: {each.signature}"
        if any(each.p_value is not None for each in self.scores):
            yield (
                "p: how likely a difference of this size is by chance; "
                f"below {BELIEVED} it is usually taken for real."
            )
        better = sum(each.gain > 0 for each in self.differences)
        worse = sum(each.gain < 0 for each in self.differences)
        if self.differences:
            yield (
                f"{len(self.differences):,} of {self.n_examples:,} {self.unit} differ: "
                f"{self.names[1]} is better in {better:,}, {self.names[0]} in {worse:,}."
            )

    def __str__(self) -> str:
        rows = self.table()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        parts = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in rows
        ]
        parts += ["", *self.summary()]
        gained = [each for each in self.differences if each.gain > 0][:SHOWN]
        lost = [each for each in reversed(self.differences) if each.gain < 0][:SHOWN]
        for name, some in zip(reversed(self.names), (gained, lost), strict=True):
            if some:
                parts += ["", f"{name} is better by most:", *(e.told(self.names) for e in some)]
        return "\n".join(parts)

    def html(self) -> str:
        """The scores and every example that differs, as one page without scripts."""
        head, *rows = (
            "".join(f"<{cell}>{escape(text)}</{cell}>" for text in row)
            for cell, row in zip(["th", *["td"] * len(self.scores)], self.table(), strict=True)
        )
        table = "".join(f"<tr>{row}</tr>" for row in (head, *rows))
        notes = "".join(f"<p>{escape(line)}</p>" for line in self.summary())
        sections = "".join(map(self.section, self.differences))
        title = escape(f"{self.names[0]} and {self.names[1]} compared")
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            "style-src 'unsafe-inline'\">"
            f"<title>{title}</title><style>{STYLE}</style><h1>{title}</h1>"
            f"<table>{table}</table>{notes}{sections}</html>\n"
        )

    def section(self, each: Difference) -> str:
        words = list(word_diff(each.first, each.second))
        rows = {
            f"{each.number:,}": escape(each.text),
            "reference": escape(each.right),
            escape(self.names[0]): marked_words(words, "-"),
            escape(self.names[1]): marked_words(words, "+"),
        }
        lines = (f"<p><b>{name}</b> {text}</p>" for name, text in rows.items())
        return f"<section>{''.join(lines)}<p><b>gain</b> {each.gain:+.1f}</p></section>"


def marked_words(words: Sequence[tuple[str, str]], own: str) -> str:
    """The words of one side, those that the other has not marked."""
    shown = ((mark, escape(word)) for mark, word in words if mark in ("=", own))
    return " ".join(f"<mark>{word}</mark>" if mark == own else word for mark, word in shown)


def compare(
    first: str | Path | User,
    second: str | Path | User,
    files: Sequence[str | Path],
    *,
    task: str = "",
    columns: Sequence[str] = (),
) -> Comparison:
    """Compare two runs, or two files of outputs, line by line, on a test set.

    Translations by BLEU, chrF2 and TER with a paired bootstrap test, labels by accuracy with McNemar's,
    writers and chatbots by bits per byte. Of two files, `task` says what they hold: "translation"
    (the default) or "classification".
    """
    systems = [system_of(one) for one in (first, second)]
    runs = [one for one in systems if isinstance(one, User)]
    tasks: list[str] = sorted({run.config.task for run in runs}) or [task or "translation"]
    if len(tasks) > 1:
        raise ConfigError(
            f"The runs are for different tasks: {' and '.join(tasks)}.",
            "Compare two runs of one task.",
        )
    of_task = {"translation": compare_translations, "classification": compare_labels}
    if tasks[0] not in of_task and len(runs) < len(systems):
        raise ConfigError(
            f"Files of outputs cannot be compared for {tasks[0]}.", "Compare two run folders."
        )
    columns = columns or next((run.config.data.columns for run in runs), ())
    found = of_task.get(tasks[0], compare_bits)(systems, files, columns)
    return replace(found, names=distinct(*(one.name for one in systems)))


def system_of(system: str | Path | User) -> System:
    if isinstance(system, User):
        return system
    path = Path(system)
    return path if path.is_file() and not RunFolder(path).exists() else load(path)


def distinct(first: str, second: str) -> tuple[str, str]:
    return (first, second) if first != second else (f"{first} (1)", f"{second} (2)")


def compare_translations(
    systems: Sequence[System], files: Sequence[str | Path], columns: Sequence[str]
) -> Comparison:
    examples = list(pairs(*files, columns=columns))
    references = [pair.target for pair in examples]
    first, second = (
        evaluate_translations(one, examples, one.config.decode).lines
        if isinstance(one, Translator)
        else lines_of(one, len(examples))
        for one in systems
    )
    before, after = (metrics.sentence_chrf(side, references) for side in (first, second))
    gains = [b - a for a, b in zip(before, after, strict=True)]
    return Comparison(
        unit="sentences",
        n_examples=len(examples),
        scores=tuple(metrics.paired_bootstrap(first, second, references)),
        differences=by_gain(examples, (first, second), gains),
    )


def compare_labels(
    systems: Sequence[System], files: Sequence[str | Path], columns: Sequence[str]
) -> Comparison:
    examples = list(labelled(*files, columns=columns))
    sides = [
        evaluate_labels(one, examples).lines
        if isinstance(one, Classifier)
        else lines_of(one, len(examples))
        for one in systems
    ]
    first, second = ([frozenset(line.split(",")) for line in side] for side in sides)
    right = [frozenset(example.labels) for example in examples]
    gains = [100.0 * ((b == r) - (a == r)) for a, b, r in zip(first, second, right, strict=True)]
    asked = [(example.text, ",".join(example.labels)) for example in examples]
    return Comparison(
        unit="texts",
        n_examples=len(examples),
        scores=(metrics.mcnemar(first, second, right),),
        differences=by_gain(asked, sides, gains),
    )


def compare_bits(
    systems: Sequence[System], files: Sequence[str | Path], columns: Sequence[str]
) -> Comparison:
    """Bits per byte, which do not depend on the tokenizer; lower is better."""
    found = [
        evaluate(one, files, columns=columns).scores for one in systems if isinstance(one, User)
    ]
    first, second = (each["bits_per_byte"] for each in found)
    return Comparison(
        unit="bytes",
        n_examples=found[0]["bytes"],
        scores=(PairedScore(name="bits per byte", first=first, second=second),),
    )


def lines_of(system: System, n_examples: int) -> tuple[str, ...]:
    assert isinstance(system, Path), "a run answers by itself"
    lines = tuple(Lines(system))
    if len(lines) != n_examples:
        raise DataError(
            f"{system} has {len(lines):,} lines, and the test set {n_examples:,} examples.",
            "Give a file with one output for each example, in the same order.",
        )
    return lines


def by_gain(
    examples: Sequence[tuple[str, str]], sides: Sequence[Sequence[str]], gains: Sequence[float]
) -> tuple[Difference, ...]:
    """The examples that the systems answer differently, the greatest gain first.

    Of each example, the text and the right answer are given.
    """
    rows = zip(examples, *sides, gains, strict=True)
    found = [
        Difference(number=number, text=text, right=right, first=a, second=b, gain=gain)
        for number, ((text, right), a, b, gain) in enumerate(rows, 1)
        if a != b
    ]
    return tuple(sorted(found, key=lambda each: (-each.gain, each.number)))
