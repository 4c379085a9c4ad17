"""`clearhead translate`, `classify` and `fill`: one line in, one line out, always and in order."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clearhead.cli import options, shards
from clearhead.disk import output_file
from clearhead.errors import DataError

if TYPE_CHECKING:
    from clearhead.scale import Answer
    from clearhead.tasks import Classification, Translation, Translator, User


def translate(
    run: Annotated[str, options.run_argument("a translator")],
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
        typer.Option(metavar="KINDS", help="numbers, tags, urls or emoji: copied unchanged."),
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
    engine: options.Engine = "auto",
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes for --input; else one per processor for long input."),
    ] = None,
    checkpoint: options.Checkpoint = "",
    quiet: options.Quiet = False,
    settings: options.DecodeSettings = None,
    into: shards.Into = None,
    shard: shards.ShardOf = "1/1",
    join: shards.Join = False,
    on: shards.On = "here",
    address: shards.Address = "",
    column: shards.Column = "",
) -> None:
    """Translate a text, or lines of stdin or files.

    - `clearhead translate runs/en-de "A man rides a bike."`
    - `clearhead translate runs/en-de < in.txt > out.txt`
    - `clearhead translate runs/en-de --input in.txt.gz --output out.txt --glossary terms.tsv`
    - `clearhead translate runs/en-de "A man rides a bike." --n-best 3 --json`
    - `clearhead translate runs/en-de --input big.txt --into parts --shard 3/100`
    """
    runs = [run, *(ensemble or [])]
    with options.busy(f"loading {run}"):
        from clearhead.folder import RunFolder
        from clearhead.tasks import Translator
        from clearhead.tasks.runs import in_threads, in_workers
        from clearhead.tasks.translation import read_glossary

        config = RunFolder.open(run).config()
    decode = options.decode_config(config, settings, beam=beam)
    if n_best is not None:
        decode = decode.but(n_best=n_best, beam=max(n_best, decode.beam))
    how: dict[str, Any] = {
        "decode": decode,
        "glossary": read_glossary(glossary) if glossary else None,
        "protect": protect or (),
        "on_too_long": on_too_long,
    }
    loading: dict[str, Any] = {"int8": int8, "checkpoint": checkpoint}
    form = {
        "many": (n_best or 1) > 1,
        "scores": scores,
        "alignments": alignments,
        "as_json": as_json,
    }
    if into:
        corpus = shards.Corpus(
            into=into,
            shard=shard,
            on=on,
            address=address,
            files=input or [],
            column=column,
            errors=errors,
            runs=runs,
            checkpoint=checkpoint,
            options={"verb": "translate", **how, **form, "int8": int8},
            load=TranslateLines(runs, loading, how, form),
            quiet=quiet,
        )
        corpus.answer_or_join(join, output)
        return
    with options.busy(f"loading {run}"):
        translator = Translator.load(*runs, **loading)
    backend = options.choose_engine(
        translator,
        run,
        decode,
        engine=engine,
        own_only={"--with": ensemble, "--checkpoint": checkpoint},
        int8=int8,
        workers=workers,
        quiet=quiet,
    )
    shape = Shape(translator, **form)
    chunks = source_chunks(None if quiet else translator, text, input, errors)
    n_workers, chunks = shared_out(chunks, workers) if input else (1, chunks)
    how["scored"] = shape.is_scored
    if n_workers == 1:
        found = translator.in_chunks(chunks, **how)
    elif backend and backend.is_ready():
        found = in_threads(translator, chunks, n_threads=2, **how)
    else:
        found = in_workers(runs, chunks, n_workers=n_workers, **loading, **how)
    try:
        write_lines(found, shape.lines, output, quiet=quiet)
    finally:
        if backend:
            backend.close()


@dataclass(frozen=True)
class TranslateLines:
    """How another process translates lines as this one would: what is to be loaded there."""

    runs: list[str]
    loading: dict[str, Any]
    how: dict[str, Any]
    form: dict[str, bool]

    def __call__(self) -> "Answer":
        from clearhead.tasks import Translator

        translator = Translator.load(*self.runs, **self.loading)
        shape = Shape(translator, **self.form)

        def answer(lines: Sequence[str], first: int) -> list[str]:
            found = translator.in_chunks([lines], scored=shape.is_scored, **self.how)
            return [line for n, each in enumerate(found, first) for line in shape.lines(n, each)]

        return answer


def shared_out(
    chunks: Iterable[Sequence[str]], workers: int | None
) -> tuple[int, Iterable[Sequence[str]]]:
    """The number of processes, and the lines, the first of which tell whether they are many."""
    from clearhead.machine import n_processors
    from clearhead.tasks.runs import MANY

    rest, first, n_lines = iter(chunks), list[Sequence[str]](), 0
    while n_lines <= MANY and (chunk := next(rest, None)) is not None:
        first.append(chunk)
        n_lines += len(chunk)
    return workers or (n_processors() if n_lines > MANY else 1), chain(first, rest)


@dataclass(frozen=True)
class Shape:
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


def classify(
    run: Annotated[str, options.run_argument("a classifier")],
    text: options.Text = None,
    input: options.Input = None,  # noqa: A002
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities", help="After the label, a tab and each label with its probability."
        ),
    ] = False,
    top: Annotated[
        int | None, typer.Option(min=1, help="The same for this many of the likeliest labels.")
    ] = None,
    as_json: options.Json = False,
    errors: options.OnInvalid = "strict",
    checkpoint: options.Checkpoint = "",
    quiet: options.Quiet = False,
    into: shards.Into = None,
    shard: shards.ShardOf = "1/1",
    join: shards.Join = False,
    on: shards.On = "here",
    address: shards.Address = "",
    column: shards.Column = "",
) -> None:
    """Label a text, or each line of stdin or files. Commas join several labels.

    - `clearhead classify runs/mood "What a lovely film!"`
    - `clearhead classify runs/mood --probabilities < reviews.txt > labels.txt`
    - `clearhead classify runs/intents "Where is my card?" --top 3`
    """
    n_shown = top if top is not None else None if probabilities else 0
    if into:
        form = {"n_shown": n_shown, "as_json": as_json}
        corpus = shards.Corpus(
            into=into,
            shard=shard,
            on=on,
            address=address,
            files=input or [],
            column=column,
            errors=errors,
            runs=[run],
            checkpoint=checkpoint,
            options={"verb": "classify", **form},
            load=ClassifyLines(run, checkpoint, form),
            quiet=quiet,
        )
        corpus.answer_or_join(join)
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
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="The run folder of a masked-token model.")
    ],
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


def embed(
    run: Annotated[
        str, options.run_argument("a model that reads: a sentence encoder, or any other")
    ],
    text: options.Text = None,
    input: options.Input = None,  # noqa: A002
    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="How alike each line is to that of the same number here."
        ),
    ] = None,
    among: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The lines of this file that are most like each text."),
    ] = None,
    n_best: Annotated[int, typer.Option(min=1, help="Lines of --among for each text.")] = 5,
    errors: options.OnInvalid = "strict",
    checkpoint: options.Checkpoint = "",
    into: shards.Into = None,
    shard: shards.ShardOf = "1/1",
    join: shards.Join = False,
    on: shards.On = "here",
    address: shards.Address = "",
    column: shards.Column = "",
) -> None:
    """Write a vector for a text, or for each line, as JSON; or how alike texts are.

    Likeness is the cosine of the angle between two vectors: 1 is alike, 0 is not.

    - `clearhead embed runs/minilm "A man rides a bike."`
    - `clearhead embed runs/minilm --input a.txt --beside b.txt` (one number for each pair of lines)
    - `clearhead embed runs/minilm "Where is the station?" --among questions.txt`
    """
    load = EmbedLines(run, checkpoint, beside=beside, among=among, n_best=n_best, errors=errors)
    if into:
        others = {"beside": beside and digest_of(beside), "among": among and digest_of(among)}
        corpus = shards.Corpus(
            into=into,
            shard=shard,
            on=on,
            address=address,
            files=input or [],
            column=column,
            errors=errors,
            runs=[run],
            checkpoint=checkpoint,
            options={"verb": "embed", "n_best": n_best, **others},
            load=load,
        )
        corpus.answer_or_join(join)
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
    beside: Path | None
    among: Path | None
    n_best: int
    errors: Literal["strict", "replace"]

    def __call__(self) -> "Answer":
        from clearhead.tasks import Encoder

        encoder = Encoder.load(self.run, checkpoint=self.checkpoint)
        others = lines_of(self.beside or self.among, self.errors)

        def answer(lines: Sequence[str], first: int) -> list[str]:
            if self.among:
                best = encoder.similarity(lines, others).topk(min(self.n_best, len(others)))
                rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
                found = (pair for row in rows for pair in zip(*row, strict=True))
                return [f"{score:.4f}\t{others[place]}" for score, place in found]
            if not self.beside:
                vectors = encoder.embed(lines).tolist()
                return [json.dumps([round(value, 7) for value in vector]) for vector in vectors]
            pairs = others[first : first + len(lines)]
            if len(pairs) < len(lines):
                raise DataError(
                    f"{self.beside} has only {len(others):,} lines.", "Give pairs of lines."
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


def lines_of(path: Path | None, errors: Literal["strict", "replace"]) -> list[str]:
    from clearhead.data.lines import Lines

    blocks = Lines([str(path)], errors).blocks() if path else ()
    return [line for block in blocks for line in block.lines]


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
