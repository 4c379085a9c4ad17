"""OpenAI's API, as its official client reads it: models, chat, completions, embeddings, streams."""

import base64
import json
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from clearhead.errors import RequestError
from clearhead.serve.models import ServedRun
from clearhead.serve.own import (
    LIMITS,
    STREAMED,
    Ids,
    Stops,
    Text,
    Texts,
    listed,
    refuse_ids,
)
from clearhead.serve.pool import Ticket
from clearhead.serve.work import Asking, Caller, Emit
from clearhead.tasks import Chatbot, Translator, User, Writer
from clearhead.tasks.task import Kept
from clearhead.tasks.writing import Until

FAN_OUT = 16
"""Outputs that one request may ask for in all."""
BEGUN = int(time.time())
"""When the server began, which stands for the day when a model was made."""
MaxTokens = Annotated[int, Field(ge=1, le=2**31)] | None
Completer = Chatbot | Translator | Writer
Several = Field(min_length=1, max_length=LIMITS.texts)

api = APIRouter(prefix="/v1", tags=["OpenAI"])


class StreamOptions(BaseModel):
    include_usage: bool = False


class Sampling(BaseModel):
    """What chat and completions have in common; fields that are not known are passed over."""

    model: Annotated[str, Field(max_length=200)]
    max_tokens: MaxTokens = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    n: Annotated[int, Field(ge=1, le=LIMITS.n)] | None = None
    seed: int | None = None
    stop: Annotated[str, Field(max_length=100)] | Stops | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    def changes(self, user: User, number: int) -> dict[str, Any]:
        """How to decode; of several outputs each has the next seed."""
        given = {"temperature": self.temperature, "top_p": self.top_p, "max_length": self.length}
        found = {name: value for name, value in given.items() if value is not None}
        seed = user.config.decode.seed if self.seed is None else self.seed % 2**53
        return {"n_best": 1, "beam": 1, **found, "seed": seed + number % (self.n or 1)}

    @property
    def length(self) -> int | None:
        return self.max_tokens

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage


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
    messages: Annotated[list[Turn], Several]
    max_completion_tokens: MaxTokens = None
    logprobs: bool | None = None

    @property
    def length(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    def prompts(self, _: User) -> list[list[str]]:
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
        return [[text for _, text in turns]]


class Completion(Sampling):
    prompt: Text | Texts | Ids | Annotated[list[Ids], Field(max_length=LIMITS.texts)] = ""

    def prompts(self, user: User) -> list[list[str]]:
        """The prompts as texts, each as if it were a conversation of one turn."""
        given: Any = self.prompt if isinstance(self.prompt, list) else [self.prompt]
        if not given:
            raise RequestError("There is no prompt.", "Give one, or leave the list out.")
        if isinstance(given[0], int):
            given = [given]
        return [[each if isinstance(each, str) else decoded_ids(each, user)] for each in given]


def decoded_ids(ids: list[int], user: User) -> str:
    """The text of a prompt that a client sent as tokens."""
    refuse_ids(ids, user)
    return user.target.decode(ids)


class Embedding(BaseModel):
    model: Annotated[str, Field(max_length=200)]
    input: Text | Annotated[list[Text], Several]
    encoding_format: Literal["float", "base64"] = "float"


@dataclass
class CompletionChoice:
    """One output while it is written: what it answers, its text so far, and why it ended."""

    index: int
    read: list[str]
    n_prompt: int
    text: str = ""
    tokens: list[tuple[str, float]] = field(default_factory=list)
    reason: str = "length"

    def add(self, text: str) -> str:
        self.text += text
        return text


def choices_for(asked: ChatCompletion | Completion, user: Completer) -> list[CompletionChoice]:
    """The outputs that are asked for; a prompt that is too long is refused before any begins."""
    prompts = [prompt for prompt in asked.prompts(user) for _ in range(asked.n or 1)]
    if len(prompts) > FAN_OUT:
        raise RequestError(
            f"{len(prompts)} outputs are too many at once.", f"Ask for {FAN_OUT} at most."
        )
    n_read = [n_tokens_in(prompt, user, asked.length or 0) for prompt in prompts]
    return list(map(CompletionChoice, range(len(prompts)), prompts, n_read))


def n_tokens_in(prompt: list[str], user: Completer, n_asked: int) -> int:
    """The tokens of a prompt, if it and what is asked for fit into the context."""
    if isinstance(user, Translator):  # which splits what is too long
        return len(user.source.encode(prompt[-1])) + 1
    if isinstance(user, Chatbot):
        n_prompt, n_context = len(user.read(prompt)), user.limit
    else:
        n_prompt, n_context = len(user.read(prompt[-1].rstrip(" "))), user.window
    if max(n_prompt, n_asked) > n_context:
        raise RequestError(
            f"This model's maximum context length is {n_context} tokens. However, you requested "
            f"{n_prompt + n_asked} tokens ({n_prompt} in the prompt, {n_asked} in the completion).",
            "Shorten the prompt or the completion.",
            400,
            "context_length_exceeded",
        )
    return n_prompt


def write_choice(
    choice: CompletionChoice,
    asked: ChatCompletion | Completion,
    user: Completer,
    ticket: Ticket,
) -> Iterator[str]:
    """Write an output, up to a stop string; its text comes piece by piece."""
    if isinstance(user, Translator):  # answers with the translation of what was said
        options: dict[str, Any] = {"max_length": asked.length} if asked.length else {}
        found = user.translate(choice.read[-1], **options)
        choice.tokens = list(zip(found.tokens, found.log_probs, strict=False))
        choice.reason = "stop"
        yield choice.add(found.text)
        return
    options = asked.changes(user, choice.index)
    if isinstance(user, Chatbot):
        pieces = Kept[str, Any](user.answering(choice.read, **options))
    else:
        pieces = Kept[str, Any](user.stream(choice.read[-1], **options))
    until = Until(listed(asked.stop or []))
    for piece in pieces:
        choice.tokens += [
            (user.target.decode([token]), value) for token, value in ticket.take_said()
        ]
        yield choice.add(until.push(piece))
        if until.reached:
            pieces.generator.close()
            choice.reason = "stop"
            return
    yield choice.add(until.end(""))
    if len(pieces.value.log_probs) > len(pieces.value.ids):  # the end was chosen, too
        choice.reason = "stop"


class Answer:
    """The shape of an answer, whole or in chunks; all chunks have one id and one date."""

    def __init__(self, asked: ChatCompletion | Completion) -> None:
        self.asked, self.is_chat = asked, isinstance(asked, ChatCompletion)
        self.head = {
            "id": f"{'chatcmpl' if self.is_chat else 'cmpl'}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": asked.model,
        }

    def whole(self, choices: list[CompletionChoice]) -> dict[str, Any]:
        kind = "chat.completion" if self.is_chat else "text_completion"
        told = [self.choice_data(each) for each in choices]
        return {**self.head, "object": kind, "choices": told, "usage": usage_of(choices)}

    def choice_data(self, choice: CompletionChoice) -> dict[str, Any]:
        found: dict[str, Any] = {"index": choice.index, "finish_reason": choice.reason}
        if not isinstance(self.asked, ChatCompletion):
            return found | {"text": choice.text, "logprobs": None}
        message = {"role": "assistant", "content": choice.text, "refusal": None}
        tokens = [
            {"token": text, "logprob": value, "bytes": list(text.encode()), "top_logprobs": []}
            for text, value in choice.tokens
        ]
        logprobs = {"content": tokens, "refusal": None} if self.asked.logprobs else None
        return found | {"message": message, "logprobs": logprobs}

    def chunk(self, choices: list[dict[str, Any]], usage: Any = None) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.is_chat else "text_completion"
        found = {**self.head, "object": kind, "choices": choices}
        return found | ({"usage": usage} if self.asked.wants_usage else {})

    def delta(self, index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        own = {"delta": delta} if self.is_chat else {"text": delta.get("content", "")}
        return self.chunk([{"index": index, **own, "finish_reason": reason, "logprobs": None}])

    def stream(
        self, choices: list[CompletionChoice], user: Completer, ticket: Ticket, emit: Emit
    ) -> None:
        """A job that writes one output after the other, in chunks."""
        for choice in choices:
            if self.is_chat:
                emit("chunk", self.delta(choice.index, {"role": "assistant", "content": ""}))
            for text in write_choice(choice, self.asked, user, ticket):
                if text:
                    emit("chunk", self.delta(choice.index, {"content": text}))
            emit("chunk", self.delta(choice.index, {}, choice.reason))
        if self.asked.wants_usage:
            emit("chunk", self.chunk([], usage_of(choices)))
        emit("end", {})


def usage_of(choices: list[CompletionChoice]) -> dict[str, int]:
    """What all outputs took; a prompt counts for each of its outputs."""
    n_read = sum(choice.n_prompt for choice in choices)
    n_written = sum(len(choice.tokens) for choice in choices)
    return {
        "prompt_tokens": n_read,
        "completion_tokens": n_written,
        "total_tokens": n_read + n_written,
    }


def openai_event(event: str, data: Mapping[str, Any]) -> str:
    """An event as OpenAI's client reads it."""
    if event == "end":
        return "data: [DONE]\n\n"
    if event == "error":
        whole = f"{data['error']} {data['advice']}".strip()
        data = openai_error(whole, "server_error", data["code"])
    return f"data: {json.dumps(data)}\n\n"


def openai_error(message: str, kind: str, code: str) -> dict[str, Any]:
    """An error as OpenAI's client reads it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


@api.get("/models", name="models")
async def list_models(caller: Asking) -> dict[str, Any]:
    """The runs that are trained."""
    runs = [run for run in caller.shelf.runs.values() if run.folder.has_weights()]
    return {"object": "list", "data": [model_data(run) for run in runs]}


@api.get("/models/{model}", name="model")
async def describe_model(model: str, caller: Asking) -> dict[str, Any]:
    """One run."""
    return model_data(caller.shelf.named(model, "look"))


def model_data(run: ServedRun) -> dict[str, Any]:
    return {"id": run.name, "object": "model", "created": BEGUN, "owned_by": "clearhead"}


@api.post("/chat/completions", name="chat", response_model=None, responses=STREAMED)
async def complete_chat(asked: ChatCompletion, caller: Asking) -> Response | dict[str, Any]:
    """Answer a conversation; a translator translates its last message."""
    run = caller.shelf.runs.get(asked.model)
    ability = "translate" if run and not run.cannot("translate") else "chat"
    return await answer_completion(asked, ability, caller)


@api.post("/completions", name="completions", response_model=None, responses=STREAMED)
async def complete_text(asked: Completion, caller: Asking) -> Response | dict[str, Any]:
    """Go on with a text."""
    return await answer_completion(asked, "write", caller)


async def answer_completion(
    asked: ChatCompletion | Completion, ability: str, caller: Caller
) -> Response | dict[str, Any]:
    run, answer = caller.shelf.named(asked.model, ability), Answer(asked)
    choices = await caller.in_thread(caller.do, run, lambda user, _: choices_for(asked, user))
    if asked.stream:
        return caller.stream(run, partial(answer.stream, choices), openai_event)

    def job(choice: CompletionChoice, user: Completer, ticket: Ticket) -> None:
        deque(write_choice(choice, asked, user, ticket), maxlen=0)

    await caller.answers(run, [partial(job, choice) for choice in choices])
    return answer.whole(choices)


@api.post("/embeddings", name="embeddings")
async def create_embeddings(asked: Embedding, caller: Asking) -> dict[str, Any]:
    """Texts as vectors."""
    run, texts = caller.shelf.named(asked.model, "embed"), listed(asked.input)
    vectors = await caller.answer(run, lambda *_: run.embed(texts))
    rows = await caller.in_thread(caller.do, run, lambda user, _: user.source.encode_batch(texts))
    data = [
        {"object": "embedding", "index": index, "embedding": packed(vector, asked)}
        for index, vector in enumerate(vectors)
    ]
    n_tokens = sum(map(len, rows))
    usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
    return {"object": "list", "data": data, "model": asked.model, "usage": usage}


def packed(vector: list[float], asked: Embedding) -> list[float] | str:
    """The numbers, or their bytes (float32, little-endian) in base64, as the client prefers."""
    if asked.encoding_format == "float":
        return vector
    return base64.b64encode(np.array(vector, "<f4").tobytes()).decode()
