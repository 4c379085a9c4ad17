"""`clearhead translate`: one line in, one line out, always and in order."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clearhead.cli import options
from clearhead.cli.lines import LineNotes, one_line, source_chunks

if TYPE_CHECKING:
    from clearhead.tasks import Translation, Translator


def translate(
    run: Annotated[str, options.run_of("a translator")],
    text: options.Text = None,
    input: options.Input = None,  # noqa: A002
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write; else to stdout.")
    ] = None,
    beam: options.Beam = None,
    n_best: Annotated[
        int | None, typer.Option(help="Translations per line, as number ||| text ||| score.")
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="A tab and the score after each translation.")
    ] = False,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="A tab and word links in the Pharaoh format (0-0).")
    ] = False,
    as_json: options.Json = False,
    glossary: Annotated[
        Path | None, typer.Option(metavar="TSV", help="Source term, tab, target term.")
    ] = None,
    protect: Annotated[
        list[str] | None,
        typer.Option(metavar="KINDS", help="numbers, tags or urls: copied unchanged."),
    ] = None,
    on_too_long: Annotated[
        Literal["split", "truncate", "error"],
        typer.Option(help="What to do with a line longer than the model can read."),
    ] = "split",
    errors: options.OnInvalid = "strict",
    ensemble: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="RUNS", help="More runs, to decode as an ensemble."),
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="8-bit weights: faster; a few outputs change.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes for --input; else one per processor for long input."),
    ] = None,
    settings: options.DecodeSettings = None,
) -> None:
    """Translate a text, or lines: of stdin, of files, or as you type them on a terminal.

    - `clearhead translate runs/en-de "A man rides a bike."`
    - `clearhead translate runs/en-de < in.txt > out.txt`
    - `clearhead translate runs/en-de --input in.txt.gz --output out.txt --glossary terms.tsv`
    - `clearhead translate runs/en-de "A man rides a bike." --n-best 3 --json`
    """
    from clearhead.tasks import Translator
    from clearhead.tasks.translation import read_glossary
    from clearhead.tasks.workers import in_workers

    runs = [run, *(ensemble or [])]
    translator = Translator.load(*runs, int8=int8)
    decode = options.decode_config(translator.config, settings, beam=beam)
    if n_best is not None:
        decode = decode.but(n_best=n_best, beam=max(n_best, decode.beam))
    how: dict[str, Any] = {
        "decode": decode,
        "glossary": read_glossary(glossary) if glossary else None,
        "protect": protect or (),
        "on_too_long": on_too_long,
    }
    chunks = source_chunks(text, input, errors)
    n_workers, chunks = shared_out(chunks, workers) if input else (1, chunks)
    if n_workers > 1:
        found = in_workers(runs, chunks, n_workers=n_workers, int8=int8, **how)
    else:
        found = translator.in_chunks(chunks, **how)
    shape = Shape(
        translator, many=(n_best or 1) > 1, scores=scores, alignments=alignments, as_json=as_json
    )
    notes = LineNotes()
    with (
        output.open("w", encoding="utf-8", newline="\n")
        if output
        else nullcontext(sys.stdout) as file
    ):
        for number, translation in enumerate(counted(found, output)):
            file.writelines(f"{line}\n" for line in shape.lines(number, translation))
            file.flush()
            notes.add(number + 1, translation.notes)
    notes.print()


def shared_out(
    chunks: Iterable[Sequence[str]], workers: int | None
) -> tuple[int, Iterable[Sequence[str]]]:
    """The number of processes, and the lines, the first of which tell whether they are many."""
    from clearhead.machine import n_processors
    from clearhead.tasks.workers import MANY

    rest, first, n_lines = iter(chunks), list[Sequence[str]](), 0
    while n_lines <= MANY and (chunk := next(rest, None)) is not None:
        first.append(chunk)
        n_lines += len(chunk)
    return workers or (n_processors() if n_lines > MANY else 1), chain(first, rest)


def counted(translations: "Iterable[Translation]", output: Path | None) -> "Iterator[Translation]":
    """The translations as they are; a progress bar shows their number while they go to a file."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    if output is None:
        yield from translations
        return
    columns = (
        TextColumn("translating"),
        BarColumn(),
        TextColumn("{task.completed:,} lines"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        for translation in translations:
            yield translation
            bar.advance(task)


@dataclass(frozen=True)
class Shape:
    """How translations become lines."""

    translator: "Translator"
    many: bool
    """Several translations of each line, numbered."""
    scores: bool
    alignments: bool
    as_json: bool

    def lines(self, number: int, translation: "Translation") -> Iterator[str]:
        if self.as_json:
            yield json.dumps(self.details(translation), ensure_ascii=False)
            return
        for one in (translation, *translation.alternatives):
            text = one_line(one.text)
            if self.many:
                text = f"{number} ||| {text} ||| {one.score:.4f}"
            elif self.scores:
                text += f"\t{one.score:.4f}"
            if self.alignments:
                links = self.translator.align(translation.source, one.text) if one.text else ""
                text += f"\t{links}"
            yield text

    def details(self, translation: "Translation") -> dict[str, Any]:
        names = "source", "text", "score", "tokens", "log_probs", "notes"
        values: dict[str, Any] = {name: getattr(translation, name) for name in names}
        if self.alignments and translation.text:
            values["alignment"] = self.translator.align(translation.source, translation.text).links
        others = [{"text": one.text, "score": one.score} for one in translation.alternatives]
        return values | {"alternatives": others}
