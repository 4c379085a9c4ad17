"""clearhead's own API: what it answers is what Python answers."""

import json

import pytest

import clearhead
from clearhead.folder import RunFolder
from clearhead.look.export import tensors
from clearhead.tensors import tensor_bytes
from tests.serve.conftest import serving
from tests.tasks.random_runs import random_folder

SENTENCE = "the cat sees the dog ."


def events(response):
    """The events of a stream: names and data."""
    found = []
    for block in response.text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def streamed_text(found):
    """What the pieces since the last reset make."""
    text = ""
    for name, data in found:
        text = "" if name == "reset" else text + data["text"] if name == "piece" else text
    return text


def test_the_runs_say_what_they_can_and_why_they_cannot(served):
    found = {run["name"]: run for run in served.client.get("/api/runs").json()["runs"]}
    assert {name: run["can"] for name, run in found.items()} == {
        "en-de": ["translate", "alternatives", "embed", "look"],
        "chat": ["chat", "look"],
        "bard": ["write", "look"],
        "mood": ["classify", "embed", "look"],
        "gaps": ["fill", "embed", "look"],
    }
    assert "clearhead train SOURCE TARGET" in found["bard"]["cannot"]["translate"]
    assert found["en-de"]["languages"] == {"source": "en", "target": "de"}


def test_a_translation_is_what_python_translates(served, runs):
    alone = clearhead.load(runs["en-de"]).translate(SENTENCE, n_best=3, beam=3)
    found = served.post("/api/translate", text=SENTENCE, n_best=3, beam=3).json()
    assert found["text"] == alone.text
    assert [each["id"] for each in found["tokens"]] == list(alone.ids)
    assert [each["text"] for each in found["alternatives"]] == [a.text for a in alone.alternatives]
    several = served.post("/api/translate", text=[SENTENCE, "", "a dog"]).json()["results"]
    assert [each["text"] for each in several] == [
        each.text for each in clearhead.load(runs["en-de"]).translate([SENTENCE, "", "a dog"])
    ]


@pytest.mark.parametrize("beam", [1, 3])
def test_an_answer_without_scores_is_the_same(served, beam):
    asked = {"text": SENTENCE, "beam": beam, "n_best": beam}
    whole, bare = (
        served.post("/api/translate", scores=scores, **asked).json() for scores in (True, False)
    )
    for one, other in zip(
        [whole, *whole["alternatives"]], [bare, *bare["alternatives"]], strict=True
    ):
        assert one["score"] < 0
        assert all(token["log_prob"] <= 0 for token in one["tokens"])
        assert "score" not in other
        assert [one["text"], *(token["id"] for token in one["tokens"])] == [
            other["text"], *(token["id"] for token in other["tokens"])
        ]  # fmt: skip


@pytest.mark.parametrize("beam", [1, 4])
def test_pieces_of_a_translation_are_its_text(served, beam):
    text = f"{SENTENCE} we eat bread , and they drink water ? " * 6
    whole = served.post("/api/translate", text=text, beam=beam).json()
    found = events(served.post("/api/translate", text=text, beam=beam, stream=True))
    assert found[-1] == ("done", whole)
    assert sum(name == "piece" for name, _ in found) > 1
    assert streamed_text(found) == whole["text"]


def test_a_translation_goes_on_from_a_chosen_word(served):
    whole = served.post("/api/translate", text=SENTENCE).json()
    prefix = [token["id"] for token in whole["tokens"][:2]]
    found = served.post("/api/alternatives", text=SENTENCE, prefix_ids=prefix, n=3).json()
    chosen = found["alternatives"][1]
    ids = [token["id"] for token in chosen["tokens"]]
    assert ids[:2] == prefix
    assert ids[2] != whole["tokens"][2]["id"]
    again = served.post("/api/translate", text=SENTENCE, prefix_ids=ids[:3]).json()
    assert [token["id"] for token in again["tokens"]] == ids
    wrong = served.post("/api/translate", text=SENTENCE, prefix_ids=[0])
    assert wrong.status_code == 400
    assert "token 0" in wrong.json()["error"]


def test_chat_and_writing_are_what_python_says(served, runs):
    bot, writer = clearhead.load(runs["chat"]), clearhead.load(runs["bard"])
    options = {"temperature": 0.9, "seed": 3, "max_length": 20}
    reply = served.post("/api/chat", turns=["hello", "hi", "and you?"], **options).json()
    assert reply["text"] == bot.answer(["hello", "hi", "and you?"], **options).text
    found = served.post("/api/write", text="the cat", n_best=3, **options).json()
    alone = writer.write("the cat", n_best=3, **options)
    assert [found["text"], *(each["text"] for each in found["alternatives"])] == [
        alone.text, *(each.text for each in alone.alternatives)
    ]  # fmt: skip


def test_words_that_are_left_out_change_the_verdict(served, runs):
    text = "the film was good , they say"
    found = served.post("/api/classify", text=text, words=True).json()
    classifier = clearhead.load(runs["mood"])
    assert found["probabilities"] == pytest.approx(
        classifier.classify(text).probabilities, abs=1e-5
    )
    (word,) = [each for each in found["words"] if each["word"] == "good"]
    without = classifier.classify("the film was  , they say").probabilities
    assert word["probabilities"] == pytest.approx(without, abs=1e-5)
    assert text[word["begin"] : word["end"]] == "good"


def test_gaps_are_filled(served):
    found = served.post("/api/fill", text="the ____ sees", n_best=2).json()
    assert len(found["gaps"]) == 1
    assert len(found["gaps"][0]) == 2
    assert served.post("/api/fill", text="no gap").status_code == 400


@pytest.mark.parametrize(
    ("run", "more"),
    [("en-de", {"edits": ["no-positions"]}), ("chat", {"before": ["a", "b"]}), ("mood", {}), ("bard", {"target": "a"})],
)  # fmt: skip
def test_a_look_is_the_document_and_the_tensors_of_the_file(served, runs, run, more):
    answer = served.post("/api/look", run=run, text=SENTENCE, **more).content
    size = int.from_bytes(answer[:8], "little")
    document = json.loads(json.loads(answer[8 : 8 + size])["__metadata__"]["look"])
    asked = {"edit" if name == "edits" else name: value for name, value in more.items()}
    look = clearhead.load(runs[run]).look(SENTENCE, **asked)
    assert document == json.loads(json.dumps(look.meta()))
    plain = tensor_bytes(tensors(look))
    assert answer[8 + size :] == plain[8 + int.from_bytes(plain[:8], "little") :]


def test_training_is_followed_while_it_goes_on(served, runs):
    log = RunFolder(runs["mood"]).log
    lines = list(log.lines())
    next_step = next(line for line in reversed(lines) if line["kind"] == "step") | {"step": 21}
    found = []
    with served.client.stream("GET", "/api/progress", params={"run": "mood"}) as response:
        for line in response.iter_lines():
            if line.startswith("event: "):
                found.append(line.removeprefix("event: "))
            if line == "event: state":
                assert found.count("report") == len(lines)
                log.write(next_step)
            if line.startswith("data: ") and '"step": 21' in line:
                break
    assert found[-1] == "report"


def test_a_log_that_cannot_be_read_ends_the_stream_with_an_error(tmp_path):
    run = random_folder(tmp_path / "gaps", "pretraining", "encoder", method="words")
    RunFolder(run).log.write({"kind": "step", "step": -1})
    with serving(run) as served:
        answer = served.client.get("/api/progress", params={"run": "gaps"})
    ((name, told),) = events(answer)
    assert name == "error"
    assert "metrics.jsonl:1 is not a report" in told["error"]
    assert told["advice"] == "Remove the line."


def test_what_a_run_cannot_do_is_said(served):
    answer = served.post("/api/embed", run="chat", text="x")
    assert answer.status_code == 400
    assert "no encoder" in answer.json()["advice"]
    wrong = served.post("/api/chat", run="bard", turns=["x"])
    assert (wrong.status_code, wrong.json()["error"]) == (400, "bard cannot chat.")
    assert served.post("/api/chat", run="nobody", turns=["x"]).status_code == 404
