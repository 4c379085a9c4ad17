"""CTranslate2 decodes as our own search does, or leaves it to that; its processes never outlive ours."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clearhead import Translator, Writer
from clearhead.config import DecodeConfig
from clearhead.decode import WithBackend, decode
from clearhead.errors import ExchangeError, ModelError
from clearhead.exchange import ct2
from clearhead.exchange.backend import CTranslate2, lacks
from clearhead.exchange.engine import WhereItPays, ctranslate2_for
from clearhead.folder import RunFolder
from clearhead.text import END
from clearhead.training import next_token_loss
from exchange.sharp import TEXTS, random_sources, sharp_run
from learning.puzzles import ANSWERS, Puzzles, learned, rows, shape

pytest.importorskip("ctranslate2")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return sharp_run(tmp_path_factory.mktemp("runs") / "sharp")


@pytest.fixture(scope="module")
def translator(run):
    return Translator.load(run)


@pytest.fixture(scope="module")
def backend(run, translator):
    with ctranslate2_for(run, translator.model, n_workers=2) as backend:
        yield backend


class Counted:
    """A backend that counts the sentences that it was able to decode."""

    def __init__(self, backend):
        self.backend, self.lacks, self.n_decoded = backend, backend.lacks, 0

    def decode(self, request, sentences):
        for sentence, outputs in self.backend.decode(request, sentences):
            self.n_decoded += bool(outputs)
            yield sentence, outputs


@pytest.fixture(scope="module")
def sorter(tmp_path_factory):
    """A model that has half learned to sort digits, and its backend: some of its outputs are in doubt."""
    model = learned(shape(), Puzzles(ANSWERS["sort"], 0), next_token_loss(), steps=150, seed=0)
    folder = tmp_path_factory.mktemp("sorter")
    tokens = [f"<{number}>" for number in range(model.config.vocab_size)]
    ct2.write_model(model, (tokens, tokens), folder)
    with CTranslate2(folder, model, n_workers=2) as backend:
        yield model, backend


@pytest.mark.parametrize(("beam", "no_repeat"), [(1, 0), (5, 0), (1, 2), (1, 3)])
def test_the_outputs_are_those_of_our_own_search_in_the_order_given(beam, no_repeat, sorter):
    model, backend = sorter
    sources = [[*row, END] for row in rows(1, 500, held_out=True)]
    n_best = min(beam, 2)
    options = DecodeConfig(beam=beam, n_best=n_best, no_repeat_ngram=no_repeat, guard=False)
    ours, counted = decode(model, sources, options), Counted(backend)
    theirs = decode(model, sources, options, searching=WithBackend(counted))
    assert counted.n_decoded > 0.98 * len(sources)
    same = [mine[0].ids == other[0].ids for mine, other in zip(ours, theirs, strict=True)]
    assert sum(same) >= 0.995 * len(sources)
    for mine, other in zip(ours, theirs, strict=True):
        assert len(other) == len(mine)
        if mine[0].ids == other[0].ids:
            assert other[0].log_probs == pytest.approx(mine[0].log_probs, abs=1e-4)
            assert other[0].score == pytest.approx(mine[0].score, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 4])
def test_outputs_that_nobody_scores_are_the_same(beam, sorter):
    model, backend = sorter
    sources = [[*row, END] for row in rows(2, 150, held_out=True)]
    options, searching = DecodeConfig(beam=beam), WithBackend(backend)
    whole = decode(model, sources, options, searching=searching)
    bare = decode(model, sources, options, searching=searching, scored=False)
    assert [each[0].ids for each in bare] == [each[0].ids for each in whole]
    assert any(not each[0].log_probs for each in bare)
    assert [each[0].notes for each in bare] == [each[0].notes for each in whole]


def test_callers_share_the_processes_and_get_their_own_answers(translator, backend):
    sources = random_sources(40, translator.model.config.vocab_size)
    alone = [decode(translator.flat, [each], searching=WithBackend(backend)) for each in sources]
    with ThreadPoolExecutor(8) as callers:
        together = callers.map(
            lambda each: decode(translator.flat, [each], searching=WithBackend(backend)), sources
        )
        for mine, others in zip(together, alone, strict=True):
            assert mine[0][0].ids == others[0][0].ids


def test_texts_come_back_in_order_with_their_splits_terms_and_notes(run, translator, backend):
    texts = ["the cat sees the dog .", "", "bread " * 60, "we eat 12 cats", "ein Hund"] * 3
    options = {"beam": 3, "protect": ["numbers"], "guard": True}
    expected = translator.translate(texts, **options)
    other = Translator.load(run)
    other.searching = WithBackend(backend)
    found = other.translate(texts, **options)
    assert [(one.source, one.text, one.notes) for one in found] == [
        (one.source, one.text, one.notes) for one in expected
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.7, "beam": 1},
        {"min_length": 3},
        {"no_repeat_ngram": 2, "beam": 3},
        {"repetition_penalty": 1.2},
        {"penalty": "average"},
        {"length_penalty": 1.5},
    ],
    ids=str,
)
def test_options_that_it_cannot_express_go_to_our_own_engine(options, translator, backend):
    asked = translator.config.decode.but(**options)
    name = next(iter(options))
    assert lacks(asked) == [f"decode.{name}"]
    counted, sources = Counted(backend), random_sources(5, translator.model.config.vocab_size)
    assert decode(translator.flat, sources, asked, searching=WithBackend(counted)) == decode(
        translator.flat, sources, asked
    )
    assert counted.n_decoded == 0


def test_ensembles_prefixes_and_terms_go_to_our_own_engine(translator, backend):
    counted, sources = Counted(backend), random_sources(4, translator.model.config.vocab_size)
    options = translator.config.decode.but(beam=2)
    decode([translator.flat[0]] * 2, sources, options, searching=WithBackend(counted))
    decode(translator.flat, sources, options, prefixes=[[20]] * 4, searching=WithBackend(counted))
    decode(
        translator.flat, sources, options, terms=[[((30,),)]] * 4, searching=WithBackend(counted)
    )
    assert counted.n_decoded == 0


def test_a_writer_goes_on_with_the_same_text(tmp_path):
    run = sharp_run(tmp_path / "writer", "writing", family="decoder")
    ours, theirs = Writer.load(run), Writer.load(run)
    with ctranslate2_for(run, theirs.model, n_workers=1) as backend:
        theirs.searching = WithBackend(backend)
        for prompt in ("", "the cat", "we eat\nbread"):
            options = {"max_length": 40, "temperature": 0.0}
            assert str(theirs.write(prompt, **options)) == str(ours.write(prompt, **options))
        assert backend.workers


def test_a_run_is_exported_once_for_its_weights_and_anew_for_others(tmp_path):
    run = sharp_run(tmp_path / "run")
    folder, model = RunFolder.open(run), RunFolder.open(run).model()
    first = ctranslate2_for(run, model, n_workers=1).folder
    written = (first / "model.bin").stat().st_mtime_ns
    assert ctranslate2_for(run, model, n_workers=1).folder == first
    assert (first / "model.bin").stat().st_mtime_ns == written
    folder.write_weights({name: weight * 1.01 for name, weight in model.state_dict().items()})
    second = ctranslate2_for(run, folder.model(), n_workers=1).folder
    assert second != first
    assert not first.exists()
    folder.make_small()
    assert not second.exists()


def test_a_bad_certificate_leaves_decoding_to_our_own_engine(tmp_path):
    run = sharp_run(tmp_path / "run")
    translator, told = Translator.load(run), list[str]()
    place = ctranslate2_for(run, translator.model, n_workers=1).folder
    certificate = place / "certificate.json"
    certificate.write_text('{"good": false, "faults": ["12% of the tokens are the same"]}')

    def begin():
        return ctranslate2_for(run, translator.model, n_workers=1)

    with pytest.raises(ExchangeError, match="12% of the tokens"):
        begin()
    translator.searching = WithBackend(WhereItPays(begin, told.append))
    translator.translate(TEXTS * 40, beam=1, max_length=3)
    translator.translate(TEXTS * 40, beam=1, max_length=3)
    assert len(told) == 1
    assert "our own engine" in told[0]


def test_few_sentences_start_no_process(run, translator):
    backend = WhereItPays(lambda: pytest.fail("it began"), lambda _: None)
    sources = random_sources(5, translator.model.config.vocab_size)
    assert len(decode(translator.flat, sources, searching=WithBackend(backend))) == 5


def test_a_process_that_dies_is_an_error_that_says_what_to_do(run, translator):
    with ctranslate2_for(run, translator.model, n_workers=1) as backend:
        sources = random_sources(3, translator.model.config.vocab_size)
        decode(translator.flat, sources, searching=WithBackend(backend))
        backend.workers[0].process.kill()
        with pytest.raises(ModelError, match="CTranslate2 ended") as died:
            decode(translator.flat, sources, searching=WithBackend(backend))
        assert "--engine own" in died.value.advice
        assert not backend.workers
        assert (
            len(decode(translator.flat, sources, searching=WithBackend(backend))) == 3
        )  # with new ones


def test_a_folder_that_is_no_model_is_told_in_the_words_of_ctranslate2(tmp_path, translator):
    backend = CTranslate2(tmp_path, translator.model, n_workers=1)
    with backend, pytest.raises(ModelError, match=r"model\.bin"):
        decode(translator.flat, [[9, END]], searching=WithBackend(backend))


def children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1].startswith("Z")
    except FileNotFoundError:
        return True


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_its_processes_end_soon_with_ours(how, code, run):
    command = [sys.executable, "-m", "clearhead", "translate", run, "--engine", "ctranslate2"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"the cat sees the dog .\n")
    process.stdin.flush()
    assert process.stdout.readline()
    workers = children_of(process.pid)
    assert workers
    os.kill(process.pid, how)
    process.communicate(timeout=20)
    deadline = time.monotonic() + 10
    while not all(map(gone, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert all(map(gone, workers))
    assert process.returncode == code


def test_the_command_line_translates_the_same_with_either_engine(run):
    def translated(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "clearhead", "translate", run, *options],
            input="\n".join([*TEXTS[:3], "", "bread"]), capture_output=True, text=True, check=True,
        )  # fmt: skip

    own, other = translated("--engine", "own"), translated("--engine", "ctranslate2")
    assert own.stdout == other.stdout
    drawn = translated("--engine", "ctranslate2", "--beam", "1", "--set", "decode.temperature=1.0")
    assert "cannot express decode.temperature" in drawn.stderr
