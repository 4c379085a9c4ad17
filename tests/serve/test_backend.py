"""The server decodes with CTranslate2 what that can express: the same answers, alone and in a crowd."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

pytest.importorskip("ctranslate2")

from clearhead import Translator
from clearhead.cli.main import main
from clearhead.cli.serve import backend_for
from clearhead.errors import ConfigError
from clearhead.exchange.backend import CTranslate2
from clearhead.exchange.ct2 import write_certified
from clearhead.folder import RunFolder
from clearhead.serve.models import Shelf
from clearhead.serve.settings import ServerSettings
from tests.exchange.sharp import sharp_run
from tests.serve.conftest import no_backend, serving

TEXTS = ["the cat sees the dog .", "we eat bread", "ein Hund", "12 cats !", "they drink water ?"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return sharp_run(tmp_path_factory.mktemp("served") / "en-de")


@pytest.fixture(scope="module")
def served(run):
    def found(path, user):
        return backend_for(path, user, n_workers=1)

    with serving(run, backend_for=found) as server:
        yield server


def backend_of(served):
    return served.work.shelf.runs["en-de"].backend


@pytest.mark.parametrize("how", [{}, {"beam": 1}, {"beam": 4, "n_best": 2}], ids=str)
def test_answers_are_those_of_our_own_engine_alone_and_in_a_crowd(how, run, served):
    expected = Translator.load(run).translate(TEXTS, **how)
    alone = [served.post("/api/translate", text=text, **how).json() for text in TEXTS]
    with ThreadPoolExecutor(10) as clients:
        crowd = list(
            clients.map(
                lambda text: served.post("/api/translate", text=text, **how).json(), TEXTS * 4
            )
        )
    assert backend_of(served).workers, "CTranslate2 was asked"
    assert [each["text"] for each in alone] == [each.text for each in expected]
    assert [each["text"] for each in crowd] == [each["text"] for each in alone] * 4
    for one, other in zip(crowd, alone * 4, strict=True):
        log_probs = [[token["log_prob"] for token in each["tokens"]] for each in (one, other)]
        assert log_probs[0] == pytest.approx(log_probs[1], abs=1e-5)


def test_8_bits_change_nothing_between_neighbours_either(run, tmp_path):
    def rounded(path, user):  # a certificate would refuse it: 8 bits change what random weights say
        write_certified(RunFolder.open(path), tmp_path, "int8")
        return CTranslate2(tmp_path, user.model, n_workers=1, precision="int8")

    with serving(run, backend_for=rounded) as served:
        alone = [served.post("/api/translate", text=text).json() for text in TEXTS]
        with ThreadPoolExecutor(10) as clients:
            asked = clients.map(lambda text: served.post("/api/translate", text=text), TEXTS * 4)
            crowd = [each.json()["text"] for each in asked]
        assert backend_of(served).workers, "CTranslate2 was asked"
    assert crowd == [each["text"] for each in alone] * 4


def test_8_bits_without_ctranslate2_are_refused(run, capsys):
    assert main(["serve", str(run), "--int8", "--engine", "own"]) == 1
    assert "--int8 is for CTranslate2" in capsys.readouterr().err


def test_what_it_cannot_express_and_what_is_streamed_is_ours(run, served):
    translator, (worker, *_) = Translator.load(run), backend_of(served).workers
    n_asked = worker.n_asked
    drawn = {"temperature": 0.9, "seed": 3, "beam": 1}
    found = served.post("/api/translate", text=TEXTS[0], **drawn).json()
    assert found["text"] == translator.translate(TEXTS[0], **drawn).text
    events = served.post("/api/translate", text=TEXTS[0], stream=True).text
    pieces = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: ")]
    assert pieces[-1]["text"] == translator.translate(TEXTS[0]).text
    assert worker.n_asked == n_asked


def test_a_client_of_libretranslate_gets_the_same_text(run, served):
    body = {"q": TEXTS, "source": "en", "target": "de"}
    found = served.post("/translate", **body).json()["translatedText"]
    alone = [served.post("/translate", **{**body, "q": text}).json() for text in TEXTS]
    assert found == [each["translatedText"] for each in alone]


def test_a_process_that_dies_is_replaced_and_nobody_notices(served):
    before = served.post("/api/translate", text=TEXTS[0]).json()
    backend_of(served).workers[0].process.kill()
    again = [served.post("/api/translate", text=TEXTS[0]) for _ in range(2)]
    assert [each.json()["text"] for each in again] == [before["text"]] * 2
    assert backend_of(served).workers, "a new one has begun"


def test_the_memory_budget_counts_the_other_engine_s_processes(run):
    settings = ServerSettings(runs=(run,), n_decoders=2)
    (alone,) = Shelf(ServerSettings(runs=(run,)), no_backend).runs.values()
    (beside,) = Shelf(settings, no_backend).runs.values()
    assert beside.bytes >= alone.bytes + 2 * (run / "weights.safetensors").stat().st_size
    with pytest.raises(ConfigError, match="budget"):
        Shelf(replace(settings, memory=beside.bytes - 1), no_backend)
    refused = Shelf(settings, no_backend)  # without a good certificate our own engine decodes all
    with refused.using(refused.runs["en-de"]):
        assert refused.runs["en-de"].bytes == alone.bytes
