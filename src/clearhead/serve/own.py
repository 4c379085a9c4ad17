"""clearhead's own API under /api: all that the page needs, with streaming."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from clearhead import __version__
from clearhead.errors import RequestError
from clearhead.look.film import film_of
from clearhead.serve.models import ABILITIES, ServedRun
from clearhead.serve.pool import Ticket
from clearhead.serve.settings import Limits
from clearhead.serve.work import Asking, Caller, Emit, EventStream, Work, error_data, event_text
from clearhead.tasks import (
    Chatbot,
    Classifier,
    Encoder,
    Filler,
    Translation,
    Translator,
    User,
)
from clearhead.tasks import load as load_run
from clearhead.tasks.task import Kept, Output
from clearhead.tensors import tensor_bytes
from clearhead.text import Tokenizer
from clearhead.text.words import WORD

LIMITS = Limits()
LONGEST = 2_000
"""Tokens that may be asked for, or given as a prefix."""
POLL = 1.0
"""Seconds between two looks at a run that is being trained."""
WATCHERS = 16
"""Clients that may follow trainings at the same time."""
SAFETENSORS = "application/octet-stream"
BINARY = {"content": {SAFETENSORS: {"schema": {"type": "string", "format": "binary"}}}}
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
"""An answer that may also come as a stream."""
LOOKING = threading.Lock()
"""One look at a time: it takes as much memory as many answers."""

Text = Annotated[str, Field(max_length=LIMITS.characters)]
Texts = Annotated[list[Text], Field(max_length=LIMITS.texts)]
Term = Annotated[str, Field(min_length=1, max_length=100)]
Ids = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=LONGEST)]
Stops = Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=4)]

api = APIRouter(prefix="/api", tags=["clearhead"])


class Asked(BaseModel):
    """What every request may say."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
    run: Annotated[str, Field(max_length=200)] | None = None
    """The name of a run; else the first that can do this."""


class Decoding(Asked):
    """How to decode; what is not given is as in the run's own settings."""

    stream: bool = False
    """Answer with server-sent events: piece, reset, done, error."""
    beam: Annotated[int, Field(ge=1, le=LIMITS.beam)] | None = None
    n_best: Annotated[int, Field(ge=1, le=LIMITS.alternatives)] | None = None
    length_penalty: Annotated[float, Field(ge=-10, le=10)] | None = None
    max_length: Annotated[int, Field(ge=1, le=LONGEST)] | None = None
    min_length: Annotated[int, Field(ge=0, le=LONGEST)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_k: Annotated[int, Field(ge=0, le=2**31)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=100)] | None = None
    no_repeat_ngram: Annotated[int, Field(ge=0, le=1_000)] | None = None
    seed: Annotated[int, Field(ge=0, le=2**53)] | None = None

    def changes(self, user: User) -> dict[str, Any]:
        """The settings that differ from the run's own; a beam holds as many as are asked for."""
        names = set(Decoding.model_fields) - {"stream", *Asked.model_fields}
        found = self.model_dump(include=names, exclude_none=True)
        beam = found.get("beam", user.config.decode.beam)
        return found | ({"beam": max(beam, self.n_best)} if self.n_best else {})


class TranslateRequest(Decoding):
    text: Text | Texts
    prefix_ids: Ids = []
    """Tokens that the translation begins with: to go on from a chosen word."""
    glossary: Annotated[dict[Text, Term], Field(max_length=20)] = {}
    protect: Annotated[list[Literal["numbers", "tags", "urls", "emoji"]], Field(max_length=4)] = []
    on_too_long: Literal["split", "truncate", "error"] = "split"
    scores: bool = True
    """Also say how likely each token was; without, the answer comes sooner."""
    align: bool = False
    """Also say which source word each word was made from."""


class ChatRequest(Decoding):
    turns: Annotated[Texts, Field(min_length=1)]
    """What was said, the user first and last."""


class WriteRequest(Decoding):
    text: Text = ""
    stop: Stops = []


class ClassifyRequest(Asked):
    text: Text | Texts
    words: bool = False
    """Also classify the text without each of its words."""


class FillRequest(Asked):
    text: Text
    n_best: Annotated[int, Field(ge=1, le=20)] = 5


class EmbedRequest(Asked):
    text: Text | Texts


class AlternativesRequest(Asked):
    text: Text
    prefix_ids: Ids = []
    """The output up to the place in question."""
    n: Annotated[int, Field(ge=1, le=8)] = LIMITS.alternatives


class AlignRequest(Asked):
    text: Text
    target: Text
    """A translation, or as much of it as is written."""


class LookRequest(Asked):
    text: Text
    target: Text | None = None
    """Another output than the model's own."""
    prefix_ids: Ids = []
    """Tokens that a translation begins with: to go on from a word that the search had dropped."""
    edits: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=20)] = []
    """What to break: no-positions, silence:decoder.1.cross.3 …"""
    before: Texts = []
    """Earlier turns of a conversation."""
    film: bool = False
    heads: bool = False
    """Also silence each head in turn, and tell what the output loses."""
    checkpoint: Annotated[str, Field(pattern=r"^(last|[0-9]{1,12})?$")] = ""
    beam: Annotated[int, Field(ge=1, le=LIMITS.beam)] | None = None
    max_length: Annotated[int, Field(ge=1, le=200)] | None = None
    seed: Annotated[int, Field(ge=0, le=2**53)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None


def listed(text: str | list[str]) -> list[str]:
    """One text or several, as a list."""
    return [text] if isinstance(text, str) else text


def token_data(token: int, text: str, log_prob: float | None) -> dict[str, Any]:
    """A token as JSON."""
    found = {"id": token, "text": text}
    return found if log_prob is None else found | {"log_prob": round(log_prob, 6)}


def output_data(output: Output, *notes: str, **more: Any) -> dict[str, Any]:
    """An output as JSON."""
    log_probs = chain(output.log_probs, repeat(None))
    tokens = zip(output.ids, output.tokens, log_probs, strict=False)
    return {
        "text": output.text,
        "tokens": [token_data(*each) for each in tokens],
        "notes": list(dict.fromkeys([*output.notes, *notes])),
        **more,
    }


def notes_on(user: User, text: str) -> list[str]:
    return [note] if (note := user.note_on(text)) else []


def refuse_ids(ids: list[int], user: User) -> None:
    """Refuse a prefix of tokens that no output holds."""
    first = len(user.target.vocabulary.specials)
    for token in ids:
        if not first <= token < user.target.vocab_size:
            raise RequestError(
                f"No output holds the token {token}.", "Take the ids from an answer of this run."
            )


@api.get("/runs", name="runs")
def list_runs(caller: Asking) -> dict[str, Any]:
    """The runs that are served: what each can do, and why it cannot do the rest."""
    found = [run_data(run) for run in caller.shelf.runs.values()]
    return {"version": __version__, "runs": found, "limits": vars(caller.limits)}


def run_data(run: ServedRun) -> dict[str, Any]:
    """A run as the page introduces it."""
    config, kind = run.config, run.kind
    source, target = run.languages
    reasons = {ability: run.cannot(ability) for ability in (*ABILITIES, "embed", "look")}
    return {
        "name": run.name,
        "task": config.task,
        "user": kind.__name__.lower() if kind else None,
        "family": config.model.family,
        "languages": {"source": source, "target": target},
        "parameters": run.n_parameters,
        "model": config.model.size(),
        "max_tokens": config.data.max_length,
        "labels": list(config.labels.names),
        "decode": config.decode.model_dump(),
        "checkpoints": run.folder.checkpoints.steps(),
        "trained": run.folder.has_weights(),
        "loaded": run.user is not None,
        "can": [ability for ability, reason in reasons.items() if not reason],
        "cannot": {ability: reason for ability, reason in reasons.items() if reason},
    }


@api.post("/translate", name="translate", response_model=None, responses=STREAMED)
async def translate_texts(asked: TranslateRequest, caller: Asking) -> Response:
    """Translate a text, or each of several."""
    run = caller.shelf.named(asked.run, "translate")
    if not asked.stream:
        found = await caller.answer(run, lambda user, _: translations_data(user, asked))
        # as it is: FastAPI would look at each value once more
        return JSONResponse(found[0] if isinstance(asked.text, str) else {"results": found})
    if not isinstance(asked.text, str):
        raise RequestError("A stream has one text.", "Give a string, or leave out stream.")
    return caller.stream(run, partial(stream_translation, asked))


def translations_data(translator: Translator, asked: TranslateRequest) -> list[dict[str, Any]]:
    refuse_ids(asked.prefix_ids, translator)
    texts = listed(asked.text)
    found = translator.translate(
        texts,
        glossary=asked.glossary,
        protect=asked.protect,
        on_too_long=asked.on_too_long,
        prefix=asked.prefix_ids,
        scored=asked.scores,
        **asked.changes(translator),
    )

    def scored(output: Translation, *notes: str, **more: Any) -> dict[str, Any]:
        score = {"score": output.score} if asked.scores else {}
        return output_data(output, *notes, **score, **more)

    return [
        scored(
            each,
            *notes_on(translator, text),
            alternatives=[scored(other) for other in each.alternatives],
            **({"alignment": alignment_data(translator, text, each.text)} if asked.align else {}),
        )
        for text, each in zip(texts, found, strict=True)
    ]


def alignment_data(translator: Translator, source: str, target: str) -> dict[str, Any] | None:
    """Word weights, where the text is read at once."""
    if not target.strip() or not translator.fits(source) or not translator.fits(target):
        return None
    found = translator.align(source, target)
    return {
        "source": list(found.source),
        "target": list(found.target),
        "weights": found.weights.astype(float).round(4).tolist(),
        "head": found.head,
    }


def stream_translation(
    asked: TranslateRequest, translator: Translator, ticket: Ticket, emit: Emit
) -> None:
    live = LiveTranslation(translator, asked, emit)
    ticket.watch = live.watch
    (found,) = translations_data(translator, asked)
    live.end(found["text"])
    emit("done", found)


class LiveTranslation:
    """Tells a stream what is certain of a translation while it is searched for.

    Pieces of a long text are decoded side by side and told in order. Where an output was decoded
    again, the stream begins anew.
    """

    def __init__(self, translator: Translator, asked: TranslateRequest, emit: Emit) -> None:
        assert isinstance(asked.text, str), "a stream has one text"
        pieces = translator.pieces(asked.text, {}, (), asked.on_too_long)
        self.spaces = [piece.space for piece in pieces]
        self.target, self.emit = translator.target, emit
        self.found: dict[int, tuple[list[int], list[float]]] = {}
        self.begin()

    def begin(self) -> None:
        self.piece, self.n_shown, self.text = 0, 0, ""
        self.decoder = self.target.stream()

    def watch(self, piece: int, ids: list[int], log_probs: list[float]) -> None:
        before, _ = self.found.get(piece, ([], []))
        self.found[piece] = ids, log_probs
        if ids[: len(before)] != before and piece <= self.piece:
            self.reset()
        self.tell()

    def reset(self) -> None:
        self.begin()
        self.emit("reset", {})

    def tell(self) -> None:
        """Emit what is new, up to the first piece that is not done."""
        while self.piece in self.found:
            ids, log_probs = self.found[self.piece]
            is_done = ids[-1:] == [self.target.end]
            written = ids[:-1] if is_done else ids
            for token, log_prob in islice(
                zip(written, log_probs, strict=False), self.n_shown, None
            ):
                text = self.target.tokens([token])[0]
                self.say(self.decoder.push(token), token_data(token, text, log_prob))
            self.n_shown = len(written)
            if not is_done:
                return
            self.say(self.decoder.end() + self.spaces[self.piece])
            self.piece, self.n_shown = self.piece + 1, 0
            self.decoder = self.target.stream()

    def say(self, text: str, *tokens: Mapping[str, Any]) -> None:
        if text or tokens:
            self.text += text
            self.emit("piece", {"text": text, "tokens": list(tokens)})

    def end(self, text: str) -> None:
        """Whatever was told, the text is this."""
        if self.text != text:
            self.reset()
            self.say(text)


@api.post("/chat", name="chat", response_model=None, responses=STREAMED)
async def answer_turns(asked: ChatRequest, caller: Asking) -> Response | dict[str, Any]:
    """Answer the last turn of a conversation."""
    return await answer_outputs(asked, "chat", caller)


@api.post("/write", name="write", response_model=None, responses=STREAMED)
async def continue_text(asked: WriteRequest, caller: Asking) -> Response | dict[str, Any]:
    """Go on with a text, in one way or several."""
    return await answer_outputs(asked, "write", caller)


async def answer_outputs(
    asked: ChatRequest | WriteRequest, ability: str, caller: Caller
) -> Response | dict[str, Any]:
    """The outputs that are asked for: the first as a stream, or all of them whole."""
    run = caller.shelf.named(asked.run, ability)
    jobs = [partial(emit_output, asked, number) for number in range(asked.n_best or 1)]
    if asked.stream:
        return caller.stream(run, jobs[0])
    first, *others = await caller.answers(run, jobs)
    return {**first, "alternatives": others}


def emit_output(
    asked: ChatRequest | WriteRequest,
    number: int,
    user: Any,  # a chatbot or a writer
    ticket: Ticket,
    emit: Emit | None = None,
) -> dict[str, Any]:
    """Answer or go on with a text, and emit it while it comes; each output has the next seed."""
    options = asked.changes(user) | {"n_best": 1, "beam": 1}
    options["seed"] = options.get("seed", user.config.decode.seed) + number
    if isinstance(asked, ChatRequest):
        read, pieces = asked.turns[-1], Kept[str, Any](user.answering(asked.turns, **options))
    else:
        read, pieces = (
            asked.text,
            Kept[str, Any](user.stream(asked.text, stop=asked.stop, **options)),
        )
    for text in pieces:
        tokens = [
            token_data(token, user.target.tokens([token])[0], log_prob)
            for token, log_prob in ticket.take_said()
        ]
        if emit and (text or tokens):
            emit("piece", {"text": text, "tokens": tokens})
    answer = output_data(pieces.value, *notes_on(user, read), seed=pieces.value.seed)
    if emit:
        emit("done", answer)
    return answer


@api.post("/classify", name="classify")
async def classify_texts(asked: ClassifyRequest, caller: Asking) -> dict[str, Any]:
    """Label a text, or each of several."""
    run = caller.shelf.named(asked.run, "classify")
    return await caller.answer(run, partial(labels_data, asked, run))


def labels_data(
    asked: ClassifyRequest, run: ServedRun, classifier: Classifier, _: Ticket
) -> dict[str, Any]:
    texts = listed(asked.text)
    cut = list(without_each_word(texts[0])) if asked.words and isinstance(asked.text, str) else []
    found = run.classify([*texts, *(text for _, text in cut)])
    results = [
        {
            "labels": list(each.labels),
            "probabilities": each.probabilities,
            "notes": [*each.notes, *notes_on(classifier, text)],
        }
        for text, each in zip(texts, found, strict=False)
    ]
    if not isinstance(asked.text, str):
        return {"results": results}
    words = [
        {**word, "probabilities": each.probabilities}
        for (word, _), each in zip(cut, found[1:], strict=True)
    ]
    return results[0] | ({"words": words} if asked.words else {})


def without_each_word(text: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The words of a text, and the text without each of them."""
    for match in islice(WORD.finditer(text), LIMITS.texts):
        begin, end = match.span()
        yield {"word": match[0], "begin": begin, "end": end}, text[:begin] + text[end:]


@api.post("/fill", name="fill")
async def fill_gaps(asked: FillRequest, caller: Asking) -> dict[str, Any]:
    """Find words for the gaps (____) of a text."""

    def job(filler: Filler, _: Ticket) -> dict[str, Any]:
        found = filler.fill(asked.text, asked.n_best)
        gaps = [[vars(word) for word in gap] for gap in found.gaps]
        return {"text": str(found), "gaps": gaps, "notes": notes_on(filler, asked.text)}

    return await caller.answer(caller.shelf.named(asked.run, "fill"), job)


@api.post("/embed", name="embed")
async def embed_texts(asked: EmbedRequest, caller: Asking) -> dict[str, Any]:
    """Turn texts into vectors that lie close where texts mean the same."""
    run = caller.shelf.named(asked.run, "embed")
    vectors = await caller.answer(run, lambda *_: run.embed(listed(asked.text)))
    return {"vectors": vectors, "width": len(vectors[0]) if vectors else 0}


@api.post("/alternatives", name="alternatives")
async def propose_words(asked: AlternativesRequest, caller: Asking) -> dict[str, Any]:
    """What else could stand at a place of a translation, and how it would go on."""

    def job(translator: Translator, _: Ticket) -> list[dict[str, Any]]:
        refuse_ids(asked.prefix_ids, translator)
        found = translator.alternatives(asked.text, asked.prefix_ids, asked.n)
        return [output_data(each, score=each.score) for each in found]

    run = caller.shelf.named(asked.run, "alternatives")
    return {"alternatives": await caller.answer(run, job)}


@api.post("/align", name="align")
async def align_words(asked: AlignRequest, caller: Asking) -> dict[str, Any]:
    """Which source word each word was made from, while a translation is still being written."""
    run = caller.shelf.named(asked.run, "translate")
    found = await caller.answer(run, lambda user, _: alignment_data(user, asked.text, asked.target))
    return {"alignment": found}


@api.post("/look", name="look", response_class=Response, responses={200: BINARY})
async def look_inside(asked: LookRequest, caller: Asking) -> Response:
    """All that happened inside: one safetensors file, whose metadata hold the JSON (look)."""
    run = caller.shelf.named(asked.run, "look")

    def job(user: User, _: Ticket) -> bytes:
        with LOOKING:
            return look_file(user, run, asked)

    return Response(await caller.answer(run, job), media_type=SAFETENSORS)


def look_file(user: User, run: ServedRun, asked: LookRequest) -> bytes:
    """A look as one safetensors file; its metadata hold the JSON under the name look."""
    if asked.checkpoint:
        user = at_checkpoint(run.folder.path, asked.checkpoint)
    options = asked.model_dump(
        include={"beam", "max_length", "seed", "temperature"}, exclude_none=True
    )
    if isinstance(user, Classifier | Encoder | Filler):
        found = user.look(asked.text, edit=asked.edits)
    elif isinstance(user, Chatbot):
        found = user.look(asked.text, asked.target, asked.edits, before=asked.before, **options)
    else:
        if isinstance(user, Translator):
            refuse_ids(asked.prefix_ids, user)
            options["prefix"] = asked.prefix_ids
        found = user.look(asked.text, asked.target, asked.edits, **options)
    if asked.film:
        found = replace(found, film=film_of(run.folder.film.lines()))
    told = found.meta() | ({"heads": found.silenced_heads()} if asked.heads else {})
    return tensor_bytes(found.tensors(), {"look": json.dumps(told, allow_nan=False)})


@lru_cache(maxsize=1)
def at_checkpoint(path: Path, checkpoint: str) -> User:
    return load_run(path, checkpoint=checkpoint)


@api.get("/progress", name="follow", response_class=StreamingResponse, responses=STREAMED)
async def follow_training(
    run: Annotated[str, Query(max_length=200)], caller: Asking
) -> StreamingResponse:
    """The reports of a run in training, as events: report, frame, state, reset, error."""
    work = caller.work
    followed = work.shelf.runs.get(run) or work.shelf.named(run, "look")  # which refuses the name
    if work.n_watching >= WATCHERS:
        raise RequestError("Slowdown: too many requests", "Ask again later.", 429, "busy")
    work.n_watching += 1

    def leave() -> None:
        work.n_watching -= 1

    return EventStream(progress(followed, work), leave)


async def progress(run: ServedRun, work: Work) -> AsyncIterator[str]:
    """Reports and frames of a training as they are written, until the client leaves.

    An error is the last event: the status was sent before the first.
    """
    sent = {"report": 0, "frame": 0}
    logs = {"report": run.folder.log, "frame": run.folder.film}
    state: dict[str, Any] = {}
    try:
        tokenizers = await asyncio.to_thread(run.folder.tokenizers)
        while not work.draining:
            for event, log in logs.items():
                lines = await asyncio.to_thread(list, log.lines())
                if len(lines) < sent[event]:  # a run that was killed reports some steps again
                    sent[event] = 0
                    yield event_text("reset", {"of": event})
                for line in lines[sent[event] :]:
                    is_frame = event == "frame"
                    yield event_text(event, spelled_frame(line, *tokenizers) if is_frame else line)
                sent[event] = len(lines)
            steps = run.folder.checkpoints.steps()
            now = {"trained": run.folder.has_weights(), "checkpoints": steps}
            if now != state:
                state = now
                yield event_text("state", state)
            await asyncio.sleep(POLL)
    except Exception as error:
        yield event_text("error", error_data(error))


def spelled_frame(line: Mapping[str, Any], source: Tokenizer, target: Tokenizer) -> dict[str, Any]:
    """A frame of the film, its tokens as people read them."""
    probes = [
        {
            **probe,
            "source": source.tokens(probe["source"]),
            "target": target.tokens(probe["target"]),
        }
        for probe in line.get("probes", ())
    ]
    return {**line, "probes": probes}
