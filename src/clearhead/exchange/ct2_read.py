"""A CTranslate2 folder or an Argos package as a run: the models that people already run, opened.

Weights that were rounded to 8 or 16 bits become what CTranslate2 makes of them in float32. Every
variable is used, is a known setting, or is refused by name.
"""

import re
import shutil
import tempfile
import weakref
import zipfile
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from random import Random
from typing import Literal

import torch
from torch import Tensor

from clearhead.config import Config, Given, ModelConfig
from clearhead.decode import Hypothesis, decode
from clearhead.disk import free_bytes, read_inside
from clearhead.errors import ExchangeError, shown
from clearhead.exchange.backend import Worker
from clearhead.exchange.certificate import SAMPLE, Beside, Certificate, same_tokens
from clearhead.exchange.ct2 import tokens_of
from clearhead.exchange.ct2_file import MODEL, SCALE, WITH_CONFIG, ModelBin, read_model_bin
from clearhead.exchange.ct2_layout import ACTIVATIONS, places
from clearhead.exchange.foreign import Foreign
from clearhead.exchange.native import as_piece, native_lexicon, read_tokenizers
from clearhead.exchange.trial import GREEDY, TOLERANCES, off
from clearhead.exchange.vocabularies import (
    NEVER,
    SPECIAL,
    TOKENIZER,
    Lexicon,
    Order,
    in_pieces,
    json_in,
    of_sides,
)
from clearhead.folder import RunFolder
from clearhead.model.positions import sinusoids
from clearhead.tasks.task import decide
from clearhead.tasks.translation import source_row
from clearhead.text import END, PAD, START
from clearhead.text.document import MAX_BYTES, parsed_json
from clearhead.text.languages import LANGUAGES

KINDS: dict[str, Literal["encoder-decoder", "decoder"]] = {
    "TransformerSpec": "encoder-decoder",
    "TransformerDecoderSpec": "decoder",
}
"""Specifications of CTranslate2 that we know, and the family of such a model here."""
SETTINGS = {
    "activation", "alignment_heads", "alignment_layer", "alibi", "alibi_use_positive_positions",
    "embeddings_merge", "multi_query_attention", "num_heads", "pre_norm", "scale_alibi",
    "scale_embeddings", "start_from_zero_embedding", "bos_token", "eos_token", "unk_token",
    "user_decoder_start_tokens", "with_source_bos", "with_source_eos", "with_target_bos",
    "with_relative_position",
}  # fmt: skip
OFF = ("alibi", "multi_query_attention", "user_decoder_start_tokens", "with_relative_position")
"""Settings that must be off, for a model here cannot have them."""
EPSILON = 1e-5
"""CTranslate2's, where a folder does not say another."""
BY_TOKEN = ("tokens.weight", "source_tokens.weight", "head.tokens.weight", "head.bias")
CONFIG, METADATA, SHARED = "config.json", "metadata.json", "sentencepiece.model"
NEEDED = re.compile(
    r"model\.bin|config\.json|metadata\.json|sentencepiece\.model|\w*vocabulary\.\w+|"
    r"(source-)?tokenizer\.json"
)
ENCODINGS = "decoder/position_encodings/encodings"
ADVICE = "Such a model cannot be brought in."
N_RANDOM, LENGTH = 16, 8
"""Sources of random tokens on the certificate, and how long they are."""


def is_ctranslate2(path: Path) -> bool:
    return (path / MODEL).is_file() or (path / "model" / MODEL).is_file()


def is_argos(path: Path) -> bool:
    return path.is_file() and zipfile.is_zipfile(path)


def read_argos(path: Path) -> Foreign:
    """The model in a package of Argos Translate or LibreTranslate."""
    place = Path(tempfile.mkdtemp(prefix="clearhead-"))

    def certified(run: RunFolder) -> Certificate:
        return foreign.certify(run)

    # The unpacked files are there as long as they may be asked.
    weakref.finalize(certified, shutil.rmtree, place, ignore_errors=True)
    unpack(path, place)
    roots = [file.parent.parent for file in place.rglob(MODEL)]
    if len(roots) != 1:
        raise ExchangeError(f"{path} holds {len(roots)} models, and a package has one.", ADVICE)
    if json_in(roots[0], METADATA).get("target_prefix"):
        raise ExchangeError(f"{path} has a target_prefix: it is for several languages.", ADVICE)
    foreign = read_ctranslate2(roots[0])
    card = f"# {path.stem}\n\nImported from an Argos package, {path.name}.\n"
    return replace(foreign, certify=certified, card=card)


def unpack(path: Path, into: Path) -> None:
    """The files of a package that are read here; none is written outside its folder."""
    with zipfile.ZipFile(path) as archive:
        wanted = [
            each
            for each in archive.infolist()
            if not each.is_dir() and NEEDED.fullmatch(PurePosixPath(each.filename).name)
        ]
        needed = sum(each.file_size for each in wanted)
        if needed > free_bytes(into) // 2:
            raise ExchangeError(f"{path} would need {needed:,} bytes.", "Make room, or refuse it.")
        for each in wanted:
            name = PurePosixPath(each.filename)
            if name.is_absolute() or ".." in name.parts or "\\" in each.filename:
                raise ExchangeError(f"{path} names {shown(each.filename)}, outside itself.", ADVICE)
            place = into.joinpath(*name.parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                with archive.open(each) as packed, place.open("xb") as file:
                    shutil.copyfileobj(packed, file)
            except (zipfile.BadZipFile, RuntimeError, EOFError, OSError) as error:
                raise ExchangeError(f"{path} is damaged: {error}.", ADVICE) from None


def read_ctranslate2(path: Path) -> Foreign:
    """The model in a CTranslate2 folder, with its tokenizer in it or beside it."""
    folder = path if (path / MODEL).is_file() else path / "model"
    held = read_model_bin(folder)
    if held.kind not in KINDS:
        raise ExchangeError(
            f"{held.path} is a {shown(held.kind)}, which is not known.",
            f"There are: {', '.join(KINDS)}.",
        )
    settings = settings_of(folder, held)
    reads = KINDS[held.kind] == "encoder-decoder"
    if reads and settings.get("add_source_bos"):
        raise ExchangeError(f"{folder}: the encoder reads a start before each source.", ADVICE)
    lexicon = lexicon_of(folder, path, settings, held)
    model = model_of(held, settings, lexicon)
    weights = weights_of(held, model, lexicon)
    task = "translation" if reads else "writing"
    given: Given = {"model": dict(model), "tokenizer": tokenizer_settings(lexicon)}
    if reads:
        given["decode"] = {"beam": 4, "penalty": "average"}
        told = json_in(path, METADATA)
        codes = {"source_language": told.get("from_code"), "target_language": told.get("to_code")}
        given["data"] = {name: code for name, code in codes.items() if str(code) in LANGUAGES}
    places = [place for place in (path, folder) if (place / SHARED).is_file()]
    return Foreign(
        config=Config(**decide(task, given)),
        tokenizers=lexicon.tokenizers,
        weights=weights,
        origin={SHARED: read_inside(places[0], SHARED, MAX_BYTES)} if places else {},
        certify=partial(certify_import, folder=folder, name=path.name, lexicon=lexicon, held=held),
        card=f"# {path.name}\n\nImported from a CTranslate2 folder.\n",
    )


def settings_of(folder: Path, held: ModelBin) -> Given:
    """What surrounds the weights; an earlier model.bin tells it without a config.json."""
    if held.version >= WITH_CONFIG:
        return json_in(folder, CONFIG)
    names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    found: Given = {name: held.text(name, usual) for name, usual in names.items()}
    start = "bos_token" if held.number("with_target_bos", 1) else "eos_token"
    return found | {
        "decoder_start_token": found[start],
        "add_source_bos": held.number("with_source_bos", 0),
        "add_source_eos": held.number("with_source_eos", 0),
    }


def tokenizer_settings(lexicon: Lexicon) -> Given:
    source, target = lexicon.tokenizers
    return {"method": target.vocabulary.method, "shared": source is target}


# Tokens


def lexicon_of(folder: Path, around: Path, settings: Given, held: ModelBin) -> Lexicon:
    """The tokenizers and the order of tokens: ours, or SentencePiece's in or beside the folder."""
    if (folder / TOKENIZER).is_file():
        own = read_tokenizers(folder)
        for side, tokenizer in zip(("source", "target"), own, strict=True):
            both = vocabulary(folder, side), tokens_of(tokenizer)
            theirs, ours = ([*map(as_piece, tokens)] for tokens in both)
            if theirs != ours:
                raise ExchangeError(f"{folder / TOKENIZER} is not the model's tokenizer.", ADVICE)
        return native_lexicon(own)
    sides, read = [], b""
    for side in ("source", "target"):
        tokens = vocabulary(folder, side)
        names = {"end": settings.get("eos_token", "</s>"), "unknown": settings.get("unk_token", "")}
        if not held.number("decoder/start_from_zero_embedding", 0):
            names["start"] = settings.get("decoder_start_token") or settings.get("bos_token", "<s>")
        if side == "target" and names.get("start", "") not in ("", *tokens):
            raise ExchangeError(f"{folder}: {shown(names['start'])} is no token.", ADVICE)
        before, read = read, pieces_of(folder, around, side)
        sides.append(in_pieces(read, tokens, names, of_source=read == before))
    return of_sides(*sides)


def vocabulary(folder: Path, side: str) -> list[str]:
    """The tokens of a side by their ids; earlier versions wrote one a line."""
    for name in (f"{side}_vocabulary", "shared_vocabulary", "vocabulary"):
        if (folder / f"{name}.json").is_file():
            content = b'{"tokens": %b}' % read_inside(folder, f"{name}.json", MAX_BYTES)
            tokens = parsed_json(content, f"{folder / name}.json")["tokens"]
            if not isinstance(tokens, list) or not all(isinstance(each, str) for each in tokens):
                raise ExchangeError(f"{folder / name}.json is no list of tokens.", ADVICE)
            return tokens
        if (folder / f"{name}.txt").is_file():
            text = read_inside(folder, f"{name}.txt", MAX_BYTES).decode(errors="replace")
            return text.removesuffix("\n").split("\n")
    raise ExchangeError(
        f"{folder} holds no vocabulary.", "Take the folder from where it was whole."
    )


def pieces_of(folder: Path, around: Path, side: str) -> bytes:
    for place in (folder, around):
        for name in (f"{side}.spm", SHARED):
            if (place / name).is_file():
                return read_inside(place, name, MAX_BYTES)
    raise ExchangeError(
        f"{around} holds no SentencePiece model, and other tokenizers of such folders are not "
        "known.",
        f"Put its {SHARED}, or source.spm and target.spm, into the folder.",
    )


# Weights


def model_of(held: ModelBin, settings: Given, lexicon: Lexicon) -> ModelConfig:
    """The shape of the model, read off its variables."""
    family, number = KINDS[held.kind], held.number
    for side in ("encoder", "decoder"):
        for name in OFF:
            if number(f"{side}/{name}", 0):
                raise ExchangeError(f"{held.path} has {side}/{name}.", ADVICE)
    (n_source, n_target), tie = sizes(lexicon), tie_of(held, family)
    activation = number("decoder/activation", 0)
    if not 0 <= activation < len(ACTIVATIONS):
        raise ExchangeError(f"{held.path} has the activation {activation}.", ADVICE)
    shape = {
        "d_model": held.shape("decoder/embeddings/weight")[-1],
        "d_ff": held.shape("decoder/layer_0/ffn/linear_0/weight")[0],
        "n_heads": number("decoder/num_heads"),
        "n_decoder_layers": n_layers(held, "decoder"),
        "norm": "pre" if number("decoder/pre_norm", 1) else "post",
        "norm_eps": settings.get("layer_norm_epsilon") or EPSILON,
        "activation": ACTIVATIONS[activation],
        "scale_embeddings": bool(number("decoder/scale_embeddings", 1)),
        "embedding_norm": held.variable("decoder/layernorm_embedding/gamma") is not None,
        "tie": tie,
        # where special tokens are new here, a bias says that they are never written
        "logit_bias": held.variable("decoder/projection/bias") is not None
        or None in lexicon.orders[1].ids,
        **positions_of(held),
    }
    if family == "encoder-decoder":
        shape["n_encoder_layers"] = n_layers(held, "encoder")
        shape["source_end"] = bool(settings.get("add_source_eos"))
        for name, ours in (("num_heads", shape["n_heads"]), ("pre_norm", shape["norm"] == "pre")):
            if number(f"encoder/{name}", 1) != ours:
                raise ExchangeError(f"{held.path}: encoder and decoder differ in {name}.", ADVICE)
        if n_source != n_target:
            shape["source_vocab_size"] = n_source
    return ModelConfig(family=family, vocab_size=n_target, **shape)


def sizes(lexicon: Lexicon) -> tuple[int, int]:
    source, target = lexicon.tokenizers
    return source.vocab_size, target.vocab_size


def n_layers(held: ModelBin, side: str) -> int:
    numbered = re.compile(rf"{side}/layer_(\d{{1,4}})/.*")
    return 1 + max(
        (int(found[1]) for name in held.variables if (found := numbered.fullmatch(name))),
        default=-1,
    )


def tie_of(held: ModelBin, family: str) -> str:
    """Which embedding matrices are one."""
    target, output = "decoder/embeddings/weight", "decoder/projection/weight"
    if held.first(target) != held.first(output):
        return "none"
    source = "encoder/embeddings_0/weight"
    is_one = family == "decoder" or held.first(source) == held.first(target)
    return "all" if is_one else "output"


def positions_of(held: ModelBin) -> Given:
    """Sines and cosines, if the table holds them and nothing else; else it was learned."""
    if held.variable(ENCODINGS) is None:
        raise ExchangeError(f"{held.path} has relative positions, or none in a table.", ADVICE)
    table = held.weight(ENCODINGS)
    exact = 1e-3 if is_half(held) else 1e-5
    for name in ("sinusoidal", "halves"):
        made = sinusoids(torch.arange(len(table)), table.size(-1), name == "halves")
        if made.shape == table.shape and torch.allclose(made, table, atol=exact):
            return {"positions": name}
    return {"positions": "learned", "max_positions": len(table)}


def is_half(held: ModelBin) -> bool:
    """Whether numbers are kept in 16 bits, so that all of them are a little off."""
    found = held.variable(ENCODINGS)
    return found is not None and found.dtype in ("float16", "bfloat16")


def weights_of(held: ModelBin, model: ModelConfig, lexicon: Lexicon) -> dict[str, Tensor]:
    """Our weights, made of theirs; a bias that CTranslate2 left out is zero."""
    parts: dict[str, dict[str, Tensor]] = {}
    used = set[str]()
    for place in places(model):
        used |= {place.theirs, place.theirs + SCALE}
        is_made = place.ours.endswith("positions.table") and model.positions != "learned"
        is_twin = place.ours in BY_TOKEN and place.ours in parts
        if is_made or is_twin:
            continue
        found = held.variable(place.theirs)
        if found is None and place.theirs.endswith("/bias"):
            rows = held.shape(place.theirs.replace("/bias", "/weight"))[0]
            weight = torch.zeros(rows)
        else:
            weight = held.weight(place.theirs)
        parts.setdefault(place.ours, {})[place.theirs] = weight
    refuse_variables(held, used)
    joined = {name: torch.cat([*each.values()]) for name, each in parts.items()}
    return {name: in_order(name, weight, held, lexicon) for name, weight in joined.items()}


def in_order(name: str, weight: Tensor, held: ModelBin, lexicon: Lexicon) -> Tensor:
    """A weight with a row for each token in our order; others as they are."""
    if name not in BY_TOKEN:
        return weight
    order = lexicon.orders[0 if name.startswith("source") else 1]
    if len(weight) != order.n_theirs:
        raise ExchangeError(
            f"{held.path} has {len(weight):,} rows for {order.n_theirs:,} tokens.", ADVICE
        )
    rows = order.rows(weight)
    if name == "tokens.weight" and order.ids[START] is None:
        rows[START] = 0  # the decoder begins with a vector of zeros
    if name == "head.bias":
        rows[PAD] = NEVER if order.ids[PAD] is None else rows[PAD]
    return rows


def refuse_variables(held: ModelBin, used: set[str]) -> None:
    for name in (*held.variables, *held.aliases):
        side, _, setting = name.rpartition("/")
        if name not in used and not (side in ("", "encoder", "decoder") and setting in SETTINGS):
            raise ExchangeError(f"{held.path} holds {shown(name)}, which is not known.", ADVICE)


# The certificate


def certify_import(
    run: RunFolder, *, folder: Path, name: str, lexicon: Lexicon, held: ModelBin
) -> Certificate:
    """The same sources through the new run and through CTranslate2, both in float32, greedily."""
    sizes = {"bytes on disk": Beside(ours=run.weights_size(), theirs=held.path.stat().st_size)}
    title = f"{name} as a run"
    if find_spec("ctranslate2") is None or not run.config().model.reads:
        return Certificate(
            title=title,
            other="nothing",
            n_texts=0,
            scores=sizes,
            notes=("every variable is accounted for by name and shape; no sample was run",),
        )
    order, there = lexicon.orders
    reach = held.shape(ENCODINGS)[0]
    rows = [run.tokenizers()[0].encode(text)[: reach - 1] for text in SAMPLE]
    random, ordinary = Random(0), range(SPECIAL, len(order.ids))  # noqa: S311
    rows += [random.choices(ordinary, k=LENGTH) for _ in range(N_RANDOM)]
    worker, model = Worker(folder, "float32"), run.model()
    try:
        found = worker.ask(
            "decode",
            sources=[[order.ids[token] for token in ids] for ids in rows],
            beam=1,
            scored=True,
            limit=min(max(map(len, rows)) + 1 + GREEDY.max_extra, reach),
            end=there.ids[END],
        )
    finally:
        worker.end()
    ours = [
        best for best, *_ in decode(model, [source_row(ids, model.config) for ids in rows], GREEDY)
    ]
    theirs = [
        in_ours(output[0], there, len(mine.log_probs))
        for output, mine in zip(found, ours, strict=True)
    ]
    same, first = same_tokens([mine.ids for mine in ours], [other.ids for other in theirs])
    largest, least = TOLERANCES["float16" if is_half(held) else "float32"]
    return Certificate(
        title=title,
        other="CTranslate2",
        n_texts=len(rows),
        logit_difference=off(dict(enumerate(ours)), dict(enumerate(theirs)), both=range(len(rows))),
        max_logit_difference=largest,
        tokens_same=same,
        min_tokens_same=least,
        first_difference=first,
        scores=sizes,
        notes=("differences are of log-probabilities of the tokens written",),
        packages=("ctranslate2",),
    )


def in_ours(output: tuple[list[int], list[float]], order: Order, limit: int) -> Hypothesis:
    """What CTranslate2 wrote, in our ids and no longer than we would."""
    back = {number: ours for ours, number in enumerate(order.ids)}
    ids, log_probs = [back[token] for token in output[0][:limit]], tuple(output[1][:limit])
    finished = ids[-1:] == [END]
    text = tuple(ids[:-1] if finished else ids)
    return Hypothesis(text, sum(log_probs), log_probs=log_probs, finished=finished)
