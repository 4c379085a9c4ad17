"""The API of Hugging Face's text-embeddings-inference (TEI), for classifiers and encoders."""

import math
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from clearhead import __version__
from clearhead.errors import RequestError
from clearhead.serve.models import ServedRun
from clearhead.serve.own import Text, embedded
from clearhead.serve.pool import Ticket
from clearhead.serve.work import Work
from clearhead.tasks import Classifier, User

PATHS = ("/predict", "/embed", "/tokenize", "/info")
Inputs = Text | list[Text]


class Predict(BaseModel):
    inputs: Inputs
    raw_scores: bool = False
    truncate: bool = False
    truncation_direction: Annotated[str, Field(pattern="^[Rr]ight$")] = "Right"


class Embed(BaseModel):
    inputs: Inputs
    normalize: bool = True
    truncate: bool = False


class Tokenize(BaseModel):
    inputs: Inputs


def routes(work: Work) -> APIRouter:
    api = APIRouter(tags=["TEI"])
    shelf = work.shelf

    def texts_of(inputs: str | list[str]) -> list[str]:
        texts, most = [inputs] if isinstance(inputs, str) else inputs, work.settings.limits.texts
        if not texts or not all(texts):
            raise RequestError("`inputs` cannot be empty", code="empty")
        if len(texts) > most:
            raise RequestError(
                f"batch size {len(texts)} > maximum allowed batch size {most}", "", 413
            )
        return texts

    @api.post("/predict")
    async def predict(asked: Predict, request: Request) -> list[Any]:
        """The labels of a text, or of each of several, with their probabilities."""
        texts, run = texts_of(asked.inputs), shelf.named(None, "classify")

        def job(user: User, _: Ticket) -> list[list[dict[str, Any]]]:
            assert isinstance(user, Classifier), "the run can classify"
            assert run.classify is not None, "the run is loaded"
            rows = user.tokenizer.encode_batch(texts)
            if not asked.truncate and max(map(len, rows)) > user.limit:
                raise RequestError(f"`inputs` must have less than {user.limit} tokens", "", 413)
            if asked.raw_scores:
                scores = user.scores([row[: user.limit] for row in rows]).tolist()
                found = [dict(zip(user.labels, row, strict=True)) for row in scores]
            else:
                found = [each.probabilities for each in run.classify(texts)]
            return [ordered(each) for each in found]

        found = await work.answer(request, run, job)
        return found[0] if isinstance(asked.inputs, str) else found

    @api.post("/embed")
    async def embed(asked: Embed, request: Request) -> list[list[float]]:
        """Texts as vectors, of length 1 unless they are not to be."""
        texts = texts_of(asked.inputs)
        vectors = await embedded(work, request, shelf.named(None, "embed"), texts)
        return [of_length_one(vector) for vector in vectors] if asked.normalize else vectors

    @api.post("/tokenize")
    async def tokenize(asked: Tokenize, request: Request) -> list[list[dict[str, Any]]]:
        """The tokens of texts, as the first run that reads them cuts them."""
        texts = texts_of(asked.inputs)

        def job(user: User, _: Ticket) -> list[list[dict[str, Any]]]:
            return [
                [
                    {"id": token, "text": text, "special": False}
                    for token, text in zip(row, user.source.tokens(row), strict=True)
                ]
                for row in user.source.encode_batch(texts)
            ]

        return await work.answer(request, reader(), job)

    @api.get("/info")
    async def info() -> dict[str, Any]:
        """What is served here."""
        run, limits = reader(), work.settings.limits
        return {
            "model_id": run.name,
            "model_dtype": "float32",
            "model_type": {"classifier": {"labels": list(run.config.labels.names)}},
            "max_input_length": run.config.data.max_length,
            "max_client_batch_size": limits.texts,
            "max_concurrent_requests": limits.requests,
            "version": __version__,
        }

    def reader() -> ServedRun:
        able = [run for run in shelf.runs.values() if not run.cannot("classify")]
        return able[0] if able else shelf.named(None, "look")

    return api


def ordered(values: dict[str, float]) -> list[dict[str, Any]]:
    best_first = sorted(values.items(), key=lambda each: -each[1])
    return [{"label": label, "score": score} for label, score in best_first]


def of_length_one(vector: list[float]) -> list[float]:
    length = math.sqrt(sum(x * x for x in vector)) or 1.0
    return [x / length for x in vector]
