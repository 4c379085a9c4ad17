"""Writing: what must hold whatever the model says."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead
from clearhead import Writer
from clearhead.errors import ConfigError
from clearhead.tasks.task import Kept
from clearhead.tasks.writing import Page, Until, sliding
from tasks.random_runs import random_folder

WINDOW = 8
PROMPTS = st.one_of(
    st.sampled_from(
        ["", "the cat", "the cat \n", "we eat\n\nbread ,", "🙂", "</s>", "ein Hund " * 20]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
)


@pytest.fixture(scope="module", params=["bytes", "bpe"])
def writer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Writer:
    path = tmp_path_factory.mktemp("runs") / "random"
    return clearhead.load(random_folder(path, "writing", "decoder", request.param, window=WINDOW))


@settings(max_examples=8)
@given(
    PROMPTS,
    st.sampled_from(
        [{}, {"temperature": 0.0}, {"top_k": 5}, {"top_p": 0.5, "repetition_penalty": 1.5}]
    ),
)
def test_what_is_streamed_is_what_is_written(
    writer: Writer, prompt: str, options: dict[str, float]
) -> None:
    stream = Kept(writer.stream(prompt, max_length=12, **options))
    text = "".join(stream)
    assert stream.value == writer.write(prompt, max_length=12, **options)
    assert stream.value.text == text
    assert str(stream.value) == prompt.rstrip(" ") + text


@settings(max_examples=4)
@given(st.sampled_from(["e", "\n", "th", " D", "ee", "🙂"]), st.integers(0, 5))
def test_a_text_ends_before_the_first_stop(writer: Writer, stop: str, seed: int) -> None:
    free = writer.write("the cat", max_length=20, seed=seed).text
    assert (
        writer.write("the cat", max_length=20, seed=seed, stop=[stop]).text
        == free.partition(stop)[0]
    )


@given(
    st.lists(st.text("ab", max_size=4), max_size=6),
    st.lists(st.text("ab", min_size=1, max_size=3), max_size=3),
)
def test_text_ends_before_the_stop_that_is_whole_first_however_it_comes(
    pieces: list[str], stops: list[str]
) -> None:
    until, given_out, text = Until(stops), "", "".join(pieces)
    for piece in pieces:
        if not until.reached:
            given_out += until.push(piece)
    given_out += until.end("")
    found = [(place + len(stop), place) for stop in stops if (place := text.find(stop)) >= 0]
    assert given_out == text[: min(found)[1] if found else len(text)]


def test_the_same_seed_writes_the_same_and_another_seed_something_else(writer: Writer) -> None:
    first, again, other = (writer.write("the cat", seed=seed, max_length=12) for seed in (3, 3, 4))
    assert first == again
    assert first.text != other.text


def test_several_continuations_are_those_of_the_next_seeds_with_their_probabilities(
    writer: Writer,
) -> None:
    found = writer.write("the cat", seed=5, n_best=3, max_length=10)
    assert [one.seed for one in (found, *found.alternatives)] == [5, 6, 7]
    assert found.alternatives[1] == writer.write("the cat", seed=7, max_length=10)
    assert found.log_prob == pytest.approx(sum(found.log_probs))
    with pytest.raises(ConfigError, match="temperature 0"):
        writer.write("the cat", n_best=2, beam=2, temperature=0.0)


def test_the_log_probabilities_are_the_model_s_own_whatever_the_temperature(writer: Writer) -> None:
    found = writer.write("the cat", max_length=3, temperature=0.5)
    ids = writer.read("the cat")
    drawn = Kept(
        writer.tokens(ids, writer.config.decode.but(max_length=3, temperature=0.5), lambda: False)
    )
    written = list(drawn)
    with torch.no_grad():
        x = writer.model.decode(torch.tensor([[*ids, *written[:-1]]]))
        logits = writer.model.logits(x)[0, len(ids) - 1 :]
    expected = logits.log_softmax(dim=-1)[range(3), written]
    assert found.log_probs == pytest.approx(expected.tolist(), abs=1e-4)


def test_writing_goes_on_past_the_window(writer: Writer) -> None:
    assert len(writer.write("the cat", max_length=4 * WINDOW).tokens) == 4 * WINDOW


def test_a_prompt_longer_than_the_window_is_cut_from_the_left_and_said_so(writer: Writer) -> None:
    prompt = "the cat sees the dog . " * 10
    found = writer.write(prompt, max_length=5)
    assert f"the model read the last {WINDOW}" in found.notes[0]
    assert found.prompt == prompt.rstrip(" ")
    assert found.log_probs == writer.write("bread " + prompt, max_length=5).log_probs
    assert not writer.write("the cat", max_length=5).notes


@given(PROMPTS)
def test_lines_are_read_as_they_stand(writer: Writer, text: str) -> None:
    page = Page(writer.tokenizer)
    assert "".join(map(page.push, writer.read(text))) + page.end() == f"\n{text}"


@given(st.integers(2, 100), st.integers(1, 40))
def test_sliding_windows_predict_every_token_once(n_tokens: int, window: int) -> None:
    predicted = []
    for batch in sliding(range(n_tokens), window):
        assert (batch.target_in + 1 == batch.target_out)[batch.judged].all()
        predicted += batch.target_out[batch.judged].tolist()
    assert sorted(predicted) == list(range(1, n_tokens))


def test_the_perplexity_of_a_short_text_is_that_of_one_pass(writer: Writer) -> None:
    ids = [*writer.read("we eat"), writer.tokenizer.end]
    with torch.no_grad():
        logits = writer.model.logits(writer.model.decode(torch.tensor([ids[:-1]])))[0]
    nats = -logits.log_softmax(dim=-1)[range(len(ids) - 1), ids[1:]].sum()
    found = writer.perplexity("we eat\n")
    assert found.nats == pytest.approx(float(nats), abs=1e-3)
    assert (found.tokens, found.bytes) == (len(ids) - 1, 7)
    assert found.bits_per_byte == pytest.approx(float(nats) / 7 / math.log(2), abs=1e-3)
    assert writer.perplexity(["we eat"]) == found


def test_load_gives_a_writer(tmp_path: Path) -> None:
    assert isinstance(clearhead.load(random_folder(tmp_path / "run", "writing", "decoder")), Writer)
