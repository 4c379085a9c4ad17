"""Promise 15: a drop-in for OpenAI, its own client unchanged."""

import base64
import struct

import openai
import pytest

import clearhead
from clearhead.tasks import Encoder
from tests.serve.conftest import serving

TURNS = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}]


@pytest.fixture
def client(served):
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as found:
        yield found


def test_models_are_listed(client):
    assert [model.id for model in client.models.list()] == ["en-de", "chat", "bard", "mood", "gaps"]
    assert client.models.retrieve("chat").owned_by == "clearhead"


@pytest.mark.promise(15, "openai: chat, whole and streamed")
def test_chat_is_what_python_answers_whole_and_streamed(client, runs):
    options = {"temperature": 0.8, "top_p": 0.9, "seed": 5, "max_tokens": 12}
    asked = {"model": "chat", "messages": TURNS, **options}
    whole = client.chat.completions.create(**asked, n=2, logprobs=True)
    bot = clearhead.load(runs["chat"])
    changes = {"temperature": 0.8, "top_p": 0.9, "max_length": 12}
    alone = [bot.answer(["hello"], seed=seed, **changes) for seed in (5, 6)]
    assert [choice.message.content for choice in whole.choices] == [each.text for each in alone]
    assert whole.choices[0].finish_reason in ("stop", "length")
    assert len(whole.choices[0].logprobs.content) == len(alone[0].ids)
    assert whole.usage.completion_tokens == sum(len(each.ids) for each in alone)
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    deltas = [chunk.choices[0].delta for chunk in chunks[:-1]]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == alone[0].text
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == len(alone[0].ids)
    assert len({(chunk.id, chunk.created) for chunk in chunks}) == 1


def test_completions_end_at_a_stop_string(client, runs):
    asked = {"model": "bard", "prompt": "the cat", "temperature": 0.8, "seed": 1, "max_tokens": 30}
    whole = client.completions.create(**asked).choices[0]
    assert (
        whole.text
        == clearhead.load(runs["bard"])
        .write("the cat", temperature=0.8, seed=1, max_length=30)
        .text
    )
    assert whole.finish_reason == "length"
    stop = whole.text[6:8]
    cut = client.completions.create(**asked, stop=stop).choices[0]
    assert (cut.text, cut.finish_reason) == (whole.text[: whole.text.find(stop)], "stop")
    streamed = client.completions.create(**asked, stop=stop, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == cut.text
    ids = clearhead.load(runs["bard"]).target.encode("the cat")
    several = client.completions.create(**{**asked, "prompt": [ids, ids]}, n=2)
    assert [choice.index for choice in several.choices] == [0, 1, 2, 3]
    assert several.choices[0].text == several.choices[2].text == whole.text


def test_a_translator_translates_what_is_said(client, runs):
    found = client.chat.completions.create(
        model="en-de", messages=[{"role": "user", "content": "the cat sees the dog ."}]
    )
    alone = clearhead.load(runs["en-de"]).translate("the cat sees the dog .")
    assert found.choices[0].message.content == alone.text


@pytest.mark.promise(15, "embeddings, float and base64")
def test_embeddings_come_as_numbers_and_as_bytes(client, served, runs):
    texts = ["the cat", "a dog sees"]
    vectors = Encoder.load(runs["gaps"]).embed(texts).tolist()
    for kind in ({}, {"encoding_format": "float"}):
        found = client.embeddings.create(model="gaps", input=texts, **kind)
        for each, vector in zip(found.data, vectors, strict=True):
            assert each.embedding == pytest.approx(vector, abs=1e-5)
    raw = served.post("/v1/embeddings", model="gaps", input=texts, encoding_format="base64").json()
    packed = base64.b64decode(raw["data"][1]["embedding"])
    assert struct.unpack(f"<{len(vectors[1])}f", packed) == pytest.approx(vectors[1], abs=1e-5)
    assert raw["usage"]["prompt_tokens"] > 0
    own = served.post("/api/embed", run="gaps", text=texts[0]).json()
    assert own["vectors"] == [pytest.approx(vectors[0], abs=1e-5)]
    (tei,) = served.post("/embed", inputs=[texts[0]]).json()
    assert sum(x * x for x in tei) == pytest.approx(1, abs=1e-4)


@pytest.mark.promise(15, "errors are its exceptions")
def test_every_error_is_the_exception_that_the_client_knows(client, served, runs):
    def chat(**changes):
        return client.chat.completions.create(**{"model": "chat", "messages": TURNS, **changes})

    with pytest.raises(openai.NotFoundError) as found:
        chat(model="gpt-x")
    assert found.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-x")
    with pytest.raises(openai.BadRequestError):
        chat(messages=[])
    with pytest.raises(openai.BadRequestError):
        chat(temperature=-1)
    with pytest.raises(openai.BadRequestError):
        chat(n=1000)
    with pytest.raises(openai.BadRequestError):
        chat(model="bard")
    with pytest.raises(openai.BadRequestError) as found:
        client.completions.create(model="bard", prompt="word " * 200)
    assert found.value.code == "context_length_exceeded"
    assert "64 tokens" in found.value.message
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="bard", prompt=[])
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="bard", input="x")
    with serving(runs["chat"], key_hash="0" * 64) as locked:
        other = openai.OpenAI(base_url=f"{locked.url}/v1", api_key="wrong", max_retries=0)
        with pytest.raises(openai.AuthenticationError):
            other.models.list()
        other.close()
    served.work.n_taken += 64
    try:
        with pytest.raises(openai.RateLimitError) as found:
            chat()
    finally:
        served.work.n_taken -= 64
    assert found.value.response.headers["retry-after"] == "1"
