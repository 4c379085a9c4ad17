"""`clearhead translate`: one line in, one line out, always and in order."""

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clearhead.cli.evaluation import Evaluation
from clearhead.errors import DataError

if TYPE_CHECKING:
    from clearhead.tasks import Translation, Translator


def translate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder of a translator.")],
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What to translate; else stdin or --input.")
    ] = None,
    input: Annotated[  # noqa: A002
        list[str] | None, typer.Option(metavar="FILES", help="Files to translate.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write; else to stdout.")
    ] = None,
    beam: Annotated[
        int | None, typer.Option(help="Hypotheses kept at every step; 1 is greedy.")
    ] = None,
    n_best: Annotated[
        int | None, typer.Option(help="Translations per line, as number ||| text ||| score.")
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="A tab and the score after each translation.")
    ] = False,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="A tab and Pharaoh's word links.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line of JSON per translation, with all there is.")
    ] = False,
    glossary: Annotated[
        Path | None, typer.Option(metavar="TSV", help="Source term, tab, target term.")
    ] = None,
    protect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KINDS", help="numbers, tags or urls: what must come out as it went in."
        ),
    ] = None,
    on_too_long: Annotated[
        Literal["split", "truncate", "error"],
        typer.Option(help="What to do with a line longer than the model reads."),
    ] = "split",
    errors: Annotated[
        Literal["strict", "replace"], typer.Option(help="What to do with invalid UTF-8.")
    ] = "strict",
    ensemble: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="RUNS", help="More runs that decide together with the first."
        ),
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Round the matrices to 8 bits: faster, other words.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes for --input; else one per processor when it is long."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="decode.NAME=VALUE", help="Any setting of decoding."),
    ] = None,
) -> None:
    """Translate a text, the lines of stdin or of files, or, on a terminal, line by line as you type.

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
    options = asked(translator, beam, n_best, settings or [])
    options |= {"glossary": read_glossary(glossary) if glossary else None, "protect": protect or ()}
    options |= {"on_too_long": on_too_long}
    tell = Teller(translator, (n_best or 1) > 1, scores, alignments, as_json)
    chunks = source_chunks(text, input or [], errors)
    n_workers, chunks = shared_out(chunks, workers) if input else (1, chunks)
    found = translator.in_chunks(chunks, **options)
    if n_workers > 1:
        found = in_workers(runs, chunks, n_workers, int8, options)
    with (
        output.open("w", encoding="utf-8", newline="\n")
        if output
        else nullcontext(sys.stdout) as file
    ):
        for number, translation in enumerate(shown_progress(found, output)):
            file.writelines(f"{line}\n" for line in tell.lines(number, translation))
            file.flush()
    tell.warn()


def asked(
    translator: "Translator", beam: int | None, n_best: int | None, sets: list[str]
) -> dict[str, Any]:
    """The decoding options that a command line means."""
    from clearhead.config import with_settings

    options = with_settings(translator.config, sets).decode.model_dump()
    if beam is not None:
        options["beam"] = beam
    if n_best is not None:
        options |= {"n_best": n_best, "beam": max(n_best, options["beam"])}
    return options


def source_chunks(
    text: str | None, files: list[str], errors: Literal["strict", "replace"]
) -> Iterable[Sequence[str]]:
    """What to translate: the text, the lines of files, of a terminal or of a pipe, as many at a time as have come."""
    from clearhead.data.lines import Lines
    from clearhead.tasks.translation import CHUNK

    if text is not None:
        if files:
            raise DataError(
                "There is a text and --input: only one of them can be translated.", "Leave one out."
            )
        return [[text]]
    if not files and sys.stdin.isatty():
        return typed()
    blocks = Lines(files or "-", errors).blocks()
    return (
        block.lines[start : start + CHUNK]
        for block in blocks
        for start in range(0, len(block.lines), CHUNK)
    )


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


def shared_out(
    chunks: Iterable[Sequence[str]], workers: int | None
) -> tuple[int, Iterable[Sequence[str]]]:
    """How many processes to translate with, and the lines, the first of which are read to see whether they are many."""
    from clearhead.machine import n_processors
    from clearhead.tasks.workers import MANY

    rest, first, n_lines = iter(chunks), list[Sequence[str]](), 0
    while n_lines <= MANY and (chunk := next(rest, None)) is not None:
        first.append(chunk)
        n_lines += len(chunk)
    return workers or (n_processors() if n_lines > MANY else 1), chain(first, rest)


def shown_progress(
    translations: "Iterable[Translation]", output: Path | None
) -> "Iterator[Translation]":
    """The translations as they are; with a count of them when they go to a file and somebody watches."""
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


class Teller:
    """Translations as lines, and what was noticed on the way."""

    def __init__(
        self, translator: "Translator", many: bool, scores: bool, alignments: bool, as_json: bool
    ) -> None:
        self.translator, self.many, self.scores, self.alignments = (
            translator,
            many,
            scores,
            alignments,
        )
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
                text += (
                    f"\t{self.translator.align(translation.source, one.text) if one.text else ''}"
                )
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
        return values | {
            "alternatives": [
                {"text": one.text, "score": one.score} for one in translation.alternatives
            ]
        }

    def warn(self) -> None:
        """Tell what was noticed, once for all lines that it concerns."""
        for note, numbers in self.noted.items():
            others = f" and {len(numbers) - 1:,} more" if len(numbers) > 1 else ""
            sys.stderr.write(f"line {numbers[0]:,}{others}: {note}\n")


def one_line(text: str) -> str:
    """The text without line ends: one line in is one line out."""
    return text.replace("\n", " ")


def evaluated(
    run: str, files: list[str], beam: int | None, output: Path | None, settings: list[str]
) -> Evaluation:
    """Translate a test set and compare with its references: BLEU and chrF with their signatures, speed, guard hits."""
    from clearhead import metrics
    from clearhead.data.examples import pairs
    from clearhead.tasks import Translator

    translator = Translator.load(run)
    examples = list(pairs(*files))
    begin = time.perf_counter()
    found = translator.translate(
        [pair.source for pair in examples], **asked(translator, beam, None, settings)
    )
    seconds = time.perf_counter() - begin
    texts, references = [one_line(one.text) for one in found], [pair.target for pair in examples]
    scores = [metrics.bleu(texts, references), metrics.chrf(texts, references)]
    n_tokens = sum(len(one.tokens) + 1 for one in found)
    if output:
        output.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8", newline="\n")
    values: dict[str, Any] = {
        score.name: {"value": score.value, "signature": score.signature} for score in scores
    }
    values |= {"sentences": len(found), "seconds": seconds, "tokens_per_second": n_tokens / seconds}
    values |= {"guard_hits": sum(bool(one.notes) for one in found)}
    speed = (
        f"{len(found):,} sentences in {seconds:.1f} s: {len(found) / seconds:,.0f} sentences/s, "
        f"{n_tokens / seconds:,.0f} tokens/s; guard hits: {values['guard_hits']}"
    )
    return Evaluation(values, "\n".join([*map(str, scores), speed]))
