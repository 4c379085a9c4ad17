"""A model that was trained here, rewritten so that a layout of Hugging Face can hold it.

What is rewritten computes the same: sines and cosines become a table of positions, a factor on token
vectors goes into them, a bias that is not there becomes one of zeros.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from clearhead.config import Given, ModelConfig
from clearhead.disk import read_inside
from clearhead.errors import ExchangeError
from clearhead.exchange.vocabularies import TOKENIZER, TOKENIZER_CONFIG, Lexicon, Order
from clearhead.folder.run import Undrawn
from clearhead.model import build
from clearhead.model.positions import sinusoids
from clearhead.tasks.task import Tokenizers
from clearhead.text import END, SPECIALS, START, Tokenizer
from clearhead.text.document import MAX_BYTES
from clearhead.text.vocabulary import SPACE_MARK

SOURCE_TOKENIZER = f"source-{TOKENIZER}"
N_POSITIONS = 1_024
"""As far as sines and cosines go in a layout that keeps positions in a table."""


def expressed(model: ModelConfig, kind: str) -> ModelConfig:
    """The settings of the same model in a layout, as far as it has such."""
    changes: Given = {"bias": True}
    if kind != "marian" and model.positions != "learned":
        changes |= {"positions": "learned", "max_positions": N_POSITIONS}
    if kind == "gpt2" and model.scale_embeddings:
        changes |= {"scale_embeddings": False, "tie": "none"}
    if kind == "bert":
        changes["n_token_types"] = max(1, model.n_token_types)
    if kind != "gpt2":
        changes["logit_bias"] = True
    return model.but(**changes)


def rewritten(
    weights: Mapping[str, Tensor], model: ModelConfig, other: ModelConfig
) -> dict[str, Tensor]:
    """The weights of the same model in other settings; what it lacks is zero there."""
    found = dict(weights)
    if other.positions != model.positions:
        places, halves = torch.arange(other.max_positions), model.positions == "halves"
        stack = "encoder" if model.reads else "decoder"
        found[f"{stack}.positions.table"] = sinusoids(places, model.d_model, halves)
    if other.scale_embeddings != model.scale_embeddings:
        found.setdefault("head.tokens.weight", found["tokens.weight"])
        found["tokens.weight"] = found["tokens.weight"] * math.sqrt(model.d_model)
    with torch.device("meta"), Undrawn():
        shapes = {name: each.shape for name, each in build(other).state_dict().items()}
    return {name: torch.zeros(shape) for name, shape in shapes.items()} | found


def as_piece(token: str) -> str:
    """A token as SentencePiece spells it."""
    return token.replace(" ", SPACE_MARK)


def write_tokenizers(tokenizers: Tokenizers, folder: Path) -> None:
    """Our tokenizers beside a model in another format; one file, where they are one."""
    source, target = tokenizers
    own = {} if source is target else {SOURCE_TOKENIZER: source}
    for name, tokenizer in {TOKENIZER: target, **own}.items():
        (folder / name).write_text(tokenizer.json, encoding="utf-8")


def read_tokenizers(folder: Path) -> Tokenizers:
    """What was written beside a model."""
    target = Tokenizer.from_json(read_inside(folder, TOKENIZER, MAX_BYTES))
    if not (folder / SOURCE_TOKENIZER).is_file():
        return target, target
    return Tokenizer.from_json(read_inside(folder, SOURCE_TOKENIZER, MAX_BYTES)), target


def native_lexicon(tokenizers: Tokenizers) -> Lexicon:
    """Our own order, as it is."""
    orders = [Order(tuple(range(each.vocab_size)), each.vocab_size) for each in tokenizers]
    return Lexicon(tokenizers, (orders[0], orders[1]))


def special_ids(model: ModelConfig) -> dict[str, int]:
    """The special tokens that transformers asks a config.json for."""
    start = {"decoder_start_token_id": START} if model.reads and model.writes else {}
    return {"pad_token_id": 0, "bos_token_id": END, "eos_token_id": END, **start}


def native_files(tokenizers: Tokenizers, reads: bool) -> dict[str, bytes]:
    """Our tokenizer for transformers, with the end token where our models have it."""
    if tokenizers[0] is not tokenizers[1]:
        raise ExchangeError(
            "A run with two tokenizers of our own cannot be written for transformers.",
            "Train with tokenizer.shared = true.",
        )
    end = SPECIALS["end"]
    text, mark = (
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": end, "type_id": 0}},
    )
    both = [text, mark] if reads else [mark, text]
    pair = [*both, {"Sequence": {"id": "B", "type_id": 0}}]
    document = json.loads(tokenizers[1].json)
    document["post_processor"] = {
        "type": "TemplateProcessing",
        "single": both,
        "pair": pair,
        "special_tokens": {end: {"id": end, "ids": [END], "tokens": [end]}},
    }
    roles = {"pad": "pad", "start": "bos", "end": "eos", "unknown": "unk", "mask": "mask"}
    settings = {f"{theirs}_token": SPECIALS[ours] for ours, theirs in roles.items()}
    return {
        TOKENIZER: json.dumps(document, ensure_ascii=False).encode(),
        TOKENIZER_CONFIG: json.dumps(
            {"tokenizer_class": "PreTrainedTokenizerFast", **settings}, indent=2
        ).encode(),
    }
