"""`clearhead translate`, `classify`, `embed` and `fill`: one line in, one line out, always in order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import clearhead
from clearhead.cli import options
from clearhead.cli.lines import LineOptions, ShardOptions, Text, write_lines
from clearhead.data.lines import Lines, is_pipe
from clearhead.disk import sha256_of
from clearhead.errors import DataError

if TYPE_CHECKING:
    from clearhead.scale import Answer

FORM = ("many", "scores", "alignments", "as_json", "int8")
"""The options of `translate` that decide what is written besides what the translator is told."""


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """Where translations go, how they are made, and in which form they are written."""

    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write the translations; else to stdout."),
    ] = None
    beam: options.Beam = None
    n_best: Annotated[
        int | None,
        typer.Option(help="So many translations of each line, each as number ||| text ||| score."),
    ] = None
    scores: Annotated[
        bool, typer.Option("--scores", help="After each translation, a tab and its score.")
    ] = False
    alignments: Annotated[
        bool,
        typer.Option(
            "--alignments",
            help="After each translation, a tab and which words belong together (Pharaoh: 0-0 1-2).",
        ),
    ] = False
    as_json: options.Json = False
    glossary: Annotated[
        Path | None,
        typer.Option(metavar="TSV", help="How to translate terms: source term, tab, target term."),
    ] = None
    protect: Annotated[
        list[str] | None,
        typer.Option(metavar="KINDS", help="Copy unchanged: numbers, tags, urls or emoji."),
    ] = None
    on_too_long: Annotated[
        Literal["split", "truncate", "error"],
        typer.Option(help="What to do with a line longer than the model can read."),
    ] = "split"
    ensemble: options.Ensemble = None
    int8: Annotated[
        bool, typer.Option("--int8", help="8-bit weights: faster; a few outputs change.")
    ] = False
    engine: options.Engine = "auto"
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Processes for --input; else one for each processor if it is long."
        ),
    ] = None
    settings: options.DecodeSettings = None

    @property
    def many(self) -> bool:
        """Whether several translations of each line are wanted, numbered."""
        return (self.n_best or 1) > 1

    @property
    def is_scored(self) -> bool:
        """Whether the lines tell how likely the translations are."""
        return self.many or self.scores or self.as_json

    def told(self, run: str) -> dict[str, Any]:
        """What a translator is told besides the texts."""
        from clearhead.folder import RunFolder
        from clearhead.tasks.translation import read_glossary

        decode = options.decode_config(RunFolder.open(run).config(), self.settings, beam=self.beam)
        if self.n_best is not None:
            decode = decode.but(n_best=self.n_best, beam=max(self.n_best, decode.beam))
        return {
            "decode": decode,
            "glossary": read_glossary(self.glossary) if self.glossary else None,
            "protect": self.protect or (),
            "on_too_long": self.on_too_long,
        }

    def lines(
        self, translator: "clearhead.Translator", number: int, found: "clearhead.Translation"
    ) -> Iterator[str]:
        """A translation as a line; or the best few of the same text, one on each line."""
        if self.as_json:
            yield options.json_line(self.details(translator, found))
            return
        for one in (found, *found.alternatives):
            text = one.text.replace("\n", " ")
            if self.many:
                text = f"{number} ||| {text} ||| {one.score:.4f}"
            elif self.scores:
                text += f"\t{one.score:.4f}"
            if self.alignments:
                text += f"\t{translator.align(found.source, one.text) if one.text else ''}"
            yield text

    def details(
        self, translator: "clearhead.Translator", found: "clearhead.Translation"
    ) -> dict[str, Any]:
        names = "source", "text", "score", "tokens", "log_probs", "notes"
        values: dict[str, Any] = {name: getattr(found, name) for name in names}
        if self.alignments and found.text:
            values["alignment"] = translator.align(found.source, found.text).links
        others = [{"text": one.text, "score": one.score} for one in found.alternatives]
        return values | {"alternatives": others}


def translate(
    run: Annotated[str, options.run_argument("a translator")],
    text: Text = None,
    *,
    lines: LineOptions,
    asked: TranslateOptions,
    shards: ShardOptions,
) -> None:
    """Translate a text, or lines of stdin or files.

    - `clearhead translate runs/en-de "A man rides a bike."`
    - `clearhead translate runs/en-de < in.txt > out.txt`
    - `clearhead translate runs/en-de --input in.txt.gz --output out.txt --glossary terms.tsv`
    - `clearhead translate runs/en-de "A man rides a bike." --n-best 3 --json`
    - `clearhead translate runs/en-de --input big.txt --into parts --shard 3/100`
    """
    runs = [run, *(asked.ensemble or [])]
    with options.busy(f"loading {run}"):
        told = asked.told(run)
        load = partial(
            clearhead.Translator.load, *runs, checkpoint=lines.checkpoint, int8=asked.int8
        )
    if shards.into:
        deciding = {"verb": "translate", **told, **{name: getattr(asked, name) for name in FORM}}
        answer = partial(translated_lines, load, told, asked)
        shards.answer(lines, runs=runs, deciding=deciding, load=answer, output=asked.output)
        return
    translate_here(run, text, load, lines=lines, asked=asked, told=told)


def translate_here(
    run: str,
    text: str | None,
    load: Callable[[], "clearhead.Translator"],
    *,
    lines: LineOptions,
    asked: TranslateOptions,
    told: dict[str, Any],
) -> None:
    """Translate in this process, its threads or worker processes; write each line as it comes."""
    from clearhead.tasks.runs import in_threads, in_workers

    with options.busy(f"loading {run}"):
        translator = load()
    backend = options.choose_engine(
        translator,
        run,
        told["decode"],
        engine=asked.engine,
        own_only={"--with": asked.ensemble, "--checkpoint": lines.checkpoint},
        int8=asked.int8,
        workers=asked.workers,
        quiet=lines.quiet,
    )
    chunks, n_workers, how = lines.chunks(text, translator), 1, told | {"scored": asked.is_scored}
    if lines.input:
        n_workers, chunks = shared_out(chunks, asked.workers, told["decode"].beam)
    if n_workers == 1:
        found = translator.in_chunks(chunks, **how)
    elif backend and backend.is_ready():
        found = in_threads(lambda texts: translator.translate(texts, **how), chunks, n_threads=2)
    else:
        found = in_workers(chunks=chunks, n_workers=n_workers, **translator.origin, **how)
    try:
        write_lines(found, partial(asked.lines, translator), asked.output, quiet=lines.quiet)
    finally:
        if backend:
            backend.close()


def translated_lines(
    load: Callable[[], "clearhead.Translator"], told: dict[str, Any], asked: TranslateOptions
) -> "Answer":
    """How any process translates lines of which it is told where they begin."""
    translator = load()

    def answer(lines: Sequence[str], first: int) -> list[str]:
        found = translator.in_chunks([lines], scored=asked.is_scored, **told)
        return [
            line for n, each in enumerate(found, first) for line in asked.lines(translator, n, each)
        ]

    return answer


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


def classify(
    run: Annotated[str, options.run_argument("a classifier")],
    text: Text = None,
    *,
    lines: LineOptions,
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities", help="After the label, a tab and each label with its probability."
        ),
    ] = False,
    top: Annotated[
        int | None,
        typer.Option(min=1, help="Like --probabilities, for so many of the likeliest labels."),
    ] = None,
    as_json: options.Json = False,
    shards: ShardOptions,
) -> None:
    """Label a text, or each line of stdin or files. Commas join several labels.

    - `clearhead classify runs/mood "What a lovely film!"`
    - `clearhead classify runs/mood --probabilities < reviews.txt > labels.txt`
    - `clearhead classify runs/intents "Where is my card?" --top 3`
    """
    n_shown = top if top is not None else None if probabilities else 0
    form: dict[str, Any] = {"n_shown": n_shown, "as_json": as_json}
    if shards.into:
        answer = partial(labelled_lines, run, lines.checkpoint, form)
        shards.answer(lines, runs=[run], deciding={"verb": "classify", **form}, load=answer)
        return
    with options.busy(f"loading {run}"):
        classifier = clearhead.Classifier.load(run, checkpoint=lines.checkpoint)
    found = classifier.in_chunks(lines.chunks(text, classifier))
    write_lines(found, lambda _, each: [label_line(each, **form)], quiet=lines.quiet)


def labelled_lines(run: str, checkpoint: str, form: dict[str, Any]) -> "Answer":
    """How any process labels lines."""
    classifier = clearhead.Classifier.load(run, checkpoint=checkpoint)
    return lambda lines, _: [label_line(each, **form) for each in classifier.in_chunks([lines])]


def label_line(found: "clearhead.Classification", n_shown: int | None, as_json: bool) -> str:
    """The label and so many probabilities, all for None; as JSON all of them."""
    if as_json:
        names = "text", "labels", "probabilities", "notes"
        return options.json_line({name: getattr(found, name) for name in names})
    each = [f"{label} {probability:.4f}" for label, probability in found.probabilities.items()]
    return "\t".join([str(found), *each[:n_shown]])


@dataclass(frozen=True, kw_only=True)
class EmbedOptions:
    """The texts that texts are compared with, if they are."""

    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="How alike each line is to the line of the same number here."
        ),
    ] = None
    among: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The lines of this file that are most like each text."),
    ] = None
    n_best: Annotated[
        int, typer.Option(min=1, help="With --among: so many lines for each text.")
    ] = 5

    def deciding(self) -> dict[str, Any]:
        """All that decides the answers besides the run."""
        files = {"beside": self.beside, "among": self.among}
        digests = {name: path and digest_of(path) for name, path in files.items()}
        return {"verb": "embed", "n_best": self.n_best, **digests}


def embed(
    run: Annotated[
        str, options.run_argument("a model that reads: a sentence encoder, or any other")
    ],
    text: Text = None,
    *,
    lines: LineOptions,
    asked: EmbedOptions,
    shards: ShardOptions,
) -> None:
    """Write a vector for a text, or for each line, as JSON; or how alike texts are.

    Likeness is the cosine of the angle between two vectors (cosine similarity): 1 is alike, 0 is not.

    - `clearhead embed runs/minilm "A man rides a bike."`
    - `clearhead embed runs/minilm --input a.txt --beside b.txt` (one number for each pair of lines)
    - `clearhead embed runs/minilm "Where is the station?" --among questions.txt`
    """
    load = partial(embedded_lines, run, lines, asked)
    if shards.into:
        shards.answer(lines, runs=[run], deciding=asked.deciding(), load=load)
        return
    with options.busy(f"loading {run}"):
        answer = load()
    number = 0
    for some in lines.chunks(text):
        for line in answer(some, number):
            typer.echo(line)
        number += len(some)


def embedded_lines(run: str, lines: LineOptions, asked: EmbedOptions) -> "Answer":
    """How any process writes the vectors of lines, or how alike they are to others."""
    encoder = clearhead.Encoder.load(run, checkpoint=lines.checkpoint)
    path = asked.beside or asked.among
    others = list(Lines(path, lines.errors)) if path else []

    def answer(texts: Sequence[str], first: int) -> list[str]:
        if asked.among:
            best = encoder.similarity(texts, others).topk(min(asked.n_best, len(others)))
            rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
            found = (pair for row in rows for pair in zip(*row, strict=True))
            return [f"{score:.4f}\t{others[place]}" for score, place in found]
        if not asked.beside:
            vectors = encoder.embed(texts).tolist()
            return [options.json_line([round(value, 7) for value in vector]) for vector in vectors]
        pairs = others[first : first + len(texts)]
        if len(pairs) < len(texts):
            raise DataError(
                f"{asked.beside} has only {len(others):,} lines.", "Give pairs of lines."
            )
        return [f"{score:.4f}" for score in encoder.likeness(texts, pairs).tolist()]

    return answer


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, which every shard reads anew: a pipe or a device will not do."""
    if is_pipe(str(path)):
        raise DataError(f"{path} is not a file that can be read again.", "Save it to one.")
    return sha256_of(path)


def fill(
    run: Annotated[str, options.run_argument("a masked-token model")],
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="Text with gaps, each two or more underscores.")
    ],
    n_best: Annotated[int, typer.Option(min=1, help="So many words for each gap.")] = 5,
    as_json: options.OneJson = False,
    checkpoint: options.Checkpoint = "",
) -> None:
    """Fill the gaps of a text, and list other words that would fit.

    - `clearhead fill runs/books "the capital of France is ____"`
    """
    filler = clearhead.Filler.load(run, checkpoint=checkpoint)
    found = filler.fill(text, n_best)
    options.tell(filler.note_on(text))
    if as_json:
        gaps = [{each.word: each.probability for each in gap} for gap in found.gaps]
        typer.echo(options.json_line({"text": str(found), "gaps": gaps}))
        return
    typer.echo(str(found))
    for number, gap in enumerate(found.gaps, 1):
        words = ", ".join(f"{each.word} {each.probability:.1%}" for each in gap)
        typer.echo(f"  gap {number}: {words}" if len(found.gaps) > 1 else f"  {words}")
