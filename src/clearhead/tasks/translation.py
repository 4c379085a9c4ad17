"""Translation: a sentence in, a sentence out, with what a person may want to know about it."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self, overload

from clearhead import metrics
from clearhead.config import Config, DecodeConfig, Given, ModelConfig, layered
from clearhead.data.batches import Batches, ByLength, PairBatch, Recut, pair_batch
from clearhead.data.examples import Pair, pairs
from clearhead.data.store import Encoding, Store, chunks, pair_encoding
from clearhead.decode import Hypothesis, alternatives, decode, laid_out, score
from clearhead.errors import ConfigError, TextError, shown
from clearhead.folder import RunFolder
from clearhead.look import Alignment, Look, align, tokens
from clearhead.model import Model
from clearhead.tasks.looking import Asked, look_at_writing
from clearhead.tasks.task import N_SAMPLES, Output, Task, Tokenizers, User
from clearhead.text import END, START, Tokenizer, fitting_parts
from clearhead.text.languages import languages_in
from clearhead.text.words import Words
from clearhead.training import Judge, Samples, mean_loss, next_token_loss

CHARACTERS_PER_TOKEN = 8
"""Text with more characters than this per token that fits is too long: no need to tokenise it."""
MOST_TERMS = 16
"""Terms that are searched for in one piece: this takes time that grows with their square."""
TooLong = Literal["split", "truncate", "error"]
EMOJI = "\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
PATTERNS: dict[str, re.Pattern[str]] = {
    "urls": re.compile(r"https?://[^\s<>\"']+[^\s<>\"'.,;:!?)\]]"),
    "tags": re.compile(r"</?[A-Za-z][^<>]*>|\{[^{}\s]+\}|%[sd]"),
    "numbers": re.compile(r"(?<![\w.,])\d+(?:[.,:]\d+)*(?![\w])"),
    "emoji": re.compile(f"[{EMOJI}](?:\ufe0f|[\U0001f3fb-\U0001f3ff]|\u200d[{EMOJI}])*"),
}
"""What each kind looks like; tags are also the placeholders of program texts."""


def required_terms(text: str, glossary: Mapping[str, str], protect: Sequence[str]) -> list[str]:
    terms = [
        target
        for source, target in glossary.items()
        if re.search(rf"(?<!\w){re.escape(source)}(?!\w)", text)
    ]
    for kind in protect:
        if kind not in PATTERNS:
            raise ConfigError(
                f"protect = {kind} is not known.", f"There are: {', '.join(PATTERNS)}."
            )
        terms += PATTERNS[kind].findall(text)
    return terms


def read_glossary(path: Path) -> dict[str, str]:
    """A glossary from a TSV file: source term, tab, target term."""
    return {pair.source: pair.target for pair in pairs(path)}


@dataclass(frozen=True, kw_only=True)
class Translation(Output):
    """A translated text; `str()` is the translation."""

    source: str
    score: float = 0.0
    """What it was ranked by: log-probability over the length penalty."""
    alternatives: tuple["Translation", ...] = ()
    """The next best, where more than one was asked for."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a text that the model reads at once."""

    text: str
    space: str = ""
    """The white space after it."""
    terms: tuple[str, ...] = ()
    """What its translation should hold, as people write it; only the first few are searched for."""


class Translator(User):
    """One model, or several that decide together."""

    ability = "translate"
    remedy = "clearhead train SOURCE TARGET --into RUN"

    def __init__(
        self,
        models: Sequence[Model],
        tokenizers: Tokenizers,
        config: Config,
        name: str = "",
        words: Words | None = None,
        int8: bool = False,
    ) -> None:
        super().__init__(models[0], tokenizers, config, name, words)
        self.models = tuple(models)
        self.flat = tuple(laid_out(model, int8) for model in models)
        self.limit = self.limit_of(config.data.max_length, n_marks=1)
        self.origin: dict[str, Any] = {}
        """How another process loads the same translator, where one can."""

    @classmethod
    def load(
        cls, *paths: str | Path, device: str = "cpu", checkpoint: str = "", int8: bool = False
    ) -> Self:
        """The translator in a run folder; several folders with one tokenizer make an ensemble.

        With `int8` its matrices are rounded to 8 bits, which is faster on a CPU and changes a few
        outputs.
        """
        folders = [RunFolder.open(path) for path in paths]
        configs = [folder.config() for folder in folders]
        for folder, config in zip(folders, configs, strict=True):
            cls.refuse_others(folder, config)
            if config.tokenizer.fingerprint != configs[0].tokenizer.fingerprint:
                raise ConfigError(
                    f"{folder.path} and {folders[0].path} have different tokenizers, so "
                    f"they cannot decide together.",
                    "Train them from the same files and tokenizer settings.",
                )
        models = [folder.model(device, checkpoint) for folder in folders]
        name = " + ".join(folder.path.name for folder in folders)
        tokenizers, words = folders[0].tokenizers(), folders[0].words()
        translator = cls(models, tokenizers, configs[0], name, words, int8)
        if device == "cpu":
            runs = [str(path) for path in paths]
            translator.origin = {"runs": runs, "checkpoint": checkpoint, "int8": int8}
        return translator

    @staticmethod
    def suits(config: Config) -> bool:
        return config.model.family == "encoder-decoder"

    @overload
    def translate(self, text: str, **options: Any) -> Translation: ...
    @overload
    def translate(self, text: list[str], **options: Any) -> list[Translation]: ...
    def translate(self, text: str | list[str], **options: Any) -> Translation | list[Translation]:
        """Translate a text, or each of a list.

        Options are the settings of the section `decode` one by one (beam=4, n_best=3 …), or whole
        as `decode`, and `glossary` (source term → target term), `protect` ("numbers", "tags",
        "urls", "emoji": copied unchanged), `on_too_long` ("split", "truncate", "error"), `prefix` (ids that
        the translation begins with), `scored` (False is faster where no score is looked at).
        """
        results = list(self.stream([text] if isinstance(text, str) else text, **options))
        return results[0] if isinstance(text, str) else results

    def stream(self, texts: Iterable[str], **options: Any) -> Iterator[Translation]:
        """One translation for each text, in order, while later texts are still being read."""
        return self.in_chunks(chunks(texts), **options)

    def in_chunks(
        self,
        chunks: Iterable[Sequence[str]],
        *,
        decode: DecodeConfig | None = None,
        glossary: Mapping[str, str] | None = None,
        protect: Sequence[str] = (),
        on_too_long: TooLong = "split",
        prefix: Sequence[int] = (),
        scored: bool = True,
        **options: Any,
    ) -> Iterator[Translation]:
        """The same for texts that come some at a time: no answer waits for the next chunk."""
        asked = self.asked(decode, options)
        for chunk in chunks:
            jobs = [list(self.pieces(text, glossary or {}, protect, on_too_long)) for text in chunk]
            pieces = [piece for job in jobs for piece in job]
            found = iter(self.decoded(pieces, asked, prefix, scored))
            for text, job in zip(chunk, jobs, strict=True):
                yield self.joined(text, job, list(islice(found, len(job))), on_too_long)

    def pieces(
        self, text: str, glossary: Mapping[str, str], protect: Sequence[str], on_too_long: TooLong
    ) -> Iterator[Piece]:
        """The text in pieces that the model can read; blank text has none."""
        if not text.strip():
            return
        if on_too_long == "error":
            self.refuse_too_long(text)
        n_read = 1 if on_too_long == "truncate" else None
        for part, space in islice(fitting_parts(text, self.fits), n_read):
            terms = tuple(required_terms(part, glossary, protect))
            yield Piece(text=part, space=space, terms=terms)

    def refuse_too_long(self, text: str) -> None:
        if not self.fits(text):
            raise TextError(
                f"A text of {len(self.source.encode(text)):,} tokens is longer than the "
                f"{self.limit} that the model was trained on: {shown(text, 40)}",
                "Shorten it, or let it be split.",
            )

    def fits(self, text: str) -> bool:
        """Whether the model can read the text at once.

        No token is less than a byte of the text and the space before it, few are eight characters.
        """
        return len(text.encode(errors="surrogatepass")) < self.limit or (
            len(text) <= CHARACTERS_PER_TOKEN * self.limit
            and len(self.source.encode(text)) <= self.limit
        )

    def decoded(
        self,
        parts: Sequence[Piece],
        options: DecodeConfig,
        prefix: Sequence[int] = (),
        scored: bool = True,
    ) -> list[list[Hypothesis]]:
        """A term may be spelled as in the middle of a text, or as right after another character."""
        if not parts:
            return []
        sources = self.read([part.text for part in parts])
        ways = self.target.encode, self.target.encode_inside
        terms = [
            [tuple(tuple(way(term)) for way in ways) for term in part.terms[:MOST_TERMS]]
            for part in parts
        ]
        return decode(
            self.flat,
            sources,
            options,
            # the beginning of a text is the beginning of its first piece
            prefixes=[prefix, *[()] * (len(parts) - 1)] if prefix else None,
            terms=terms,
            searching=self.searching,
            scored=scored,
        )

    def joined(
        self,
        text: str,
        parts: Sequence[Piece],
        found: Sequence[Sequence[Hypothesis]],
        on_too_long: TooLong,
    ) -> Translation:
        if not parts:
            return Translation(source=text, text="")
        if len(parts) == 1 and on_too_long != "truncate":
            best, *others = [
                self.translation(text, parts[0], hypothesis) for hypothesis in found[0]
            ]
            return replace(best, alternatives=tuple(others))
        several = [
            self.translation(part.text, part, best[0])
            for part, best in zip(parts, found, strict=True)
        ]
        how = "cut off" if on_too_long == "truncate" else f"split into {len(several)} pieces"
        whole = parts[0].text == text
        return Translation(
            source=text,
            text="".join(one.text + part.space for one, part in zip(several, parts, strict=True)),
            tokens=tuple(token for one in several for token in one.tokens),
            ids=tuple(token for one in several for token in one.ids),
            score=sum(one.score for one in several),
            log_probs=tuple(log_prob for one in several for log_prob in one.log_probs),
            notes=(
                *(() if whole else (f"too long to be read at once: {how}",)),
                *(note for one in several for note in one.notes),
            ),
        )

    def translation(self, source: str, piece: Piece, hypothesis: Hypothesis) -> Translation:
        text = self.target.decode(hypothesis.ids)
        missing = [piece.terms[number] for number in hypothesis.missing]
        missing += [term for term in piece.terms[MOST_TERMS:] if term not in text]
        return Translation(
            source=source,
            text=text,
            tokens=tuple(self.target.tokens(hypothesis.ids)),
            ids=hypothesis.ids,
            score=hypothesis.score,
            log_probs=hypothesis.log_probs,
            notes=(*hypothesis.notes, *(f"without the term {term}" for term in missing)),
        )

    def alternatives(self, text: str, prefix: Sequence[int] = (), n: int = 5) -> list[Translation]:
        """What could follow the beginning of a translation: the n likeliest tokens (their number
        in the ids is that of the prefix's), each with its best continuation.
        """
        self.refuse_too_long(text)
        (source,) = self.read([text])
        found = alternatives(
            self.flat, source, prefix, n=n, options=self.config.decode, searching=self.searching
        )
        return [self.translation(text, Piece(text=text), hypothesis) for hypothesis in found]

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The log-probability of each given translation of a text."""
        sources = self.read([source for source, _ in pairs])
        targets = self.target.encode_batch([target for _, target in pairs])
        found = score(self.flat, list(zip(sources, targets, strict=True)))
        return [hypothesis.log_prob for hypothesis in found]

    def look(
        self,
        text: str,
        target: str | None = None,
        edit: Asked = None,
        decode: DecodeConfig | None = None,
        prefix: Sequence[int] = (),
        **options: Any,
    ) -> Look:
        """Every number behind a translation, or a given one; edits change the model inside.

        A translation may have to begin with a `prefix` of ids.
        """
        self.refuse_too_long(text)
        look = look_at_writing(
            self.flat[0],
            self.tokenizers,
            text,
            encode=lambda text: self.read([text])[0],
            options=self.asked(decode, options),
            task="translation",
            target=target,
            edit=edit,
            prefixes=[prefix] if prefix else None,
        )
        if len(self.models) == 1:
            return look
        alone = f"only the first of {len(self.models)} models is shown, and it decided alone"
        return replace(look, notes=(*look.notes, alone))

    def align(self, source: str, target: str) -> Alignment:
        """Which words of a text its translation, or any other, was made from."""
        (ids,) = self.read([source])
        read = tokens(ids, self.source.tokens, n_special=END + 1)
        said = tokens([*self.target.encode(target), END], self.target.tokens, n_special=END + 1)
        return align(self.model, read, said, start=START)

    def read(self, texts: list[str]) -> list[list[int]]:
        """The texts as the encoder reads them."""
        return source_rows(self.source, texts, self.config.model)


def source_rows(tokenizer: Tokenizer, texts: list[str], model: ModelConfig) -> list[list[int]]:
    """The texts as the encoder reads them, here as in training."""
    return [source_row(ids, model) for ids in tokenizer.encode_batch(texts)]


def source_row(ids: list[int], model: ModelConfig) -> list[int]:
    """The ids of a text and an end token, if the encoder reads one, or if there is nothing else."""
    return [*ids, END] if model.source_end or not ids else ids


GREEDY = DecodeConfig(beam=1, max_extra=10, guard=False)
"""Quick and plain: what validation asks is whether the model has become better."""
LENGTH_PENALTIES = (0.6, 0.8, 1.0, 1.2, 1.4)
"""The paper's, and such as favour longer output; beyond these, output grows without end."""
WORTHWHILE = 0.1
"""BLEU that a higher length penalty must gain: with each, a search goes on longer."""
N_FITTED = 500
"""Validation pairs that the length penalty is chosen on."""


class TranslationTask(Task):
    name = "translation"
    families = ("encoder-decoder",)
    unit = "pairs"
    enough = 100_000

    read = staticmethod(pairs)

    @staticmethod
    def texts(example: Pair) -> tuple[str, ...]:
        return example

    @classmethod
    def resolve(cls, decided: Given, _examples: Iterator[Pair], /) -> Config:
        source, target = languages_in(decided.get("data", {}).get("files", ()))
        guessed = {"data": {"source_language": source, "target_language": target}}
        return Config(**layered(guessed, decided, {"model": {"family": "encoder-decoder"}}))

    @property
    def encoding(self) -> Encoding:
        return pair_encoding(*self.tokenizers)

    def n_predictions(self, store: Store) -> int:
        """The tokens of the target side, and an end for each."""
        return int(store.n_tokens[1]) + len(store)

    def batches(self, store: Store) -> Batches[PairBatch]:
        seed, dropout = self.config.train.seed, self.config.tokenizer.dropout
        batches = ByLength(store, pair_batch, self.config.data.batch_tokens, seed)
        return Recut(batches, self.tokenizers, dropout, seed) if dropout else batches

    def judge(self, examples: list[Pair], store: Store) -> Judge:
        """Loss over all validation pairs; BLEU of greedy translations."""
        sample = examples[: self.config.train.score_sample]

        def samples(model: Model) -> Samples:
            sources = [pair.source for pair in examples[:N_SAMPLES]]
            return tuple(zip(sources, self.translated(model, sources, GREEDY), strict=True))

        return Judge(
            loss=mean_loss(next_token_loss(), self.batches(store)),
            name="BLEU",
            score=lambda model: self.bleu(model, sample),
            full_score=lambda model: self.bleu(model, examples),
            effort=len(examples) / len(sample),
            samples=samples,
            calibrated=partial(self.with_length_penalty, examples[:N_FITTED]),
        )

    def translated(self, model: Model, texts: list[str], options: DecodeConfig) -> list[str]:
        source, target = self.tokenizers
        found = decode(model, source_rows(source, texts, model.config), options, scored=False)
        return [target.decode(best.ids) for best, *_ in found]

    def bleu(self, model: Model, examples: list[Pair], options: DecodeConfig = GREEDY) -> float:
        hypotheses = self.translated(model, [pair.source for pair in examples], options)
        return metrics.bleu(hypotheses, [pair.target for pair in examples]).value

    def with_length_penalty(self, examples: list[Pair], model: Model, config: Config) -> Config:
        """The settings with the length penalty that gains the most BLEU, if it is asked for."""
        if not config.train.fit_decoding:
            return config
        chosen, reached = config.decode, -math.inf
        for alpha in LENGTH_PENALTIES:
            decoding = config.decode.but(length_penalty=alpha)
            score = self.bleu(model, examples, decoding)
            if score < reached + WORTHWHILE:
                break
            chosen, reached = decoding, score
        return config.but(decode=chosen)
