"""`clearhead translate`: one line in, one line out, always and in order."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clearhead.errors import DataError

if TYPE_CHECKING:
    from clearhead.tasks import Translation, Translator


def translate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder of a translator.")],
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What to translate; else stdin or --input.")
    ] = None,
    input: Annotated[list[str] | None, typer.Option(metavar="FILES", help="Files to translate.")] = None,  # noqa: A002
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write; else to stdout.")] = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept at every step; 1 is greedy.")] = None,
    n_best: Annotated[int | None, typer.Option(help="Translations per line, as number ||| text ||| score.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="A tab and the score after each translation.")] = False,
    alignments: Annotated[bool, typer.Option("--alignments", help="A tab and Pharaoh's word links.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON per translation, with all there is.")] = False,
    glossary: Annotated[Path | None, typer.Option(metavar="TSV", help="Source term, tab, target term.")] = None,
    protect: Annotated[
        list[str] | None, typer.Option(metavar="KINDS", help="numbers, tags or urls: what must come out as it went in.")
    ] = None,
    on_too_long: Annotated[
        Literal["split", "truncate", "error"], typer.Option(help="What to do with a line longer than the model reads.")
    ] = "split",
    errors: Annotated[Literal["strict", "replace"], typer.Option(help="What to do with invalid UTF-8.")] = "strict",
    ensemble: Annotated[
        list[str] | None, typer.Option("--with", metavar="RUNS", help="More runs that decide together with the first.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="decode.NAME=VALUE", help="Any setting of decoding.")
    ] = None,
) -> None:
    """Translate a text, the lines of stdin or of files, or, on a terminal, line by line as you type.

    - `clearhead translate runs/en-de "A man rides a bike."`
    - `clearhead translate runs/en-de < in.txt > out.txt`
    - `clearhead translate runs/en-de --input in.txt.gz --output out.txt --glossary terms.tsv`
    - `clearhead translate runs/en-de "A man rides a bike." --n-best 3 --json`
    """
    from clearhead.tasks import Translator
    from clearhead.tasks.glossary import read_glossary

    translator = Translator.load(run, *(ensemble or []))
    options = asked(translator, beam, n_best, settings or [])
    options |= {"glossary": read_glossary(glossary) if glossary else None, "protect": protect or ()}
    options |= {"on_too_long": on_too_long}
    tell = Teller(translator, (n_best or 1) > 1, scores, alignments, as_json)
    chunks = shown_progress(source_chunks(text, input or [], errors), output)
    with output.open("w", encoding="utf-8", newline="\n") if output else nullcontext(sys.stdout) as file:
        for number, translation in enumerate(translator.in_chunks(chunks, **options)):
            file.writelines(f"{line}\n" for line in tell.lines(number, translation))
            file.flush()
    tell.warn()


def asked(translator: "Translator", beam: int | None, n_best: int | None, sets: list[str]) -> dict[str, Any]:
    """The decoding options that a command line means."""
    from clearhead.config import with_settings

    options = with_settings(translator.config, sets).decode.model_dump()
    if beam is not None:
        options["beam"] = beam
    if n_best is not None:
        options |= {"n_best": n_best, "beam": max(n_best, options["beam"])}
    return options


def source_chunks(text: str | None, files: list[str], errors: Literal["strict", "replace"]) -> Iterable[Sequence[str]]:
    """What to translate: the text, the lines of files, of a terminal or of a pipe, as many at a time as have come."""
    from clearhead.data.lines import Lines
    from clearhead.tasks.translator import CHUNK

    if text is not None:
        if files:
            raise DataError("There is a text and --input: only one of them can be translated.\nLeave one out.")
        return [[text]]
    if not files and sys.stdin.isatty():
        return typed()
    blocks = Lines(files or "-", errors).blocks()
    return (block.lines[start : start + CHUNK] for block in blocks for start in range(0, len(block.lines), CHUNK))


def typed() -> Iterator[list[str]]:
    """Lines from a terminal; Ctrl-D ends them."""
    sys.stderr.write("Type a text and Enter; Ctrl-D ends.\n")
    while True:
        sys.stderr.write("> ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            return
        yield [line.removesuffix("\n")]


def shown_progress(chunks: Iterable[Sequence[str]], output: Path | None) -> Iterator[Sequence[str]]:
    """The lines as they are; with a bar when they go to a file and somebody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    if output is None:
        yield from chunks
        return
    columns = TextColumn("translating"), BarColumn(), TextColumn("{task.completed:,} lines"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        for chunk in chunks:
            yield chunk
            bar.advance(task, len(chunk))


class Teller:
    """Translations as lines, and what was noticed on the way."""

    def __init__(self, translator: "Translator", many: bool, scores: bool, alignments: bool, as_json: bool) -> None:
        self.translator, self.many, self.scores, self.alignments = translator, many, scores, alignments
        self.as_json = as_json
        self.noted: dict[str, list[int]] = {}

    def lines(self, number: int, translation: "Translation") -> Iterator[str]:
        for note in translation.notes:
            self.noted.setdefault(note, []).append(number + 1)
        if self.as_json:
            yield json.dumps(self.everything(translation), ensure_ascii=False)
            return
        for one in (translation, *translation.alternatives):
            text = one_line(one.text)
            if self.many:
                text = f"{number} ||| {text} ||| {one.score:.4f}"
            elif self.scores:
                text += f"\t{one.score:.4f}"
            if self.alignments:
                text += f"\t{self.translator.align(translation.source, one.text) if one.text else ''}"
            yield text

    def everything(self, translation: "Translation") -> dict[str, Any]:
        values: dict[str, Any] = {
            "source": translation.source,
            "text": translation.text,
            "score": translation.score,
            "tokens": translation.tokens,
            "log_probs": translation.log_probs,
            "notes": translation.notes,
        }
        if self.alignments and translation.text:
            values["alignment"] = self.translator.align(translation.source, translation.text).links
        return values | {"alternatives": [{"text": one.text, "score": one.score} for one in translation.alternatives]}

    def warn(self) -> None:
        """Tell what was noticed, once for all lines that it concerns."""
        for note, numbers in self.noted.items():
            others = f" and {len(numbers) - 1:,} more" if len(numbers) > 1 else ""
            sys.stderr.write(f"line {numbers[0]:,}{others}: {note}\n")


def one_line(text: str) -> str:
    """The text without line ends: one line in is one line out."""
    return text.replace("\n", " ")
