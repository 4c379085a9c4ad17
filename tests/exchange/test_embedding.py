"""Vectors of texts: the same alone and in company, and alike where texts are."""

import json

import pytest
import torch
from torch.testing import assert_close

from clearhead.cli.main import main
from clearhead.errors import FolderError
from clearhead.exchange import import_model
from clearhead.folder import RunFolder
from clearhead.tasks import Encoder

TEXTS = ["a man rides a bike", "two dogs sleep", "", "how far is it to the next village ?", "a"]


@pytest.fixture(scope="module")
def run(foreign, tmp_path_factory):
    path = tmp_path_factory.mktemp("embedding") / "run"
    import_model(foreign("BertModel")[1], path)
    return path


def test_a_text_has_the_same_vector_alone_and_in_company(run):
    encoder = Encoder.load(run)
    together = encoder.embed(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        assert_close(encoder.embed([text])[0], vector, atol=1e-6, rtol=0)


def test_the_vector_is_the_mean_of_what_the_encoder_says_of_each_token(run):
    encoder = Encoder.load(run)
    row = encoder.source.reading(encoder.source.encode(TEXTS[0]))
    with torch.inference_mode():
        mean = encoder.model(torch.tensor([row]))[0].mean(dim=0)
    assert_close(encoder.embed(TEXTS[:1])[0], mean, atol=1e-6, rtol=0)


def test_unit_vectors_have_the_length_1_and_point_the_same_way(run):
    encoder = Encoder.load(run)
    plain = encoder.embed(TEXTS)
    model = encoder.config.model.but(unit_vectors=True)
    unit = Encoder(encoder.model, encoder.tokenizers, encoder.config.but(model=model)).embed(TEXTS)
    assert_close(unit.norm(dim=-1), torch.ones(len(TEXTS)))
    assert_close(unit, plain / plain.norm(dim=-1, keepdim=True))
    assert_close(encoder.similarity(TEXTS, TEXTS), unit @ unit.mT)
    assert_close(encoder.likeness(TEXTS, TEXTS[::-1]), (unit * unit.flip(0)).sum(dim=-1))


def test_a_long_text_is_cut_to_what_the_model_can_read(run):
    encoder = Encoder.load(run)
    long = " ".join(["dogs"] * 500)
    assert_close(encoder.embed([long]), encoder.embed([f"{long} and a bike"]))


@pytest.mark.parametrize("kind", ["BertForSequenceClassification", "MarianMTModel"])
def test_any_run_that_reads_has_vectors(kind, foreign, tmp_path):
    import_model(foreign(kind)[1], tmp_path / "run")
    assert Encoder.load(tmp_path / "run").embed(TEXTS).shape == (len(TEXTS), 24)


def test_a_model_that_only_writes_has_none(foreign, tmp_path):
    import_model(foreign("GPT2LMHeadModel")[1], tmp_path / "run")
    with pytest.raises(FolderError, match="cannot embed"):
        Encoder.load(tmp_path / "run")


def test_the_command_line_writes_vectors_pairs_and_neighbours(run, tmp_path, capsys):
    lines = [text for text in TEXTS if text]
    (tmp_path / "a.txt").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "short.txt").write_text("one line\n")
    given = [str(run), "--input", str(tmp_path / "a.txt")]
    assert main(["embed", *given]) == 0
    vectors = torch.tensor([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert_close(vectors, Encoder.load(run).embed(lines), atol=1e-6, rtol=0)
    assert main(["embed", *given, "--beside", str(tmp_path / "a.txt")]) == 0
    assert capsys.readouterr().out.splitlines() == ["1.0000"] * len(lines)
    assert main(["embed", *given, "--beside", str(tmp_path / "short.txt")]) == 1
    assert "has only 1 lines" in capsys.readouterr().err
    assert (
        main(["embed", str(run), lines[1], "--among", str(tmp_path / "a.txt"), "--n-best", "2"])
        == 0
    )
    nearest = capsys.readouterr().out.splitlines()
    assert nearest[0] == f"1.0000\t{lines[1]}"
    assert len(nearest) == 2


def test_import_and_export_from_the_command_line(foreign, tmp_path, capsys):
    folder = foreign("BertModel")[1]
    assert main(["import", str(folder), "--into", str(tmp_path / "run")]) == 0
    told = capsys.readouterr().err
    assert "The two agree." in told
    assert told.strip() == (tmp_path / "run" / "certificate.md").read_text().strip()
    assert (
        main(["export", str(tmp_path / "run"), "--to", "hf", "--into", str(tmp_path / "out"), "-q"])
        == 0
    )
    assert capsys.readouterr().err == ""
    assert RunFolder.open(tmp_path / "run").problems() == []
    assert (tmp_path / "out" / "certificate.json").exists()


def test_without_transformers_the_certificate_says_that_no_sample_was_run(
    foreign, tmp_path, monkeypatch
):
    monkeypatch.setattr("clearhead.exchange.hugging_face.find_spec", lambda _: None)
    certificate = import_model(foreign("BertModel")[1], tmp_path / "run")
    assert certificate.logit_difference is None
    assert "No sample was run." in str(certificate)
    assert "The two agree." not in str(certificate)
    assert len(certificate.tensors["used"]) > 10
