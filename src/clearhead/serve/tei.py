"""The API of Hugging Face's text-embeddings-inference (TEI), for classifiers and encoders."""

import math
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from clearhead import __version__
from clearhead.errors import RequestError
from clearhead.serve.models import ServedRun, Shelf
from clearhead.serve.own import Text, listed
from clearhead.serve.pool import Ticket
from clearhead.serve.settings import Limits
from clearhead.serve.work import Asking
from clearhead.tasks import Classifier, User

ERROR_TYPES = {
    "busy": "Overloaded",
    "empty": "Empty",
    "draining": "Unhealthy",
    "unloadable": "Unhealthy",
}
Inputs = Text | list[Text]
api = APIRouter(tags=["TEI"])


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


def checked_inputs(inputs: str | list[str], limits: Limits) -> list[str]:
    texts = listed(inputs)
    if not texts or not all(texts):
        raise RequestError("`inputs` cannot be empty", code="empty")
    if len(texts) > limits.texts:
        raise RequestError(
            f"batch size {len(texts)} > maximum allowed batch size {limits.texts}", "", 413
        )
    return texts


@api.post("/predict", name="predict")
async def predict_labels(asked: Predict, caller: Asking) -> list[Any]:
    """The labels of a text, or of each of several, with their probabilities."""
    texts, run = checked_inputs(asked.inputs, caller.limits), caller.shelf.named(None, "classify")
    found = await caller.answer(run, partial(scored_labels, run, texts, asked))
    return found[0] if isinstance(asked.inputs, str) else found


def scored_labels(
    run: ServedRun, texts: list[str], asked: Predict, classifier: Classifier, _: Ticket
) -> list[list[dict[str, Any]]]:
    """The labels of each text, the best first."""
    rows = classifier.tokenizer.encode_batch(texts)
    limit = classifier.limit
    if not asked.truncate and max(map(len, rows)) > limit:
        raise RequestError(f"`inputs` must have less than {limit} tokens", "", 413)
    if asked.raw_scores:
        scores = classifier.scores([row[:limit] for row in rows]).tolist()
        found = [dict(zip(classifier.labels, row, strict=True)) for row in scores]
    else:
        found = [each.probabilities for each in run.classify(texts)]
    best_first = [sorted(each.items(), key=lambda label: -label[1]) for each in found]
    return [[{"label": label, "score": score} for label, score in each] for each in best_first]


@api.post("/embed", name="embed")
async def embed_inputs(asked: Embed, caller: Asking) -> list[list[float]]:
    """Texts as vectors, of length 1 unless they are not to be."""
    texts, run = checked_inputs(asked.inputs, caller.limits), caller.shelf.named(None, "embed")
    vectors = await caller.answer(run, lambda *_: run.embed(texts))
    return [of_length_one(vector) for vector in vectors] if asked.normalize else vectors


def of_length_one(vector: list[float]) -> list[float]:
    length = math.sqrt(sum(x * x for x in vector)) or 1.0
    return [x / length for x in vector]


@api.post("/tokenize", name="tokenize")
async def tokenize_inputs(asked: Tokenize, caller: Asking) -> list[list[dict[str, Any]]]:
    """The tokens of texts, as the first run that reads them cuts them."""
    texts = checked_inputs(asked.inputs, caller.limits)

    def job(user: User, _: Ticket) -> list[list[dict[str, Any]]]:
        return [
            [
                {"id": token, "text": text, "special": False}
                for token, text in zip(row, user.source.tokens(row), strict=True)
            ]
            for row in user.source.encode_batch(texts)
        ]

    return await caller.answer(reader(caller.shelf), job)


@api.get("/info", name="info")
async def describe_server(caller: Asking) -> dict[str, Any]:
    """What is served here."""
    run, limits = reader(caller.shelf), caller.limits
    return {
        "model_id": run.name,
        "model_dtype": "float32",
        "model_type": {"classifier": {"labels": list(run.config.labels.names)}},
        "max_input_length": run.config.data.max_length,
        "max_client_batch_size": limits.texts,
        "max_concurrent_requests": limits.requests,
        "version": __version__,
    }


def reader(shelf: Shelf) -> ServedRun:
    """The first run that classifies, else the first that can be used at all."""
    able = [run for run in shelf.runs.values() if not run.cannot("classify")]
    return able[0] if able else shelf.named(None, "look")
