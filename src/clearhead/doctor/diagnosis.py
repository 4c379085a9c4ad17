"""The examination: figures and findings of a corpus, and its files written without faults."""

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from clearhead.data.examples import LINE_ENDS_ELSEWHERE, Examples, Row
from clearhead.data.lines import Progress, is_pipe
from clearhead.disk import atomic_file, make_folder
from clearhead.doctor.findings import MANY_UNSEEN, Finding, Mask, findings
from clearhead.doctor.survey import SCRIPTS, Kind, Side, Survey, corpus_of, kind_of, survey
from clearhead.errors import DataError, shown

HISTOGRAM_BARS = 16
SPACES_FOR_LINE_ENDS = str.maketrans(dict.fromkeys(LINE_ENDS_ELSEWHERE, " "))


@dataclass(frozen=True, kw_only=True)
class SideSummary:
    name: str
    characters: int
    words: int
    distinct_words: int
    words_seen_once: int
    distinct_characters: int
    characters_seen_once: int
    script: str
    median_length: int
    longest: int
    histogram: tuple[int, ...]
    """Lines by length in characters, in equal steps; the last column holds all longer ones too."""
    step: int
    """Characters per column of the histogram."""
    unseen_words: float | None
    """Share of the test text's words that training never shows; None without a test text."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What an examination found; `findings` is empty for a clean corpus."""

    paths: tuple[str, ...]
    kind: Kind
    columns: tuple[str, ...]
    """Which columns of tables were read, where that was said."""
    examples: int
    test_examples: int | None
    labels: dict[str, int]
    notes: dict[str, list[str]]
    """By file, what reading put right quietly, such as CR LF."""
    sides: tuple[SideSummary, ...]
    findings: tuple[Finding, ...]

    @property
    def can_be_fixed(self) -> bool:
        """Leaving lines out of one file only would be guessing which."""
        return all(finding.name != "lines without a partner" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """The same for programs; which examples are at fault is told by counts and first lines."""
        found = [
            {k: v for k, v in vars(finding).items() if k != "left_out"} for finding in self.findings
        ]
        return vars(self) | {"sides": [asdict(side) for side in self.sides], "findings": found}


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """What `fix` wrote, and how many examples each fault cost, each counted once."""

    paths: tuple[str, ...]
    kept: int
    left_out: dict[str, int]


def examine(
    paths: Sequence[str | Path],
    test_paths: Sequence[str | Path] = (),
    *,
    kind: Kind | None = None,
    columns: Sequence[str] = (),
    progress: Progress = lambda *_: None,
) -> Diagnosis:
    """One pass over the files, then a look at the first line of every fault.

    `kind` is told by the files themselves unless given; `progress` hears of bytes.
    """
    names = [str(path) for path in paths]
    kind = kind or kind_of(names)
    examples = corpus_of(names, kind, columns)
    corpus = survey(examples, kind, progress)
    if not len(corpus):
        raise DataError(
            f"{shown(', '.join(names))}: nothing to examine, the files are empty.",
            "Give files with text.",
        )
    test = survey(corpus_of(map(str, test_paths), kind, columns), kind) if test_paths else None
    found = findings(corpus, test or Survey(kind), lambda wanted: fetch(examples, wanted))
    sides = tuple(
        summary(side, name, test.sides[number] if test else None)
        for number, (side, name) in enumerate(zip(corpus.sides, side_names(corpus), strict=True))
    )
    return Diagnosis(
        paths=tuple(names),
        kind=kind,
        columns=tuple(columns),
        examples=len(corpus),
        test_examples=len(test) if test else None,
        labels=dict(corpus.labels.most_common()),
        sides=sides,
        findings=(*found, *unseen(corpus, sides)),
        notes={path: note.sentences() for path, note in examples.notes.items() if note.sentences()},
    )


def side_names(corpus: Survey) -> tuple[str, ...]:
    files = corpus.starts[0][1]
    if len(corpus.starts) == 1 and len(files) == len(corpus.sides):
        return tuple(Path(file).name for file in files)
    return ("source", "target") if corpus.kind == "pairs" else ("text",)


def summary(side: Side, name: str, test: Side | None) -> SideSummary:
    lengths = np.asarray(side.traits.lengths)
    step = max(1, -(-int(np.percentile(lengths, 99)) // HISTOGRAM_BARS))
    bars = np.bincount(np.minimum(lengths // step, HISTOGRAM_BARS - 1), minlength=HISTOGRAM_BARS)
    scripts = np.bincount(np.asarray(side.scripts), minlength=2)[1:]
    words, characters = side.words, side.characters
    tested = test.words if test else Counter[str]()
    unseen = sum(count for word, count in tested.items() if word not in words)
    return SideSummary(
        name=name,
        characters=characters.total(),
        words=words.total(),
        distinct_words=len(words),
        words_seen_once=once(words),
        distinct_characters=len(characters),
        characters_seen_once=once(characters),
        script=SCRIPTS[int(scripts.argmax()) + 1].capitalize() if scripts.any() else "",
        median_length=int(np.median(lengths)),
        longest=int(lengths.max()),
        histogram=tuple(map(int, bars)),
        step=step,
        unseen_words=unseen / max(1, tested.total()) if test else None,
    )


def once(counts: dict[str, int]) -> int:
    return sum(count == 1 for count in counts.values())


def unseen(corpus: Survey, sides: Iterable[SideSummary]) -> list[Finding]:
    """A finding when the test text speaks of other things; it takes words that spaces part."""
    return [
        Finding(
            name="unseen words",
            severity="note",
            count=1,
            path=side.name,
            line=0,
            example=f"{side.unseen_words:.0%} of the test text's words",
            advice="Training never shows them: the test is of another kind, "
            "or there is too little text.",
            left_out=np.zeros(len(corpus), dtype=bool),
        )
        for side in sides
        if side.unseen_words is not None
        and side.unseen_words > MANY_UNSEEN
        and side.script not in ("Han", "Thai")
    ]


def fetch(examples: Examples[Any], wanted: set[int]) -> dict[int, Row[Any]]:
    """Single examples, found by reading as far as needed; what came through a pipe is gone."""
    if not wanted or any(map(is_pipe, examples.paths)):
        return {}
    rows = islice((row for row in examples.rows() if not row.is_header), max(wanted) + 1)
    return {index: row for index, row in enumerate(rows) if index in wanted}


def fix(diagnosis: Diagnosis, out: str | Path) -> Fixed:
    """Write the files without the examples at fault, under their own names in the folder `out`.

    Files appear only when all are complete. Nothing that exists is written over.
    """
    if not diagnosis.can_be_fixed:
        raise DataError(
            "Files of unequal length cannot be fixed by leaving lines out: which ones is a guess.",
            "Make both files again from one table, then run the doctor again.",
        )
    examples = corpus_of(diagnosis.paths, diagnosis.kind, diagnosis.columns)
    targets = fixed_paths(examples.paths, Path(out))
    drop, left_out = np.zeros(diagnosis.examples, bool), {}
    for finding in diagnosis.findings:
        left_out[finding.name] = int(np.count_nonzero(finding.left_out & ~drop))
        drop |= finding.left_out
    if drop.all():
        raise DataError(
            f"None of the {len(drop):,} examples is without a fault: nothing would be left.",
            "Look at the findings: often one setting is wrong for all, such as the columns to read "
            "(--columns).",
        )
    make_folder(Path(out))
    write_kept(examples, targets, drop)
    return Fixed(
        paths=tuple(map(str, targets.values())),
        kept=int(np.count_nonzero(~drop)),
        left_out={name: count for name, count in left_out.items() if count},
    )


def fixed_paths(paths: Iterable[str], out: Path) -> dict[str, Path]:
    """Where each file is written without its faults, if it can be read again and nothing is there."""
    if any(map(is_pipe, paths)):
        raise DataError(
            "What came through a pipe cannot be read again to fix it.",
            "Save it to a file and give that.",
        )
    targets = {path: out / Path(path).name for path in paths}
    if taken := next((target for target in targets.values() if target.exists()), None):
        raise DataError(
            f"{taken} exists already.", "Give a folder that does not hold it: --fix cleaned"
        )
    if len(set(targets.values())) < len(targets):
        raise DataError(
            f"Two files have one name: {shown(', '.join(targets))}.",
            "Fix them one after the other.",
        )
    return targets


def write_kept(examples: Examples[Any], targets: dict[str, Path], drop: Mask) -> None:
    kept = iter(~drop)
    with ExitStack() as stack:
        files = {path: stack.enter_context(fixed_file(target)) for path, target in targets.items()}
        for row in examples.rows():
            if row.is_header or next(kept):
                for path, raw in zip(row.paths, row.raws, strict=True):
                    files[path].write(raw.translate(SPACES_FOR_LINE_ENDS).encode() + b"\n")


@contextmanager
def fixed_file(target: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    """A file that is written atomically; gzip if it is called so."""
    with atomic_file(target) as file:
        if target.suffix != ".gz":
            yield file.file
        else:
            with gzip.GzipFile("", "wb", 6, file.file, 0) as packed:
                yield packed
