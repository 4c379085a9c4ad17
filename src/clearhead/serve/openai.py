"""OpenAI's API, as its official client reads it: models, chat, completions, embeddings, streams."""

import base64
import json
import time
import uuid
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from clearhead.errors import RequestError
from clearhead.serve.models import ServedRun
from clearhead.serve.own import LIMITS, LONGEST, STREAMED, Text, embedded, refuse_ids
from clearhead.serve.pool import Ticket
from clearhead.serve.work import Emit, Work
from clearhead.tasks import Chatbot, Translator, User, Writer
from clearhead.tasks.task import Kept
from clearhead.tasks.writing import Until

FAN_OUT = 16
"""Outputs that one request may ask for in all."""
Tokens = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=LONGEST)]


class StreamOptions(BaseModel):
    include_usage: bool = False


class Sampling(BaseModel):
    """What chat and completions have in common; fields that are not known are passed over."""

    model: Annotated[str, Field(max_length=200)]
    max_tokens: Annotated[int, Field(ge=1, le=2**31)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    n: Annotated[int, Field(ge=1, le=LIMITS.n)] | None = None
    seed: int | None = None
    stop: (
        Annotated[str, Field(max_length=100)]
        | Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=4)]
        | None
    ) = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    def changes(self, user: User, number: int) -> dict[str, Any]:
        """How to decode; of several outputs each has the next seed."""
        found: dict[str, Any] = {"n_best": 1, "beam": 1}
        given = {"temperature": self.temperature, "top_p": self.top_p, "max_length": self.length}
        found |= {name: value for name, value in given.items() if value is not None}
        seed = user.config.decode.seed if self.seed is None else self.seed % 2**53
        return found | {"seed": seed + number}

    @property
    def length(self) -> int | None:
        return self.max_tokens

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []


class Part(BaseModel):
    type: Literal["text"]
    text: Text


class Turn(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[Part], Field(max_length=LIMITS.texts)]

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


class ChatCompletion(Sampling):
    messages: Annotated[list[Turn], Field(min_length=1, max_length=LIMITS.texts)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=2**31)] | None = None
    logprobs: bool | None = None

    @property
    def length(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def turns(self) -> list[str]:
        """What was said, the user's turn first and last; these models know no system's."""
        turns: list[tuple[str, str]] = []
        for turn in self.messages:
            if turn.role in ("system", "developer") or (not turns and turn.role != "user"):
                continue
            if turns and turns[-1][0] == turn.role:
                turns[-1] = turn.role, f"{turns[-1][1]}\n{turn.text}"
            else:
                turns.append((turn.role, turn.text))
        if not turns or turns[-1][0] != "user":
            raise RequestError("The last message is not the user's.", "End with one of his.")
        return [text for _, text in turns]


class Completion(Sampling):
    prompt: (
        Text
        | Annotated[list[Text], Field(max_length=LIMITS.texts)]
        | Tokens
        | Annotated[list[Tokens], Field(max_length=LIMITS.texts)]
    ) = ""

    def prompts(self, user: User) -> list[str]:
        """The prompts as texts; some clients send tokens."""
        given: Any = self.prompt if isinstance(self.prompt, list) else [self.prompt]
        if not given:
            raise RequestError("There is no prompt.", "Give one, or leave the list out.")
        given = [given] if isinstance(given[0], int) else given
        for ids in given:
            if not isinstance(ids, str):
                refuse_ids(ids, user)
        return [each if isinstance(each, str) else user.target.decode(each) for each in given]


class Embedding(BaseModel):
    model: Annotated[str, Field(max_length=200)]
    input: Text | Annotated[list[Text], Field(min_length=1, max_length=LIMITS.texts)]
    encoding_format: Literal["float", "base64"] = "float"


@dataclass
class Choice:
    """One output while it is written: its text so far, its tokens, and why it ended."""

    index: int
    n_prompt: int
    text: str = ""
    tokens: list[tuple[str, float]] = field(default_factory=list)
    reason: str = "length"

    @property
    def logprobs(self) -> dict[str, Any]:
        content = [
            {"token": text, "logprob": value, "bytes": list(text.encode()), "top_logprobs": []}
            for text, value in self.tokens
        ]
        return {"content": content, "refusal": None}


def refuse_overflow(n_prompt: int, n_asked: int, n_context: int) -> None:
    if n_prompt > n_context or n_asked > n_context:
        raise RequestError(
            f"This model's maximum context length is {n_context} tokens. However, you requested "
            f"{n_prompt + n_asked} tokens ({n_prompt} in the prompt, {n_asked} in the completion).",
            "Shorten the prompt or the completion.",
            400,
            "context_length_exceeded",
        )


def spoken(
    user: User, ticket: Ticket, asked: ChatCompletion | Completion, read: list[str], index: int
) -> Iterator[tuple[Choice, str]]:
    """An output as it is written, up to a stop string: the choice, and the text that is new."""
    options = asked.changes(user, index % (asked.n or 1))
    n_asked = asked.length or 0
    if isinstance(user, Chatbot):
        n_prompt = len(user.read(read))
        refuse_overflow(n_prompt, n_asked, user.limit)
        pieces = Kept[str, Any](user.answering(read, **options))
    elif isinstance(user, Writer):
        n_prompt = len(user.read(read[-1].rstrip(" ")))
        refuse_overflow(n_prompt, n_asked, user.window)
        pieces = Kept[str, Any](user.stream(read[-1], **options))
    else:
        assert isinstance(user, Translator), "chat is answered by chatbots and translators"
        yield from translated(user, asked, read[-1], index)
        return
    choice, until, n_said = Choice(index, n_prompt), Until(asked.stops), len(ticket.said)
    for piece in pieces:
        new, n_said = ticket.said[n_said:], len(ticket.said)
        choice.tokens += [(user.target.decode([token]), value) for token, value in new]
        yield told(choice, until.push(piece))
        if until.reached:
            pieces.generator.close()
            choice.reason = "stop"
            return
    yield told(choice, until.end(""))
    whole = pieces.value
    if len(whole.log_probs) > len(whole.ids):  # the end was chosen, too
        choice.reason = "stop"


def told(choice: Choice, text: str) -> tuple[Choice, str]:
    choice.text += text
    return choice, text


def translated(
    user: Translator, asked: ChatCompletion | Completion, text: str, index: int
) -> Iterator[tuple[Choice, str]]:
    """A translator answers with the translation of what was said."""
    n_prompt = len(user.source.encode(text)) + 1
    options = {"max_length": asked.length} if asked.length else {}
    found = user.translate(text, **options)
    choice = Choice(index, n_prompt, reason="stop")
    choice.tokens = list(zip(found.tokens, found.log_probs, strict=False))
    yield told(choice, found.text)


def usage_of(choices: list[Choice]) -> dict[str, int]:
    """What all outputs took; a prompt counts once, however many outputs it has."""
    prompts = sum(choice.n_prompt for choice in choices)
    completion = sum(len(choice.tokens) for choice in choices)
    return {
        "prompt_tokens": prompts,
        "completion_tokens": completion,
        "total_tokens": prompts + completion,
    }


def written(event: str, data: Mapping[str, Any]) -> str:
    """An event as OpenAI's client reads it."""
    if event == "end":
        return "data: [DONE]\n\n"
    if event == "error":
        whole = f"{data['error']} {data['advice']}".strip()
        data = {
            "error": {"message": whole, "type": "server_error", "param": None, "code": data["code"]}
        }
    return f"data: {json.dumps(data)}\n\n"


class Answer:
    """The shape of an answer, whole or in chunks; all chunks have one id and one date."""

    def __init__(self, asked: ChatCompletion | Completion) -> None:
        self.asked, self.is_chat = asked, isinstance(asked, ChatCompletion)
        prefix = "chatcmpl" if self.is_chat else "cmpl"
        self.head = {
            "id": f"{prefix}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": asked.model,
        }

    def whole(self, choices: list[Choice]) -> dict[str, Any]:
        kind = "chat.completion" if self.is_chat else "text_completion"
        told = [self.choice(each) for each in choices]
        return {**self.head, "object": kind, "choices": told, "usage": usage_of(choices)}

    def choice(self, choice: Choice) -> dict[str, Any]:
        found: dict[str, Any] = {"index": choice.index, "finish_reason": choice.reason}
        if not isinstance(self.asked, ChatCompletion):
            return found | {"text": choice.text, "logprobs": None}
        message = {"role": "assistant", "content": choice.text, "refusal": None}
        logprobs = choice.logprobs if self.asked.logprobs else None
        return found | {"message": message, "logprobs": logprobs}

    def chunk(self, index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.is_chat else "text_completion"
        own = {"delta": delta} if self.is_chat else {"text": delta.get("content", "")}
        choice = {"index": index, **own, "finish_reason": reason, "logprobs": None}
        return {**self.head, "object": kind, "choices": [choice], **self.no_usage}

    @property
    def wants_usage(self) -> bool:
        return bool(self.asked.stream_options and self.asked.stream_options.include_usage)

    @property
    def no_usage(self) -> dict[str, None]:
        return {"usage": None} if self.wants_usage else {}

    def stream(self, reads: list[list[str]] | None = None) -> Any:
        def job(user: User, ticket: Ticket, emit: Emit) -> None:
            choices: list[Choice] = []
            for index, read in enumerate(read_of(self.asked, user) if reads is None else reads):
                if self.is_chat:
                    emit("chunk", self.chunk(index, {"role": "assistant", "content": ""}))
                for choice, text in spoken(user, ticket, self.asked, read, index):
                    choices[index:] = [choice]
                    if text:
                        emit("chunk", self.chunk(index, {"content": text}))
                emit("chunk", self.chunk(index, {}, choices[index].reason))
            if self.wants_usage:
                kind = "chat.completion.chunk" if self.is_chat else "text_completion"
                emit(
                    "chunk",
                    {**self.head, "object": kind, "choices": [], "usage": usage_of(choices)},
                )
            emit("end", {})

        return job


def read_of(asked: ChatCompletion | Completion, user: User) -> list[list[str]]:
    """What is read for each output that is asked for."""
    if isinstance(asked, ChatCompletion):
        reads = [asked.turns] * (asked.n or 1)
    else:
        reads = [[prompt] for prompt in asked.prompts(user) for _ in range(asked.n or 1)]
    if len(reads) > FAN_OUT:
        raise RequestError(
            f"{len(reads)} outputs are too many at once.", f"Ask for {FAN_OUT} at most."
        )
    return reads


def routes(work: Work) -> APIRouter:
    api = APIRouter(prefix="/v1", tags=["OpenAI"])
    shelf, begun = work.shelf, int(time.time())

    def model_of(run: ServedRun) -> dict[str, Any]:
        return {"id": run.name, "object": "model", "created": begun, "owned_by": "clearhead"}

    @api.get("/models")
    async def models() -> dict[str, Any]:
        """The runs that are trained."""
        runs = [run for run in shelf.runs.values() if run.folder.has_weights()]
        return {"object": "list", "data": [model_of(run) for run in runs]}

    @api.get("/models/{model}")
    async def model(model: str) -> dict[str, Any]:
        """One run."""
        return model_of(shelf.named(model, "look"))

    @api.post("/chat/completions", response_model=None, responses=STREAMED)
    async def chat(asked: ChatCompletion, request: Request) -> Response | dict[str, Any]:
        """Answer a conversation; a translator translates its last message."""
        able = asked.model in shelf.runs and not shelf.runs[asked.model].cannot("translate")
        return await answered(
            asked, request, shelf.named(asked.model, "translate" if able else "chat")
        )

    @api.post("/completions", response_model=None, responses=STREAMED)
    async def completions(asked: Completion, request: Request) -> Response | dict[str, Any]:
        """Go on with a text."""
        return await answered(asked, request, shelf.named(asked.model, "write"))

    async def answered(
        asked: ChatCompletion | Completion, request: Request, run: ServedRun
    ) -> Response | dict[str, Any]:
        answer = Answer(asked)
        with_user = await work.in_thread(lambda: checked(asked, run))
        if asked.stream:
            return work.stream(run, answer.stream(with_user), written)

        def job(read: list[str], index: int) -> Any:
            def said(user: User, ticket: Ticket) -> Choice:
                return [choice for choice, _ in spoken(user, ticket, asked, read, index)][-1]

            return said

        jobs = [job(read, index) for index, read in enumerate(with_user)]
        return answer.whole(await work.answers(request, run, jobs))

    def checked(asked: ChatCompletion | Completion, run: ServedRun) -> list[list[str]]:
        """What is to be read, refused before a stream begins if it is too long."""
        with shelf.using(run) as (user, _):
            reads = read_of(asked, user)
            for read in reads:
                if isinstance(user, Chatbot):
                    refuse_overflow(len(user.read(read)), asked.length or 0, user.limit)
                elif isinstance(user, Writer):
                    n_prompt = len(user.read(read[-1].rstrip(" ")))
                    refuse_overflow(n_prompt, asked.length or 0, user.window)
        return reads

    def n_tokens_in(run: ServedRun, texts: list[str]) -> int:
        with shelf.using(run) as (user, _):
            return sum(map(len, user.source.encode_batch(texts)))

    @api.post("/embeddings")
    async def embeddings(asked: Embedding, request: Request) -> dict[str, Any]:
        """Texts as vectors."""
        run = shelf.named(asked.model, "embed")
        texts = [asked.input] if isinstance(asked.input, str) else asked.input
        vectors = await embedded(work, request, run, texts)
        n_tokens = await work.in_thread(lambda: n_tokens_in(run, texts))
        data = [
            {"object": "embedding", "index": index, "embedding": encoded(vector, asked)}
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
        return {"object": "list", "data": data, "model": asked.model, "usage": usage}

    return api


def encoded(vector: list[float], asked: Embedding) -> list[float] | str:
    """The numbers, or their bytes (float32, little-endian) in base64, as the client prefers."""
    if asked.encoding_format == "float":
        return vector
    values = array("f", vector)
    if array("H", [1]).tobytes() == b"\0\1":
        values.byteswap()
    return base64.b64encode(values.tobytes()).decode()
