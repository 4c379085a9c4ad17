"""A CTranslate2 folder as a run: the models that people already run, opened.

Weights that were rounded to 8 or 16 bits become what CTranslate2 makes of them in float32. Every
variable is used, is a known setting, or is refused by name.
"""

import re
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from random import Random
from typing import Literal

import torch
from torch import Tensor

from clearhead.config import Config, Given, ModelConfig
from clearhead.decode import decode_each
from clearhead.disk import read_inside
from clearhead.errors import ExchangeError, shown
from clearhead.exchange.backend import CTranslate2
from clearhead.exchange.certificate import SAMPLE, Beside, Certificate
from clearhead.exchange.ct2 import ACTIVATIONS, agreement, asked, tied, timed, variables
from clearhead.exchange.ct2_file import MODEL, SCALE, WITH_CONFIG, ModelBin, read_model_bin
from clearhead.exchange.foreign import (
    BY_TOKEN,
    METADATA,
    N_SPECIAL,
    Foreign,
    Lexicon,
    as_piece,
    in_pieces,
    json_in,
    lines_in,
    read_tokenizers,
)
from clearhead.exchange.layouts import shapes_of
from clearhead.folder.run import TOKENIZER, RunFolder
from clearhead.model.positions import sinusoids
from clearhead.tasks.task import decide
from clearhead.text import END, START
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
SIDES = ("source", "target")
CONFIG, SHARED = "config.json", "sentencepiece.model"
ENCODINGS = "decoder/position_encodings/encodings"
ADVICE = "Such a model cannot be brought in."
N_RANDOM, LENGTH = 16, 8
"""Sources of random tokens on the certificate, and how long they are."""


def is_ctranslate2(path: Path) -> bool:
    return (path / MODEL).is_file() or (path / "model" / MODEL).is_file()


def read_ctranslate2(path: Path) -> Foreign:
    """The model in a CTranslate2 folder, with its tokenizer in it or beside it."""
    folder = path if (path / MODEL).is_file() else path / "model"
    held = read_model_bin(folder)
    if held.kind not in KINDS:
        raise ExchangeError(
            f"{held.path} is a {shown(held.kind)}, which is not known.",
            f"There are: {', '.join(KINDS)}.",
        )
    settings, family = settings_of(folder, held), KINDS[held.kind]
    reads = family == "encoder-decoder"
    if reads and settings.get("add_source_bos"):
        raise ExchangeError(f"{folder}: the encoder reads a start before each source.", ADVICE)
    lexicon = lexicon_of(folder, path, settings, held)
    model = model_of(held, settings, lexicon)
    given: Given = {"model": dict(model), "tokenizer": lexicon.settings}
    if reads:
        given["decode"] = {"beam": 4, "penalty": "average"}
        told = json_in(path, METADATA)
        codes = {"source_language": told.get("from_code"), "target_language": told.get("to_code")}
        given["data"] = {name: code for name, code in codes.items() if str(code) in LANGUAGES}
    pieces = [read_inside(p, SHARED, MAX_BYTES) for p in (path, folder) if (p / SHARED).is_file()]
    return Foreign(
        config=Config(**decide("translation" if reads else "writing", given)),
        tokenizers=lexicon.tokenizers,
        weights=weights_of(held, model, lexicon),
        origin={SHARED: pieces[0]} if pieces else {},
        certify=partial(certify_import, folder=folder, name=path.name, lexicon=lexicon, held=held),
        card=f"# {path.name}\n\nImported from a CTranslate2 folder.\n",
    )


def settings_of(folder: Path, held: ModelBin) -> Given:
    """The settings of the tokens; an earlier model.bin has them itself, and no config.json."""
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


# Tokens


def lexicon_of(folder: Path, around: Path, settings: Given, held: ModelBin) -> Lexicon:
    """The tokenizers and the order of tokens: ours, or SentencePiece's in or beside the folder."""
    source, target = (vocabulary(folder, side) for side in SIDES)
    if (folder / TOKENIZER).is_file():
        own = read_tokenizers(folder)
        names = [[*map(as_piece, each.vocabulary.names)] for each in own]
        if names != [[*map(as_piece, tokens)] for tokens in (source, target)]:
            raise ExchangeError(f"{folder / TOKENIZER} is not the model's tokenizer.", ADVICE)
        return Lexicon.native(own)
    special = {"end": settings.get("eos_token", "</s>"), "unknown": settings.get("unk_token", "")}
    if not held.number("decoder/start_from_zero_embedding", 0):
        special["start"] = settings.get("decoder_start_token") or settings.get("bos_token", "<s>")
    if special.get("start", "") not in ("", *target):
        raise ExchangeError(f"{folder}: {shown(special['start'])} is no token.", ADVICE)
    first, second = (pieces_of(folder, around, side) for side in SIDES)
    return Lexicon.of(
        in_pieces(first, source, special),
        in_pieces(second, target, special, of_source=first == second),
    )


def vocabulary(folder: Path, side: str) -> list[str]:
    """The tokens of a side by their ids; earlier versions wrote one a line."""
    stems = (f"{side}_vocabulary", "shared_vocabulary", "vocabulary")
    names = [f"{stem}.{ending}" for stem in stems for ending in ("json", "txt")]
    name = next((name for name in names if (folder / name).is_file()), "")
    if not name:
        raise ExchangeError(
            f"{folder} holds no vocabulary.", "Take the folder from where it was whole."
        )
    if name.endswith(".txt"):
        return lines_in(folder, name)
    content = b'{"tokens": %b}' % read_inside(folder, name, MAX_BYTES)
    tokens = parsed_json(content, str(folder / name))["tokens"]
    if not isinstance(tokens, list) or not all(isinstance(each, str) for each in tokens):
        raise ExchangeError(f"{folder / name} is no list of tokens.", ADVICE)
    return tokens


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
    n_source, n_target = (each.vocab_size for each in lexicon.tokenizers)
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
        "tie": tie_of(held, family),
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
    return found is not None and found.dtype in (torch.float16, torch.bfloat16)


def weights_of(held: ModelBin, model: ModelConfig, lexicon: Lexicon) -> dict[str, Tensor]:
    """Our weights, made of theirs; every variable must be used, or be a known setting."""
    parts = {ours: variables(ours) for ours in shapes_of(model)}
    joined = {
        ours: torch.cat([weight_in(held, name) for name in names]) for ours, names in parts.items()
    }
    stacks = ("encoder", "decoder") if model.reads else ("decoder",)
    tables = (variables(f"{stack}.positions.table") for stack in stacks)
    used = {*chain(tied(model), *tables, *parts.values())}
    for name in (*held.variables, *held.aliases):
        side, _, setting = name.rpartition("/")
        is_setting = side in ("", "encoder", "decoder") and setting in SETTINGS
        if name.removesuffix(SCALE) not in used and not is_setting:
            raise ExchangeError(f"{held.path} holds {shown(name)}, which is not known.", ADVICE)
    return {name: in_order(name, weight, held, lexicon) for name, weight in joined.items()}


def weight_in(held: ModelBin, name: str) -> Tensor:
    """A weight in the file; a bias that CTranslate2 left out is zero."""
    if held.variable(name) is None and name.endswith("/bias"):
        return torch.zeros(held.shape(name.replace("/bias", "/weight"))[0])
    return held.weight(name)


def in_order(name: str, weight: Tensor, held: ModelBin, lexicon: Lexicon) -> Tensor:
    """A weight with a row for each token in our order; others as they are."""
    if name not in BY_TOKEN:
        return weight
    order = lexicon.order_of(name)
    if len(weight) != order.n_theirs:
        raise ExchangeError(
            f"{held.path} has {len(weight):,} rows for {order.n_theirs:,} tokens.", ADVICE
        )
    rows = order.rows(weight)
    if name == "tokens.weight" and order.ids[START] is None:
        rows[START] = 0  # the decoder begins with a vector of zeros
    return rows


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
    (order, there), source, model = lexicon.orders, lexicon.tokenizers[0], run.model()
    rows = [source.encode(text)[: held.shape(ENCODINGS)[0] - 1] for text in SAMPLE]
    random, ordinary = Random(0), range(N_SPECIAL, len(order.ids))  # noqa: S311
    rows += [random.choices(ordinary, k=LENGTH) for _ in range(N_RANDOM)]
    request, sentences = asked(model, rows)
    ours, _ = timed(lambda: decode_each(request, sentences))
    # The same in the other model's ids, and what it writes back in ours.
    (end,) = there.theirs([END])
    marks = [end] * model.config.source_end
    theirs_asked = [
        replace(sentence, source=(*order.theirs(ids), *marks))
        for sentence, ids in zip(sentences, rows, strict=True)
    ]
    other = replace(request, end=end, blocked=())
    with CTranslate2(folder, model, n_workers=1) as backend:
        written, _ = timed(lambda: backend.decode(other, theirs_asked))
    back = {number: token for token, number in enumerate(there.ids)}
    theirs = {
        index: replace(best, ids=tuple(back[number] for number in best.ids))
        for index, best in written.items()
    }
    return agreement(title, ours, theirs, "float16" if is_half(held) else "float32", sizes)
