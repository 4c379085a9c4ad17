"""`clearhead translate`, `classify` and `fill`: one line in, one line out, always and in order."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clearhead.cli import options, shards
from clearhead.disk import output_file
from clearhead.errors import DataError

if TYPE_CHECKING:
    from clearhead.exchange.backend import CTranslate2
    from clearhead.exchange.engine import WhereItPays
    from clearhead.scale import Answer
    from clearhead.tasks import Classification, Translation, Translator, User


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """What to translate, with what, and which translations are wanted in which form."""

    input: options.Input = None
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write; else to stdout.")
    ] = None
    beam: options.Beam = None
    n_best: Annotated[
        int | None, typer.Option(help="Translations per line, as number ||| text ||| score.")
    ] = None
    scores: Annotated[
        bool, typer.Option("--scores", help="A tab and the score after each translation.")
    ] = False
    alignments: Annotated[
        bool, typer.Option("--alignments", help="A tab and word links in the Pharaoh format (0-0).")
    ] = False
    as_json: options.Json = False
    glossary: Annotated[
        Path | None, typer.Option(metavar="TSV", help="Source term, tab, target term.")
    ] = None
    protect: Annotated[
        list[str] | None,
        typer.Option(metavar="KINDS", help="numbers, tags, urls or emoji: copied unchanged."),
    ] = None
    on_too_long: Annotated[
        Literal["split", "truncate", "error"],
        typer.Option(help="What to do with a line longer than the model can read."),
    ] = "split"
    errors: options.OnInvalid = "strict"
    ensemble: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="RUNS", help="More runs, to decode as an ensemble."),
    ] = None
    int8: Annotated[
        bool, typer.Option("--int8", help="8-bit weights: faster; a few outputs change.")
    ] = False
    engine: options.Engine = "auto"
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes for --input; else one per processor for long input."),
    ] = None
    checkpoint: options.Checkpoint = ""
    quiet: options.Quiet = False
    settings: options.DecodeSettings = None

    def job(self, run: str) -> "TranslateLines":
        """What any process needs that translates with a run."""
        from clearhead.folder import RunFolder
        from clearhead.tasks.translation import read_glossary

        config = RunFolder.open(run).config()
        decode = options.decode_config(config, self.settings, beam=self.beam)
        if self.n_best is not None:
            decode = decode.but(n_best=self.n_best, beam=max(self.n_best, decode.beam))
        return TranslateLines(
            runs=[run, *(self.ensemble or [])],
            loading={"int8": self.int8, "checkpoint": self.checkpoint},
            how={
                "decode": decode,
                "glossary": read_glossary(self.glossary) if self.glossary else None,
                "protect": self.protect or (),
                "on_too_long": self.on_too_long,
            },
            form={
                "many": (self.n_best or 1) > 1,
                "scores": self.scores,
                "alignments": self.alignments,
                "as_json": self.as_json,
            },
        )


def translate(
    run: Annotated[str, options.run_argument("a translator")],
    text: options.Text = None,
    *,
    asked: TranslateOptions,
    parts: shards.Parts,
) -> None:
    """Translate a text, or lines of stdin or files.

    - `clearhead translate runs/en-de "A man rides a bike."`
    - `clearhead translate runs/en-de < in.txt > out.txt`
    - `clearhead translate runs/en-de --input in.txt.gz --output out.txt --glossary terms.tsv`
    - `clearhead translate runs/en-de "A man rides a bike." --n-best 3 --json`
    - `clearhead translate runs/en-de --input big.txt --into parts --shard 3/100`
    """
    with options.busy(f"loading {run}"):
        job = asked.job(run)
    if not parts.into:
        translate_here(run, text, job, asked)
        return
    files = shards.ShardedFiles(
        parts=parts,
        files=asked.input or [],
        errors=asked.errors,
        runs=job.runs,
        checkpoint=asked.checkpoint,
        options={"verb": "translate", **job.how, **job.form, "int8": asked.int8},
        load=job,
        quiet=asked.quiet,
    )
    files.answer_or_join(asked.output)


def translate_here(
    run: str, text: str | None, job: "TranslateLines", asked: TranslateOptions
) -> None:
    """Translate on this machine, in one process or several, and write each line as it comes."""
    with options.busy(f"loading {run}"):
        translator = job.translator()
    backend = options.choose_engine(
        translator,
        run,
        job.how["decode"],
        engine=asked.engine,
        checkpoint=asked.checkpoint,
        own_only={"--with": asked.ensemble},
        int8=asked.int8,
        workers=asked.workers,
        quiet=asked.quiet,
    )
    chunks = source_chunks(None if asked.quiet else translator, text, asked.input, asked.errors)
    n_workers, beam = 1, job.how["decode"].beam
    if asked.input:
        n_workers, chunks = shared_out(chunks, asked.workers, beam)
    found = job.translations(translator, chunks, n_workers, backend)
    try:
        write_lines(found, job.form_of(translator).lines, asked.output, quiet=asked.quiet)
    finally:
        if backend:
            backend.close()


@dataclass(frozen=True, kw_only=True)
class TranslateLines:
    """How this or another process translates lines: what is loaded there, and what it is told."""

    runs: list[str]
    loading: dict[str, Any]
    how: dict[str, Any]
    form: dict[str, bool]

    def translator(self) -> "Translator":
        from clearhead.tasks import Translator

        return Translator.load(*self.runs, **self.loading)

    def form_of(self, translator: "Translator") -> "LineForm":
        return LineForm(translator, **self.form)

    def __call__(self) -> "Answer":
        translator = self.translator()
        form = self.form_of(translator)

        def answer(lines: Sequence[str], first: int) -> list[str]:
            found = translator.in_chunks([lines], scored=form.is_scored, **self.how)
            return [line for n, each in enumerate(found, first) for line in form.lines(n, each)]

        return answer

    def translations(
        self,
        translator: "Translator",
        chunks: Iterable[Sequence[str]],
        n_workers: int,
        backend: "CTranslate2 | WhereItPays | None",
    ) -> "Iterator[Translation]":
        """The translations of all lines, by this process, its threads or workers of its own."""
        from clearhead.tasks.runs import in_threads, in_workers

        how = self.how | {"scored": self.form_of(translator).is_scored}
        if n_workers == 1:
            return translator.in_chunks(chunks, **how)
        if backend and backend.is_ready():
            return in_threads(lambda texts: translator.translate(texts, **how), chunks, n_threads=2)
        return in_workers(self.runs, chunks, n_workers=n_workers, **self.loading, **how)


def shared_out(
    chunks: Iterable[Sequence[str]], workers: int | None, beam: int
) -> tuple[int, Iterable[Sequence[str]]]:
    """The number of processes, and the lines, the first of which tell whether they are many.

    Lines count as often as the beam is wide, for so much longer they take.
    """
    from clearhead.machine import n_processors
    from clearhead.tasks.runs import MANY, even_chunks

    rest, enough = iter(chunks), 4 * (workers or n_processors())
    first: list[Sequence[str]] = list(islice(rest, enough))
    lines = [line for chunk in first for line in chunk]
    n_workers = workers or (n_processors() if len(lines) * beam > MANY else 1)
    if n_workers > 1 and len(first) < enough:  # that is all: nobody shall be idle
        first = [*even_chunks(lines, n_workers)]
    return n_workers, chain(first, rest)


@dataclass(frozen=True)
class LineForm:
    """How translations become lines."""

    translator: "Translator"
    many: bool
    """Several translations of each line, numbered."""
    scores: bool
    alignments: bool
    as_json: bool

    @property
    def is_scored(self) -> bool:
        """Whether the lines tell how likely the translations are."""
        return self.many or self.scores or self.as_json

    def lines(self, number: int, translation: "Translation") -> Iterator[str]:
        if self.as_json:
            yield json.dumps(self.details(translation), ensure_ascii=False)
            return
        for one in (translation, *translation.alternatives):
            text = one.text.replace("\n", " ")
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


Probabilities = Annotated[
    bool,
    typer.Option(
        "--probabilities", help="After the label, a tab and each label with its probability."
    ),
]
Top = Annotated[
    int | None, typer.Option(min=1, help="The same for this many of the likeliest labels.")
]


def classify(
    run: Annotated[str, options.run_argument("a classifier")],
    text: options.Text = None,
    *,
    input: options.Input = None,  # noqa: A002
    probabilities: Probabilities = False,
    top: Top = None,
    as_json: options.Json = False,
    errors: options.OnInvalid = "strict",
    checkpoint: options.Checkpoint = "",
    quiet: options.Quiet = False,
    parts: shards.Parts,
) -> None:
    """Label a text, or each line of stdin or files. Commas join several labels.

    - `clearhead classify runs/mood "What a lovely film!"`
    - `clearhead classify runs/mood --probabilities < reviews.txt > labels.txt`
    - `clearhead classify runs/intents "Where is my card?" --top 3`
    """
    n_shown = top if top is not None else None if probabilities else 0
    if parts.into:
        form = {"n_shown": n_shown, "as_json": as_json}
        files = shards.ShardedFiles(
            parts=parts,
            files=input or [],
            errors=errors,
            runs=[run],
            checkpoint=checkpoint,
            options={"verb": "classify", **form},
            load=ClassifyLines(run, checkpoint, form),
            quiet=quiet,
        )
        files.answer_or_join()
        return
    with options.busy(f"loading {run}"):
        from clearhead.tasks import Classifier

        classifier = Classifier.load(run, checkpoint=checkpoint)
    found = classifier.in_chunks(source_chunks(None if quiet else classifier, text, input, errors))
    write_lines(found, lambda _, each: [label_line(each, n_shown, as_json)], quiet=quiet)


@dataclass(frozen=True)
class ClassifyLines:
    """How another process labels lines as this one would."""

    run: str
    checkpoint: str
    form: dict[str, Any]

    def __call__(self) -> "Answer":
        from clearhead.tasks import Classifier

        classifier = Classifier.load(self.run, checkpoint=self.checkpoint)
        return lambda lines, _: [
            label_line(each, **self.form) for each in classifier.in_chunks([lines])
        ]


def label_line(found: "Classification", n_shown: int | None, as_json: bool) -> str:
    """The label and so many probabilities, all for None; as JSON all of them."""
    if as_json:
        values = {"text": found.text, "labels": found.labels, "probabilities": found.probabilities}
        return json.dumps(values | {"notes": found.notes}, ensure_ascii=False)
    each = [f"{label} {probability:.4f}" for label, probability in found.probabilities.items()]
    return "\t".join([str(found), *each[:n_shown]])


def fill(
    run: Annotated[str, options.run_argument("a masked-token model")],
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="Text with gaps, each two or more underscores.")
    ],
    n_best: Annotated[int, typer.Option(min=1, help="Words per gap.")] = 5,
    as_json: options.OneJson = False,
    checkpoint: options.Checkpoint = "",
) -> None:
    """Fill the gaps of a text, and list other words that would fit.

    - `clearhead fill runs/books "the capital of France is ____"`
    """
    from clearhead.tasks import Filler

    filler = Filler.load(run, checkpoint=checkpoint)
    found = filler.fill(text, n_best)
    options.tell(filler.note_on(text))
    if as_json:
        gaps = [{candidate.word: candidate.probability for candidate in gap} for gap in found.gaps]
        typer.echo(json.dumps({"text": str(found), "gaps": gaps}, ensure_ascii=False))
        return
    typer.echo(str(found))
    for number, gap in enumerate(found.gaps, 1):
        words = ", ".join(f"{candidate.word} {candidate.probability:.1%}" for candidate in gap)
        typer.echo(f"  gap {number}: {words}" if len(found.gaps) > 1 else f"  {words}")


@dataclass(frozen=True, kw_only=True)
class Others:
    """The texts that texts are compared with, if they are."""

    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="How alike each line is to that of the same number here."
        ),
    ] = None
    among: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The lines of this file that are most like each text."),
    ] = None
    n_best: Annotated[int, typer.Option(min=1, help="Lines of --among for each text.")] = 5

    def deciding(self) -> dict[str, Any]:
        """All that decides the answers besides the run."""
        files = {"beside": self.beside, "among": self.among}
        digests = {name: path and digest_of(path) for name, path in files.items()}
        return {"verb": "embed", "n_best": self.n_best, **digests}

    def lines(self, errors: Literal["strict", "replace"]) -> list[str]:
        from clearhead.data.lines import Lines

        path = self.beside or self.among
        return list(Lines([str(path)], errors)) if path else []


def embed(
    run: Annotated[
        str, options.run_argument("a model that reads: a sentence encoder, or any other")
    ],
    text: options.Text = None,
    *,
    input: options.Input = None,  # noqa: A002
    others: Others,
    errors: options.OnInvalid = "strict",
    checkpoint: options.Checkpoint = "",
    parts: shards.Parts,
) -> None:
    """Write a vector for a text, or for each line, as JSON; or how alike texts are.

    Likeness is the cosine of the angle between two vectors: 1 is alike, 0 is not.

    - `clearhead embed runs/minilm "A man rides a bike."`
    - `clearhead embed runs/minilm --input a.txt --beside b.txt` (one number for each pair of lines)
    - `clearhead embed runs/minilm "Where is the station?" --among questions.txt`
    """
    load = EmbedLines(run, checkpoint, others, errors)
    if parts.into:
        files = shards.ShardedFiles(
            parts=parts,
            files=input or [],
            errors=errors,
            runs=[run],
            checkpoint=checkpoint,
            options=others.deciding(),
            load=load,
        )
        files.answer_or_join()
        return
    with options.busy(f"loading {run}"):
        answer = load()
    number = 0
    for some in source_chunks(None, text, input, errors):
        for line in answer(some, number):
            typer.echo(line)
        number += len(some)


@dataclass(frozen=True)
class EmbedLines:
    """How this or another process writes the vectors of lines, or how alike they are to others."""

    run: str
    checkpoint: str
    others: Others
    errors: Literal["strict", "replace"]

    def __call__(self) -> "Answer":
        from clearhead.tasks import Encoder

        encoder = Encoder.load(self.run, checkpoint=self.checkpoint)
        asked, others = self.others, self.others.lines(self.errors)

        def answer(lines: Sequence[str], first: int) -> list[str]:
            if asked.among:
                best = encoder.similarity(lines, others).topk(min(asked.n_best, len(others)))
                rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
                found = (pair for row in rows for pair in zip(*row, strict=True))
                return [f"{score:.4f}\t{others[place]}" for score, place in found]
            if not asked.beside:
                vectors = encoder.embed(lines).tolist()
                return [json.dumps([round(value, 7) for value in vector]) for vector in vectors]
            pairs = others[first : first + len(lines)]
            if len(pairs) < len(lines):
                raise DataError(
                    f"{asked.beside} has only {len(others):,} lines.", "Give pairs of lines."
                )
            return [f"{score:.4f}" for score in encoder.likeness(lines, pairs).tolist()]

        return answer


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, which every shard reads anew: a pipe or a device will not do."""
    from clearhead.data.lines import is_pipe
    from clearhead.disk import sha256_of

    if is_pipe(str(path)):
        raise DataError(f"{path} is not a file that can be read again.", "Save it to one.")
    return sha256_of(path)


def source_chunks(
    user: "User | None",
    text: str | None,
    files: list[str] | None,
    errors: Literal["strict", "replace"],
) -> Iterable[Sequence[str]]:
    """The text, or the lines of files, a terminal or a pipe, as many at a time as have come.

    After what was typed, the user, if there is one, tells which words are new to its model.
    """
    from clearhead.data.lines import Lines
    from clearhead.data.store import AT_ONCE

    if text is not None:
        if files:
            raise DataError(
                "There is a text and --input, and only one of them can be read.", "Leave one out."
            )
        return with_notes(user, [[text]])
    if folders := [file for file in files or () if Path(file).is_dir()]:
        raise DataError(
            f"--input {folders[0]} is a folder, and lines are read from files.", "Name its files."
        )
    if not files and sys.stdin.isatty():
        return with_notes(user, typed_lines())
    return (chunk.lines for chunk in Lines(files or "-", errors).chunks(AT_ONCE))


def with_notes(user: "User | None", texts: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    """The texts as they are, and after the answer to each what should be known about it."""
    for some in texts:
        yield some
        options.tell(user.note_on(some[0]) if user else "")


def typed_lines() -> Iterator[list[str]]:
    """Lines from a terminal, with arrow keys and earlier lines; Ctrl-D ends them."""
    with suppress(ImportError):
        import readline  # noqa: F401  # input() then knows them
    options.tell("Type a text and Enter; Ctrl-D ends.")
    is_seen = sys.stdout.isatty()  # else a prompt would be a part of the output
    while True:
        if not is_seen:
            print("> ", end="", file=sys.stderr, flush=True)
        try:
            line = input("> " if is_seen else "")
        except EOFError:
            sys.stderr.write("\n")
            return
        yield [line]


def write_lines(
    results: Iterable[Any],
    lines: Callable[[int, Any], Iterable[str]],
    output: Path | None = None,
    *,
    quiet: bool = False,
) -> None:
    """Write the lines of each result as it comes; then tell each note once, for all its lines."""
    notes: dict[str, list[int]] = {}
    with output_file(output) if output else nullcontext() as file:
        for number, result in enumerate(counted(results) if output and not quiet else results):
            text = "".join(f"{line}\n" for line in lines(number, result))
            if file:
                file.write(text.encode())
            else:
                sys.stdout.write(text)
                sys.stdout.flush()
            for note in result.notes:
                notes.setdefault(note, []).append(number + 1)
    for note, numbers in () if quiet else notes.items():
        others = f" and {len(numbers) - 1:,} more" if len(numbers) > 1 else ""
        sys.stderr.write(f"line {numbers[0]:,}{others}: {note}\n")


def counted(results: Iterable[Any]) -> Iterator[Any]:
    """The results as they are, while a progress bar shows their number."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("translating"),
        BarColumn(),
        TextColumn("{task.completed:,} lines"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        for result in results:
            yield result
            bar.advance(task)
