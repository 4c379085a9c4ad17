"""A broken or hostile source ends in one clear error, soon, and leaves nothing behind."""

import json
import shutil
import time
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.cli.main import main
from clearhead.errors import ClearheadError
from clearhead.exchange import import_model
from clearhead.exchange.foreign import Order
from clearhead.tensors import read_tensors, tensor_bytes
from clearhead.text import Tokenizer
from clearhead.text.sentencepiece import SentencePiece


def changed_config(**changes):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def changed_tensors(change):
    def rewrite(folder):
        path = folder / "model.safetensors"
        tensors = read_tensors(folder, path.name, is_verified=True)
        change(tensors)
        path.write_bytes(tensor_bytes({name: each.numpy() for name, each in tensors.items()}))

    return rewrite


def changed_json(name, *keys, value):
    def change(folder):
        document = json.loads((folder / name).read_text())
        part = document
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value
        (folder / name).write_text(json.dumps(document))

    return change


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def huge_header(folder):
    (folder / "model.safetensors").write_bytes((100 * 2**20).to_bytes(8, "little") + b"{" * 1000)


def cut_off(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def index_that_leads_out(folder):
    (folder / "model.safetensors").rename(folder.parent / "elsewhere.safetensors")
    map_ = {"weight_map": {"x": "../elsewhere.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(map_))


def link_that_leads_out(folder):
    (folder / "model.safetensors").rename(folder.parent / "linked.safetensors")
    (folder / "model.safetensors").symlink_to("../linked.safetensors")


def no_tokenizer(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").unlink(missing_ok=True)


NAME = "bert.encoder.layer.1.output.dense.weight"
TWIN = "cls.predictions.decoder.bias"
REGEX = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
BROKEN = {
    "a missing tensor": (changed_tensors(lambda t: t.pop(NAME)), f"{NAME} is missing"),
    "an extra tensor": (changed_tensors(lambda t: t.update(extra=torch.ones(2))), "extra is no part of"),
    "a misshapen tensor": (
        changed_tensors(lambda t: t.update({NAME: torch.ones(24, 41)})),
        r"float32 \[24, 41\], and the settings ask for \[24, 40\]",
    ),
    "a tensor of integers": (
        changed_tensors(lambda t: t.update({NAME: torch.ones(24, 40, dtype=torch.int64)})), "int64",
    ),
    "a twin that differs": (
        changed_tensors(lambda t: t.update({TWIN: t["cls.predictions.bias"] + 1})),
        "should be the same as",
    ),
    "a pickle": (pickled, "is a pickle, which can run any program"),
    "a header of 100 MB": (huge_header, "header of 104,857,600 bytes"),
    "a file that is cut off": (cut_off, "bytes of tensors where the header describes"),
    "an index that leads out": (index_that_leads_out, "which is no file of the folder"),
    "a link that leads out": (link_that_leads_out, "leads out of the folder"),
    "absurd sizes": (changed_config(hidden_size=65_532, num_hidden_layers=200), "asks for weights of at least"),
    "absurder sizes": (changed_config(hidden_size=10**30), "model.d_model"),
    "a size that is text": (changed_config(hidden_size="24"), "model.d_model"),
    "heads that do not divide": (changed_config(num_attention_heads=5), "equal heads"),
    "an unknown kind": (changed_config(model_type="llama"), "model_type llama is not known"),
    "an unknown head": (changed_config(architectures=["BertForQuestionAnswering"]), "is not known"),
    "positions of another kind": (changed_config(position_embedding_type="relative_key"), "position_embedding_type"),
    "an unknown non-linearity": (changed_config(hidden_act="mish"), "mish is not known"),
    "a config that is no JSON": (lambda f: (f / "config.json").write_text("model_type {"), "config.json is not JSON"),
    "a config that is a list": (
        lambda f: (f / "config.json").write_text('["model_type"]'), "config.json is .*, not a JSON object",
    ),
    "no tokenizer": (no_tokenizer, "vocab.txt cannot be read"),
    "another tokenizer": (
        changed_json("tokenizer.json", "model", "vocab", value={"[SEP]": 0, "[UNK]": 1, "a": 2}),
        "bert.embeddings.word_embeddings",
    ),
    "a tokenizer without an end": (
        changed_json("tokenizer.json", "model", "vocab", value={"[UNK]": 0}), "lacks",
    ),
    "a tokenizer with a regular expression": (
        changed_json("tokenizer.json", "pre_tokenizer", value=REGEX), "its pre_tokenizer is",
    ),
    "a tokenizer with another normaliser": (
        changed_json("tokenizer.json", "normalizer", value={"type": "NFKC"}), "its normalizer is",
    ),
    "ids that do not count": (
        changed_json("tokenizer.json", "model", "vocab", value={"[SEP]": 5}), "ids that count from 0",
    ),
}  # fmt: skip


@pytest.fixture
def copied(foreign, tmp_path):
    """A copy of a small BERT, to be broken."""
    _, folder = foreign("BertForMaskedLM")
    return shutil.copytree(folder, tmp_path / "model")


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_source_gets_one_clear_error_and_leaves_nothing(name, copied, tmp_path):
    breaks, said = BROKEN[name]
    breaks(copied)
    begin = time.process_time()
    with pytest.raises(ClearheadError, match=said) as caught:
        import_model(copied, tmp_path / "runs" / "x")
    assert time.process_time() - begin < 2
    assert len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)
    assert caught.value.advice
    assert not (tmp_path / "runs").exists()


def test_what_is_no_source_is_told_what_would_be(tmp_path, capsys):
    assert main(["import", str(tmp_path / "nowhere"), "--into", str(tmp_path / "x")]) == 1
    assert "A Hugging Face folder" in capsys.readouterr().err.replace("a Hugging", "A Hugging")


def test_nothing_is_written_over(copied, tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(ClearheadError, match="is there already"):
        import_model(copied, tmp_path / "x")
    assert list((tmp_path / "x").iterdir()) == []


def test_another_model_than_the_source_s_is_not_settled(copied, tmp_path, monkeypatch):
    right = Order.rows
    monkeypatch.setattr(Order, "rows", lambda self, theirs: right(self, theirs).roll(1, 0))
    with pytest.raises(ClearheadError, match=r"logits differ by .+ First difference: text 1"):
        import_model(copied, tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.fixture(scope="module")
def model_file(foreign):
    return foreign("MarianMTModel")[1] / "source.spm"


@given(st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_a_mutated_sentencepiece_model_meets_only_our_errors(model_file, seed):
    random, content = Random(seed), bytearray(model_file.read_bytes())
    for _ in range(random.randint(1, 8)):
        # most mutations among the pieces, some in the character map
        end = random.choice([200, 2_000, len(content)])
        content[random.randrange(end)] = random.randrange(256)
    content = content[: random.choice([len(content), random.randrange(len(content))])]
    try:
        read = SentencePiece.read(bytes(content))
        tokenizer = Tokenizer(read.vocabulary(list(read.pieces)[3:]))
        tokenizer.encode_batch(["Ein Mann, ½ ﬁsh\u0301 ①", "\u3000 東京 か\u3099"])
    except ClearheadError:
        return
