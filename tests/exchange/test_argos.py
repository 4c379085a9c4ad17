"""A translator trained here runs where Argos packages run, cut by SentencePiece as by our tokenizer."""

import json
import os
import random
import subprocess
import sys
import zipfile
from importlib.util import find_spec

import pytest
import torch

import clearhead
from clearhead.config import DecodeConfig, TokenizerConfig
from clearhead.decode import decode
from clearhead.errors import ConfigError, ExchangeError
from clearhead.exchange import export_model, import_model
from clearhead.exchange.argos import model_file
from clearhead.exchange.foreign import as_piece
from clearhead.folder import RunFolder
from clearhead.text import END, SPECIALS, Tokenizer
from exchange.sharp import TEXTS, sharp_run

sentencepiece = pytest.importorskip("sentencepiece")
ctranslate2 = pytest.importorskip("ctranslate2")

ODD = ["the  cat", " dogs", "12cats,bread", "né 東京 ✓", "<s> </s> <0x41>", "a\tb", "Ünïcödé…"]


def test_sentencepiece_cuts_every_text_as_our_unigram_tokenizer_does():
    tokenizer = Tokenizer.learn(TEXTS, TokenizerConfig(method="unigram", vocab_size=340))
    processor = sentencepiece.SentencePieceProcessor(model_proto=model_file(tokenizer))
    choice, letters = random.Random(0), "".join(TEXTS)
    made = ["".join(choice.choices(letters, k=choice.randint(1, 30))) for _ in range(200)]
    tokens = tokenizer.vocabulary.names
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
    names = tokenizer.vocabulary.names
    for (best, *_), other in zip(ours, found, strict=True):
        assert [as_piece(names[token]) for token in best.ids] == other.hypotheses[0]


def test_a_tokenizer_that_is_no_sentencepiece_is_refused_by_name(tmp_path):
    with pytest.raises(ExchangeError, match='method "bpe" cannot be written') as refused:
        export_model(sharp_run(tmp_path / "run"), "argos", tmp_path / "x", languages=["en", "de"])
    assert "tokenizer.method=unigram" in refused.value.advice
    with pytest.raises(ConfigError, match="which languages"):
        export_model(tmp_path / "run", "argos", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_package_comes_back_as_the_run_that_it_was(tmp_path):
    run, path = sharp_run(tmp_path / "run", method="unigram"), tmp_path / "en_de.argosmodel"
    export_model(run, "argos", path, languages=["en", "de"])
    assert import_model(path, tmp_path / "back").is_good
    first, second = RunFolder.open(run), RunFolder.open(tmp_path / "back")
    assert first.tokenizers()[0].fingerprint == second.tokenizers()[0].fingerprint
    data = second.config().data
    assert (data.source_language, data.target_language) == ("en", "de")
    again = tmp_path / "again.argosmodel"
    export_model(tmp_path / "back", "argos", again)
    assert import_model(again, tmp_path / "third").is_good, "the run knew its languages"
    for name, weight in second.model().state_dict().items():
        assert torch.equal(weight, first.model().state_dict()[name]), name


def with_metadata(path, content):
    """The package beside this one that says something else of itself."""
    other = path.with_name("other.argosmodel")
    with zipfile.ZipFile(path) as package, zipfile.ZipFile(other, "w") as changed:
        for name in package.namelist():
            is_told = name.endswith("metadata.json")
            changed.writestr(name, content if is_told else package.read(name))
    return other


def test_a_package_for_several_languages_is_refused(tmp_path):
    run, path = sharp_run(tmp_path / "run", method="unigram"), tmp_path / "en_de.argosmodel"
    export_model(run, "argos", path, languages=["en", "de"])
    with pytest.raises(ExchangeError, match="target_prefix"):
        import_model(with_metadata(path, b'{"target_prefix": "__de__"}'), tmp_path / "back")


def test_a_package_of_languages_that_nobody_knows_is_imported_without_them(tmp_path):
    run, path = sharp_run(tmp_path / "run", method="unigram"), tmp_path / "en_de.argosmodel"
    export_model(run, "argos", path, languages=["en", "de"])
    odd = with_metadata(path, b'{"from_code": 5, "to_code": "e n"}')
    assert import_model(odd, tmp_path / "back").is_good
    data = RunFolder.open(tmp_path / "back").config().data
    assert (data.source_language, data.target_language) == ("", "")


ARGOS = """
import json, pathlib, sys
from argostranslate import package, settings, translate

package.install_from_path(pathlib.Path(sys.argv[1]))
first, second = (
    next(each for each in translate.get_installed_languages() if each.code == code)
    for code in ("en", "de")
)
translation = first.get_translation(second).underlying
translation.sentencizer.split_sentences = lambda text: [text]  # it would download a model
told = [translation.hypotheses(text, 1)[0].value for text in json.loads(sys.argv[2])]
print(json.dumps([told, str(translation.pkg.package_path)]))
"""
"""Installs a package and translates with it."""
SETTINGS = {"ARGOS_BEAM_SIZE": "1", "ARGOS_COMPUTE_TYPE": "float32", "ARGOS_DEVICE_TYPE": "cpu"}
"""Its own are a beam of 4, and 8 bits where the processor multiplies them faster."""


@pytest.mark.skipif(
    find_spec("argostranslate") is None, reason="Argos Translate (argostranslate) is not installed"
)
def test_argos_translate_itself_says_what_the_run_says(tmp_path):
    run, path = sharp_run(tmp_path / "run", method="unigram"), tmp_path / "en_de.argosmodel"
    weights = RunFolder.open(run).model().state_dict()
    first = len(SPECIALS)
    weights["head.bias"][first : first + 256] = -1e3  # bytes at random are no text
    RunFolder.open(run).write_weights(weights)
    export_model(run, "argos", path, languages=["en", "de"])
    homes = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
    asked = [sys.executable, "-c", ARGOS, str(path), json.dumps(TEXTS[:3])]
    done = subprocess.run(
        asked, env={**os.environ, **dict.fromkeys(homes, str(tmp_path)), **SETTINGS},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    told, installed = json.loads(done.stdout.splitlines()[-1])
    translator = clearhead.load(run)
    options = {"beam": 1, "min_length": 1, "max_length": 256, "guard": False}
    ours = translator.translate(TEXTS[:3], **options)
    # it shows every underscore as a space
    assert told == [each.text.replace("_", " ") for each in ours]
    assert import_model(installed, tmp_path / "back").is_good
    again = clearhead.load(tmp_path / "back").translate(TEXTS[:3], **options)
    assert [each.ids for each in again] == [each.ids for each in ours]
