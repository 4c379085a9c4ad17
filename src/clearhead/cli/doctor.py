"""`clearhead doctor`: a corpus examined, told to people as tables and to programs as JSON."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli import options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from clearhead.doctor import Diagnosis, Finding, Fixed
    from clearhead.doctor.survey import Kind

BARS = " ▁▂▃▄▅▆▇█"
MARKS = {"error": ("✗", "bold red"), "warning": ("!", "bold magenta"), "note": ("·", "bold")}
"""Colours that can be read on light and on dark; the sign alone tells as much."""
WIDEST = 12
"""Characters of a file's name in the table."""
COUNTED = {
    "pairs": "pairs",
    "labelled": "labelled texts",
    "conversations": "conversations",
    "text": "lines",
}
KINDS: "dict[str, Kind]" = {
    "translation": "pairs",
    "chat": "conversations",
    "classification": "labelled",
    "writing": "text",
}
"""What the files of each task hold."""


FixInto = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Write the files without their faulty lines into this folder."
    ),
]
TaskOfFiles = Annotated[
    options.TaskName | None,
    typer.Option(
        metavar="TASK",
        help="What the files are for, if it is guessed wrongly: translation, chat, "
        "classification or writing.",
    ),
]


def doctor(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES", help="Two parallel files, a table, or a text; .gz files too."
        ),
    ],
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="FILES", help="Test files, whose examples must not be in FILES."),
    ] = None,
    fix: FixInto = None,
    task: TaskOfFiles = None,
    columns: options.Columns = None,
    as_json: options.OneJson = False,
) -> None:
    """Examine a corpus: what is wrong with it, and what to do.

    The exit code is 1 if there are errors and they are not fixed.

    - `clearhead doctor train.en train.de`
    - `clearhead doctor train.en train.de --test test.en test.de --fix cleaned`
    - `clearhead doctor labels.tsv --json`
    - `clearhead doctor talk.jsonl --task chat`
    """
    from clearhead.doctor import examine
    from clearhead.doctor import fix as write_fixed

    kind = KINDS[task] if task else None
    with options.progress_bar("{task.percentage:3.0f} %") as show:
        diagnosis = examine(files, test or (), kind=kind, columns=columns or (), progress=show)
    fixed = write_fixed(diagnosis, fix) if fix else None
    if as_json:
        values = diagnosis.as_dict() | ({"fixed": vars(fixed)} if fixed else {})
        typer.echo(json.dumps(values, ensure_ascii=False, indent=2))
    else:
        print_diagnosis(diagnosis, fixed)
    if not fixed and any(finding.severity == "error" for finding in diagnosis.findings):
        raise typer.Exit(1)


def print_diagnosis(diagnosis: "Diagnosis", fixed: "Fixed | None") -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    names = " · ".join(Path(path).name or path for path in diagnosis.paths)
    counted = f"   {diagnosis.examples:,} {COUNTED[diagnosis.kind]}\n"
    console.print(Text.assemble((names, "bold"), counted))
    console.print(sides_table(diagnosis), Text())
    for remark in remarks(diagnosis):
        console.print(Text(remark))
    for finding in diagnosis.findings:
        console.print(finding_block(finding))
    console.print(Text(closing_words(diagnosis, fixed)))


def sides_table(diagnosis: "Diagnosis") -> "RenderableType":
    """A row for each side; lengths are counted in characters."""
    from rich.table import Table

    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="")
    for name in ("", "line lengths", "median", "longest", "words", "distinct", "script"):
        is_number = name in ("median", "longest", "words", "distinct")
        grid.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    for part in diagnosis.sides:
        numbers = (part.median_length, part.longest, part.words, part.distinct_words)
        name = part.name if len(part.name) <= WIDEST else f"{part.name[: WIDEST - 1]}…"
        grid.add_row(name, sparkline(part.histogram), *(f"{n:,}" for n in numbers), part.script)
    return grid


def sparkline(counts: tuple[int, ...]) -> str:
    """A small histogram; the least bar still shows that something is there."""
    top = max(counts)
    return "".join(BARS[0 if not n else max(1, round(n / top * (len(BARS) - 1)))] for n in counts)


def remarks(diagnosis: "Diagnosis") -> list[str]:
    """What is worth knowing and no fault."""
    said = [
        f"{Path(path).name}: {sentence}."
        for path, found in diagnosis.notes.items()
        for sentence in found
    ]
    if labels := diagnosis.labels:
        listed = ", ".join(f'"{label}" ({count:,})' for label, count in list(labels.items())[:6])
        said.append(f"{len(labels):,} labels: {listed}{', …' if len(labels) > 6 else ''}.")
    unseen = [
        f"{side.unseen_words:.1%}" for side in diagnosis.sides if side.unseen_words is not None
    ]
    if unseen:
        words = f"{' and '.join(unseen)} of the words"
        said.append(
            f"In the {diagnosis.test_examples:,} test examples {words} are never seen in training."
        )
    return [*said, ""]


def finding_block(finding: "Finding") -> "RenderableType":
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    sign, style = MARKS[finding.severity]
    where = f"first at {Path(finding.path).name}:{finding.line}" if finding.line else finding.path
    head = Text.assemble((f"{sign} {finding.name}", style), f"  {finding.count:,}, {where}")
    example = Text(finding.example, style="italic", no_wrap=True, overflow="ellipsis")
    body = Group(*([example] if finding.example else []), Text(finding.advice))
    return Group(head, Padding(body, (0, 0, 1, 2)))


def closing_words(diagnosis: "Diagnosis", fixed: "Fixed | None") -> str:
    if fixed:
        left = ", ".join(f"{name} {count:,}" for name, count in fixed.left_out.items()) or "none"
        kept = f"Kept {fixed.kept:,} of {diagnosis.examples:,}; left out: {left}."
        return f"Written: {', '.join(fixed.paths)}\n{kept}"
    found = [finding.severity for finding in diagnosis.findings]
    counts = {severity: found.count(severity) for severity in MARKS if severity in found}
    if not counts:
        return "Nothing is wrong with it."
    told = ", ".join(f"{n} {name}{'s' if n > 1 else ''}" for name, n in counts.items())
    is_fixable = counts.keys() & {"error", "warning"} and diagnosis.can_be_fixed
    remedy = " `--fix FOLDER` writes the files without the faulty lines." if is_fixable else ""
    return f"{told}.{remedy}"
