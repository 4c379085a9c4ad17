"""clearhead's own API under /api: all that the page needs, with streaming."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from clearhead import __version__
from clearhead.errors import RequestError
from clearhead.look.film import film_of
from clearhead.serve.models import ABILITIES, ServedRun
from clearhead.serve.pool import Ticket
from clearhead.serve.settings import Limits
from clearhead.serve.work import Emit, EventStream, Work, to_the_end, written
from clearhead.tasks import (
    Chatbot,
    Classification,
    Classifier,
    Encoder,
    Filler,
    Translation,
    Translator,
    User,
    Writer,
)
from clearhead.tasks import load as load_run
from clearhead.tasks.task import Kept, Output
from clearhead.tensors import tensor_bytes
from clearhead.text.words import WORD

LIMITS = Limits()
LONGEST = 2_000
"""Tokens that may be asked for, or given as a prefix."""
POLL = 1.0
"""Seconds between two looks at a run that is being trained."""
WATCHERS = 16
"""Clients that may follow trainings at the same time."""
SAFETENSORS = "application/octet-stream"
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
"""An answer that may also come as a stream."""

Text = Annotated[str, Field(max_length=LIMITS.characters)]
Texts = Annotated[list[Text], Field(max_length=LIMITS.texts)]
Term = Annotated[str, Field(min_length=1, max_length=100)]
Ids = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=LONGEST)]
Share = Annotated[float, Field(ge=0, le=1)]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Asked(Shape):
    """What every request may say."""

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
    min_p: Share | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=100)] | None = None
    no_repeat_ngram: Annotated[int, Field(ge=0, le=1_000)] | None = None
    seed: Annotated[int, Field(ge=0, le=2**53)] | None = None

    def changes(self, user: User) -> dict[str, Any]:
        """The settings that differ from the run's own; a beam holds as many as are asked for."""
        names = set(Decoding.model_fields) - {"stream", *Asked.model_fields}
        found = {name: value for name in names if (value := getattr(self, name)) is not None}
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
    stop: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=4)] = []


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


def tokens_of(output: Output) -> list[dict[str, Any]]:
    each = zip(output.ids, output.tokens, strict=True)
    found: list[dict[str, Any]] = [{"id": id_, "text": text} for id_, text in each]
    for token, log_prob in zip(found, output.log_probs, strict=False):
        token["log_prob"] = round(log_prob, 6)
    return found


def told(output: Output, **more: Any) -> dict[str, Any]:
    """An output as JSON."""
    notes = list(dict.fromkeys([*output.notes, *more.pop("notes", ())]))
    return {"text": output.text, "tokens": tokens_of(output), "notes": notes, **more}


class Live:
    """Tells a stream what is certain of a translation while it is searched for.

    Pieces of a long text are decoded side by side and told in order. Where an output was decoded
    again, the stream begins anew.
    """

    def __init__(self, translator: Translator, asked: TranslateRequest, emit: Emit) -> None:
        assert isinstance(asked.text, str), "a stream has one text"
        pieces = translator.pieces(asked.text, {}, (), asked.on_too_long)
        self.spaces = [piece.space for piece in pieces]
        self.translator, self.emit = translator, emit
        self.found: dict[int, tuple[list[int], list[float]]] = {}
        self.begin()

    def begin(self) -> None:
        self.piece, self.n_shown, self.text = 0, 0, ""
        self.decoder = self.translator.target.stream()

    def watch(self, piece: int, ids: list[int], log_probs: list[float]) -> None:
        before = self.found.get(piece, ([], []))[0]
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
            new, is_done = ids[self.n_shown :], ids[-1:] == [self.translator.target.end]
            self.show(new[:-1] if is_done and new else new, log_probs[self.n_shown :])
            self.n_shown = len(ids)
            if not is_done:
                return
            self.say(self.decoder.end() + self.spaces[self.piece])
            self.piece, self.n_shown = self.piece + 1, 0
            self.decoder = self.translator.target.stream()

    def show(self, ids: list[int], log_probs: list[float]) -> None:
        for token, log_prob in zip(ids, log_probs, strict=False):
            text = self.translator.target.tokens([token])[0]
            named = {"id": token, "text": text, "log_prob": round(log_prob, 6)}
            self.say(self.decoder.push(token), named)

    def say(self, text: str, *tokens: Mapping[str, Any]) -> None:
        if text or tokens:
            self.text += text
            self.emit("piece", {"text": text, "tokens": list(tokens)})

    def end(self, text: str) -> None:
        """Whatever was told, the text is this."""
        if self.text != text:
            self.reset()
            self.say(text)


def translated(translator: User, asked: TranslateRequest) -> list[dict[str, Any]]:
    assert isinstance(translator, Translator), "the run can translate"
    refuse_ids(asked.prefix_ids, translator)
    texts = [asked.text] if isinstance(asked.text, str) else asked.text
    found = translator.translate(
        texts,
        glossary=asked.glossary,
        protect=asked.protect,
        on_too_long=asked.on_too_long,
        prefix=asked.prefix_ids,
        scored=asked.scores,
        **asked.changes(translator),
    )
    return [
        told(
            each,
            **score_of(each, asked),
            notes=notes_on(translator, text),
            alternatives=[told(other, **score_of(other, asked)) for other in each.alternatives],
            **({"alignment": aligned(translator, text, each.text)} if asked.align else {}),
        )
        for text, each in zip(texts, found, strict=True)
    ]


def score_of(found: Translation, asked: TranslateRequest) -> dict[str, float]:
    return {"score": found.score} if asked.scores else {}


def aligned(translator: Translator, source: str, target: str) -> dict[str, Any] | None:
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


def stream_translation(asked: TranslateRequest) -> Any:
    def job(user: User, ticket: Ticket, emit: Emit) -> None:
        assert isinstance(user, Translator), "the run can translate"
        live = Live(user, asked, emit)
        ticket.watch = live.watch
        (found,) = translated(user, asked)
        live.end(found["text"])
        emit("done", found)

    return job


def emitted(pieces: Kept[str, Any], user: User, ticket: Ticket, emit: Emit) -> Any:
    """The value of a stream of text, each piece of which is told with the tokens it came from."""
    n_said = 0
    for text in pieces:
        new, n_said = ticket.said[n_said:], len(ticket.said)
        tokens = [
            {"id": token, "text": user.target.tokens([token])[0], "log_prob": round(lp, 6)}
            for token, lp in new
        ]
        if text or tokens:
            emit("piece", {"text": text, "tokens": tokens})
    return pieces.value


def said(asked: ChatRequest | WriteRequest, number: int = 0) -> Any:
    """A job that answers or goes on with a text: whole, or as events where it is told where to.

    Of several outputs each has the next seed.
    """

    def job(user: User, ticket: Ticket, emit: Emit | None = None) -> dict[str, Any]:
        options = asked.changes(user) | {"n_best": 1, "beam": 1}
        options["seed"] = options.get("seed", user.config.decode.seed) + number
        if isinstance(asked, ChatRequest):
            assert isinstance(user, Chatbot), "the run can chat"
            pieces = Kept[str, Any](user.answering(asked.turns, **options))
        else:
            assert isinstance(user, Writer), "the run can write"
            pieces = Kept[str, Any](user.stream(asked.text, stop=asked.stop, **options))
        found = emitted(pieces, user, ticket, emit or (lambda *_: None))
        read = asked.turns[-1] if isinstance(asked, ChatRequest) else asked.text
        answer = told(found, seed=found.seed, notes=notes_on(user, read))
        if emit:
            emit("done", answer)
        return answer

    return job


def jobs_of(asked: ChatRequest | WriteRequest) -> list[Any]:
    return [said(asked, number) for number in range(asked.n_best or 1)]


def notes_on(user: User, text: str) -> list[str]:
    return [note] if (note := user.note_on(text)) else []


def several(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {**found[0], "alternatives": found[1:]}


def refuse_ids(ids: list[int], user: User) -> None:
    """Refuse a prefix of tokens that no output holds."""
    vocabulary = user.target.vocabulary
    wrong = [i for i in ids if not len(vocabulary.specials) <= i < user.target.vocab_size]
    if wrong:
        raise RequestError(
            f"No output holds the token {wrong[0]}.", "Take the ids from an answer of this run."
        )


async def embedded(
    work: Work, request: Request, run: ServedRun, texts: list[str]
) -> list[list[float]]:
    def job(_: User, __: Ticket) -> list[list[float]]:
        assert run.embed is not None, "the run is loaded"
        return [vector.tolist() for vector in run.embed(texts)]

    return await work.answer(request, run, job)


def labelled(found: Classification, notes: list[str]) -> dict[str, Any]:
    return {
        "labels": list(found.labels),
        "probabilities": found.probabilities,
        "notes": [*found.notes, *notes],
    }


def without_words(text: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The text without each of its words in turn."""
    for match in islice(WORD.finditer(text), LIMITS.texts):
        begin, end = match.span()
        yield {"word": match[0], "begin": begin, "end": end}, text[:begin] + text[end:]


@lru_cache(maxsize=1)
def at_checkpoint(path: Path, checkpoint: str) -> User:
    return load_run(path, checkpoint=checkpoint)


def looked(user: User, run: ServedRun, asked: LookRequest) -> bytes:
    """A look as one safetensors file; its metadata hold the JSON under the name look."""
    user = at_checkpoint(run.folder.path, asked.checkpoint) if asked.checkpoint else user
    options: dict[str, Any] = {
        name: value
        for name in ("beam", "max_length", "seed", "temperature")
        if (value := getattr(asked, name)) is not None
    }
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


def run_told(run: ServedRun) -> dict[str, Any]:
    """A run as the page introduces it."""
    config, kind = run.config, run.kind
    source, target = run.languages
    abilities = [*ABILITIES, "embed", "look"]
    reasons = {ability: run.cannot(ability) for ability in abilities}
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


async def progress(run: ServedRun, work: Work) -> AsyncIterator[str]:
    """Reports and frames of a training as they are written, until the client leaves."""
    sent = {"report": 0, "frame": 0}
    logs = {"report": run.folder.log, "frame": run.folder.film}
    spell = await asyncio.to_thread(run.folder.tokenizers)
    state: dict[str, Any] = {}
    while not work.gate.draining:
        for event, log in logs.items():
            lines = await asyncio.to_thread(list, log.lines())
            if len(lines) < sent[event]:  # a run that was killed reports some steps again
                sent[event] = 0
                yield written("reset", {"of": event})
            for line in lines[sent[event] :]:
                yield written(event, spelled(line, spell) if event == "frame" else line)
            sent[event] = len(lines)
        now = {"trained": run.folder.has_weights(), "checkpoints": run.folder.checkpoints.steps()}
        if now != state:
            state = now
            yield written("state", state)
        await asyncio.sleep(POLL)


def spelled(line: Mapping[str, Any], tokenizers: Any) -> dict[str, Any]:
    """A frame of the film, its tokens as people read them."""
    sides = dict(zip(("source", "target"), tokenizers, strict=True))
    probes = [
        {**probe, **{name: own.tokens(probe[name]) for name, own in sides.items()}}
        for probe in line.get("probes", ())
    ]
    return {**line, "probes": probes}


def routes(work: Work) -> APIRouter:
    api = APIRouter(prefix="/api", tags=["clearhead"])
    shelf = work.shelf
    n_watching = 0

    @api.get("/runs")
    def runs() -> dict[str, Any]:
        """The runs that are served: what each can do, and why it cannot do the rest."""
        limits = vars(work.settings.limits)
        found = [run_told(run) for run in shelf.runs.values()]
        return {"version": __version__, "runs": found, "limits": limits}

    @api.post("/translate", response_model=None, responses=STREAMED)
    async def translate(asked: TranslateRequest, request: Request) -> Response:
        """Translate a text, or each of several."""
        run = shelf.named(asked.run, "translate")
        if asked.stream:
            if not isinstance(asked.text, str):
                raise RequestError("A stream has one text.", "Give a string, or leave out stream.")
            return work.stream(run, stream_translation(asked))
        found = await work.answer(request, run, lambda user, _: translated(user, asked))
        # as it is: FastAPI would look at each value once more
        return JSONResponse(found[0] if isinstance(asked.text, str) else {"results": found})

    @api.post("/chat", response_model=None, responses=STREAMED)
    async def chat(asked: ChatRequest, request: Request) -> Response | dict[str, Any]:
        """Answer the last turn of a conversation."""
        run = shelf.named(asked.run, "chat")
        if asked.stream:
            return work.stream(run, said(asked))
        return several(await work.answers(request, run, jobs_of(asked)))

    @api.post("/write", response_model=None, responses=STREAMED)
    async def write(asked: WriteRequest, request: Request) -> Response | dict[str, Any]:
        """Go on with a text, in one way or several."""
        run = shelf.named(asked.run, "write")
        if asked.stream:
            return work.stream(run, said(asked))
        return several(await work.answers(request, run, jobs_of(asked)))

    @api.post("/classify")
    async def classify(asked: ClassifyRequest, request: Request) -> dict[str, Any]:
        """Label a text, or each of several."""
        run = shelf.named(asked.run, "classify")
        texts = [asked.text] if isinstance(asked.text, str) else asked.text
        left_out = list(without_words(texts[0])) if asked.words and texts else []

        def job(user: User, _: Ticket) -> list[dict[str, Any]]:
            assert run.classify is not None, "the run is loaded"
            found = run.classify([*texts, *(text for _, text in left_out)])
            notes = [notes_on(user, text) for text in texts] + [[]] * len(left_out)
            return [labelled(*both) for both in zip(found, notes, strict=True)]

        found = await work.answer(request, run, job)
        if not isinstance(asked.text, str):
            return {"results": found[: len(texts)]}
        words = [
            {**word, "probabilities": other["probabilities"]}
            for (word, _), other in zip(left_out, found[1:], strict=True)
        ]
        return found[0] | ({"words": words} if asked.words else {})

    @api.post("/fill")
    async def fill(asked: FillRequest, request: Request) -> dict[str, Any]:
        """Find words for the gaps (____) of a text."""

        def job(user: User, _: Ticket) -> dict[str, Any]:
            assert isinstance(user, Filler), "the run can fill"
            found = user.fill(asked.text, asked.n_best)
            gaps = [[vars(word) for word in gap] for gap in found.gaps]
            return {"text": str(found), "gaps": gaps, "notes": notes_on(user, asked.text)}

        return await work.answer(request, shelf.named(asked.run, "fill"), job)

    @api.post("/embed")
    async def embed(asked: EmbedRequest, request: Request) -> dict[str, Any]:
        """Turn texts into vectors that lie close where texts mean the same."""
        texts = [asked.text] if isinstance(asked.text, str) else asked.text
        vectors = await embedded(work, request, shelf.named(asked.run, "embed"), texts)
        return {"vectors": vectors, "width": len(vectors[0]) if vectors else 0}

    @api.post("/alternatives")
    async def alternatives(asked: AlternativesRequest, request: Request) -> dict[str, Any]:
        """What else could stand at a place of a translation, and how it would go on."""

        def job(user: User, _: Ticket) -> list[dict[str, Any]]:
            assert isinstance(user, Translator), "the run can translate"
            refuse_ids(asked.prefix_ids, user)
            found = user.alternatives(asked.text, asked.prefix_ids, asked.n)
            return [told(each, score=each.score) for each in found]

        run = shelf.named(asked.run, "alternatives")
        return {"alternatives": await work.answer(request, run, job)}

    @api.post("/align")
    async def align(asked: AlignRequest, request: Request) -> dict[str, Any]:
        """Which source word each word was made from, while a translation is still being written."""

        def job(user: User, _: Ticket) -> dict[str, Any] | None:
            assert isinstance(user, Translator), "the run can translate"
            return aligned(user, asked.text, asked.target)

        run = shelf.named(asked.run, "translate")
        return {"alignment": await work.answer(request, run, job)}

    @api.post(
        "/look",
        response_class=Response,
        responses={
            200: {"content": {SAFETENSORS: {"schema": {"type": "string", "format": "binary"}}}}
        },
    )
    async def look(asked: LookRequest, request: Request) -> Response:
        """All that happened inside: one safetensors file, whose metadata hold the JSON (look)."""
        run = shelf.named(asked.run, "look")

        def job(user: User, _: Ticket) -> bytes:
            with work.looking:
                return looked(user, run, asked)

        return Response(await work.answer(request, run, job), media_type=SAFETENSORS)

    @api.get(
        "/progress",
        response_class=StreamingResponse,
        responses=STREAMED,
    )
    async def follow(run: Annotated[str, Query(max_length=200)]) -> StreamingResponse:
        """The reports of a run in training, as events: report, frame, state, reset, error."""
        nonlocal n_watching
        if run not in shelf.runs:
            shelf.named(run, "look")
        if n_watching >= WATCHERS:
            raise RequestError("Slowdown: too many requests", "Ask again later.", 429, "busy")
        n_watching += 1
        return EventStream(to_the_end(progress(shelf.runs[run], work)), leave)

    def leave() -> None:
        nonlocal n_watching
        n_watching -= 1

    return api
