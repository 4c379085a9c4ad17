"""A translator trained here runs where Argos packages run, cut by SentencePiece as by our tokenizer."""

import json
import random
import zipfile

import pytest

from clearhead.config import DecodeConfig, TokenizerConfig
from clearhead.decode import decode
from clearhead.errors import ConfigError, ExchangeError
from clearhead.exchange import export_model
from clearhead.exchange.argos import as_piece, model_file
from clearhead.exchange.ct2 import tokens_of
from clearhead.folder import RunFolder
from clearhead.text import END, Tokenizer
from exchange.sharp import TEXTS, sharp_run

sentencepiece = pytest.importorskip("sentencepiece")
ctranslate2 = pytest.importorskip("ctranslate2")

ODD = ["the  cat", " dogs", "12cats,bread", "né 東京 ✓", "<s> </s> <0x41>", "a\tb", "Ünïcödé…"]


def test_sentencepiece_cuts_every_text_as_our_unigram_tokenizer_does():
    tokenizer = Tokenizer.learn(TEXTS, TokenizerConfig(method="unigram", vocab_size=340))
    processor = sentencepiece.SentencePieceProcessor(model_proto=model_file(tokenizer))
    choice, letters = random.Random(0), "".join(TEXTS)
    made = ["".join(choice.choices(letters, k=choice.randint(1, 30))) for _ in range(200)]
    tokens = tokens_of(tokenizer)
    for text in [*TEXTS, *ODD, *made]:
        ours = [as_piece(tokens[token]) for token in tokenizer.encode(text)]
        assert processor.encode(text, out_type=str) == ours, text


def test_a_package_translates_as_the_run_does(tmp_path):
    run = sharp_run(tmp_path / "run", method="unigram")
    path = tmp_path / "en_de.argosmodel"
    assert export_model(run, "argos", path, languages=["en", "de"]).is_good
    with zipfile.ZipFile(path) as package:
        package.extractall(tmp_path / "unpacked")
    (root,) = (tmp_path / "unpacked").iterdir()
    assert json.loads((root / "metadata.json").read_text())["from_code"] == "en"
    # as Argos Translate does it
    pieces = sentencepiece.SentencePieceProcessor(str(root / "sentencepiece.model"))
    engine = ctranslate2.Translator(str(root / "model"), intra_threads=1)
    found = engine.translate_batch(
        [pieces.encode(text, out_type=str) for text in TEXTS[:3]],
        beam_size=1,
        min_decoding_length=0,
        max_decoding_length=9,
    )
    folder = RunFolder.open(run)
    tokenizer = folder.tokenizers()[0]
    sources = [[*tokenizer.encode(text), END] for text in TEXTS[:3]]
    ours = decode(folder.model(), sources, DecodeConfig(beam=1, max_length=9, guard=False))
    names = tokens_of(tokenizer)
    for (best, *_), other in zip(ours, found, strict=True):
        assert [as_piece(names[token]) for token in best.ids] == other.hypotheses[0]


def test_a_tokenizer_that_is_no_sentencepiece_is_refused_by_name(tmp_path):
    with pytest.raises(ExchangeError, match='method "bpe" cannot be written') as refused:
        export_model(sharp_run(tmp_path / "run"), "argos", tmp_path / "x", languages=["en", "de"])
    assert "tokenizer.method=unigram" in refused.value.advice
    with pytest.raises(ConfigError, match="which languages"):
        export_model(tmp_path / "run", "argos", tmp_path / "x")
    assert not (tmp_path / "x").exists()
