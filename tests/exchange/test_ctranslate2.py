"""What CTranslate2 reads is the model that we wrote: the same tokens, as likely."""

import json
import sys
from pathlib import Path

import pytest
import torch

from clearhead.decode import Request, checked, decode
from clearhead.errors import ConfigError, ExchangeError, FolderError
from clearhead.exchange import ct2, export_model
from clearhead.exchange.backend import CTranslate2
from clearhead.folder import RunFolder
from clearhead.text import END, PAD
from exchange.sharp import TEXTS, random_sources, sharp_run

pytest.importorskip("ctranslate2")

SHAPES = {
    "as it is": {},
    "post-norm": {"norm": "post", "init": "xavier"},
    "one matrix": {"tie": "all", "activation": "gelu"},
    "two matrices": {"tie": "output", "activation": "silu"},
    "learned positions": {"positions": "learned", "max_positions": 64, "activation": "gelu_tanh"},
    "no biases": {"bias": False},
    "a norm over the embedding": {"embedding_norm": True, "scale_embeddings": False},
    "a decoder alone": {"family": "decoder"},
}


def tokens_of(folder):
    source, target = (each.vocabulary.names for each in folder.tokenizers())
    return source, target


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_ctranslate2_writes_the_same_tokens_with_the_same_probabilities(shape, tmp_path):
    is_writer = shape.get("family") == "decoder"
    folder = RunFolder.open(
        sharp_run(tmp_path / "run", "writing" if is_writer else "translation", **shape)
    )
    model = folder.model()
    (tmp_path / "ct2").mkdir()
    ct2.write_model(model, tokens_of(folder), tmp_path / "ct2")
    options = folder.config().decode.but(beam=1, max_length=12)
    request = Request(models=checked(model), options=options, end=PAD if is_writer else END)
    sources = random_sources(12, model.config.vocab_size)
    sentences = [request.sentence(index, ids) for index, ids in enumerate(sources)]
    with CTranslate2(tmp_path / "ct2", model, n_workers=1) as backend:
        found = {each.index: outputs for each, outputs in backend.decode(request, sentences)}
    ours = decode(model, sources, options, end=request.end)
    compared = [(ours[index][0], outputs[0]) for index, outputs in found.items() if outputs]
    assert len(compared) > 6
    for mine, theirs in compared:
        assert theirs.ids == mine.ids
        assert theirs.finished == mine.finished
        assert torch.allclose(
            torch.tensor(theirs.log_probs), torch.tensor(mine.log_probs), atol=2e-3
        )
        assert theirs.score == pytest.approx(mine.score, abs=2e-3)


@pytest.mark.parametrize("precision", ["float32", "float16", "int16", "int8"])
def test_an_export_is_certified_and_leaves_our_weights_as_they_are(precision, tmp_path):
    run = sharp_run(tmp_path / "run")
    folder = RunFolder.open(run)
    model = folder.model()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    (tmp_path / "alone").mkdir()
    ct2.write_model(model, tokens_of(folder), tmp_path / "alone", precision)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    if precision != "int8":  # which rounds a random model to another one
        certificate = export_model(run, "ctranslate2", tmp_path / "out", precision=precision)
        assert certificate.is_good
        written = json.loads((tmp_path / "out" / "certificate.json").read_text())
        assert written["versions"]["ctranslate2"]
        assert (tmp_path / "out" / "tokenizer.json").read_text() == folder.tokenizers()[1].json


def test_the_tokens_of_an_export_are_those_of_our_tokenizer(tmp_path):
    import ctranslate2

    run = sharp_run(tmp_path / "run")
    export_model(run, "ctranslate2", tmp_path / "out")
    tokenizer = RunFolder.open(run).tokenizers()[1]
    tokens = [tokenizer.vocabulary.tokens[token] for token in tokenizer.encode(TEXTS[0])]
    engine = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1)
    (found,) = engine.translate_batch([tokens], beam_size=1, max_decoding_length=8)
    folder = RunFolder.open(run)
    greedy = folder.config().decode.but(beam=1, max_length=8)
    ((ours, *_),) = decode(folder.model(), [[*tokenizer.encode(TEXTS[0]), END]], greedy)
    assert found.hypotheses[0] == [tokenizer.vocabulary.tokens[token] for token in ours.ids]


def test_what_ctranslate2_cannot_express_is_refused_by_name(tmp_path):
    run = sharp_run(tmp_path / "run", n_token_types=2)
    with pytest.raises(ExchangeError, match="n_token_types = 2"):
        export_model(run, "ctranslate2", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(FolderError, match="there already"):
        export_model(run, "ctranslate2", tmp_path / "run")


def test_another_model_has_no_certificate_and_leaves_no_folder(tmp_path, monkeypatch):
    run = sharp_run(tmp_path / "run")
    write = ct2.write_model

    def write_other(model, *rest):
        other = RunFolder.open(run).model()
        with torch.no_grad():
            other.decoder.layers[0].feed_forward.out.weight.mul_(-1)
        write(other, *rest)

    monkeypatch.setattr(ct2, "write_model", write_other)
    with pytest.raises(ExchangeError, match=r"not the same model.*First difference: text 1"):
        export_model(run, "ctranslate2", tmp_path / "out")
    assert sorted(path.name for path in Path(tmp_path).iterdir()) == ["run"]


def test_without_the_package_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ConfigError, match="not installed") as refused:
        export_model(sharp_run(tmp_path / "run"), "ctranslate2", tmp_path / "out")
    assert "pip install 'clearhead[exchange]'" in refused.value.advice
