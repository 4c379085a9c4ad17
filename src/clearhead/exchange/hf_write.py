"""A run in the layout of Hugging Face that can hold it; one that was imported goes back as it came.

A model that was trained here is rewritten so that it computes the same: sines and cosines become a
table of positions, a factor on token vectors goes into them, a bias that it lacks becomes zeros.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from clearhead.config import Given, ModelConfig
from clearhead.disk import atomic_file
from clearhead.errors import ExchangeError
from clearhead.exchange.certificate import Certificate
from clearhead.exchange.foreign import TOKENIZER_CONFIG, Lexicon, read_lexicon
from clearhead.exchange.hugging_face import (
    CONFIG,
    WEIGHTS,
    Source,
    certify_folder,
    is_hugging_face,
    source_in,
)
from clearhead.exchange.layouts import LAYOUTS, Conversion, Layout, shapes_of
from clearhead.folder.run import TOKENIZER, RunFolder
from clearhead.model.positions import sinusoids
from clearhead.tasks.task import Tokenizers
from clearhead.tensors import write_tensors
from clearhead.text import END, PAD, SPECIALS, START

N_POSITIONS = 1_024
"""As far as sines and cosines go in a layout that keeps positions in a table."""
NEAREST = {"encoder": "bert", "decoder": "gpt2", "encoder-decoder": "marian"}
"""The layout for a model that was trained here, by its family."""


def write_hugging_face(folder: RunFolder, place: Path) -> Certificate:
    """Write the model of a run in the layout of Hugging Face that can express it.

    Where the run was imported, its export has the original's tokens, names and small files.
    """
    model, tokenizers, origin = folder.model(), folder.tokenizers(), folder.origin()
    source = source_in(origin) if origin and is_hugging_face(origin) else None
    kind = source.kind if source else NEAREST[model.config.family]
    layout, other = LAYOUTS[kind], expressed(model.config, kind)
    check_fits(folder, other, kind)
    architecture = architecture_for(folder, source, kind)
    if source:
        lexicon, files, given = read_lexicon(source.folder, kind), source.files, source.given
    else:
        lexicon, files = Lexicon.native(tokenizers), native_files(tokenizers, reads=other.reads)
        given = native_config(layout, other)
    weights = rewritten(model.state_dict(), model.config, other)
    tensors = dict(Conversion(layout, other, lexicon).given(weights))
    if source and source.architecture == architecture:
        tensors = {**source.kept, **tensors}
    if layout.heads[architecture] == "vectors":  # without a head, names have no base
        base = f"{layout.base}."
        tensors = {name.removeprefix(base): each for name, each in tensors.items()}
    needed = sum(each.nbytes for each in tensors.values())
    with atomic_file(place / WEIGHTS, needed) as file:
        write_tensors(file, tensors)
    config = config_json(given, architecture, folder.config().labels.names)
    for name, content in {**files, CONFIG: config}.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(content)
    title = f"{folder.path.name} in the layout of {kind}"
    return certify_folder(folder, place, architecture, lexicon, title=title)


def architecture_for(folder: RunFolder, source: Source | None, kind: str) -> str:
    """The class of the model there: that of its source, where it is for the same use."""
    config, heads = folder.config(), LAYOUTS[kind].heads
    use = "vectors" if config.model.vectors else config.task
    if source and source.use == use:
        return source.architecture
    for name, what in heads.items():
        if what == use:
            return name
    raise ExchangeError(
        f"{folder.path}: the layout of {kind} has no model for {use}.",
        f"It has: {', '.join(heads.values())}.",
    )


def config_json(given: Given, architecture: str, labels: Sequence[str]) -> bytes:
    """A config.json with its architecture, and with the names of the classes where there are."""
    found = {**given, "architectures": [architecture]}
    if labels:
        found["id2label"] = {str(number): name for number, name in enumerate(labels)}
        found["label2id"] = {name: number for number, name in enumerate(labels)}
    return json.dumps(found, ensure_ascii=False, indent=2).encode()


def check_fits(folder: RunFolder, model: ModelConfig, kind: str) -> None:
    """Refuse a model that the layout cannot express, naming each setting."""
    layout = LAYOUTS[kind]
    settings = layout.fixed | {"n_grams": 0} | (layout.classes if model.n_classes else {})
    others = [
        f"model.{name} = {getattr(model, name)} (there: {only})"
        for name, only in settings.items()
        if getattr(model, name) != only and name not in ("logit_bias", "tie")
    ]
    if others:
        raise ExchangeError(
            f"{folder.path} cannot be written in the layout of {kind}: {', '.join(others)}.",
            "Export it to ctranslate2 or onnx, or train with those settings.",
        )


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
    return {name: torch.zeros(shape) for name, shape in shapes_of(other).items()} | found


def native_config(layout: Layout, model: ModelConfig) -> Given:
    """The config.json of a model that was trained here, which has our special tokens."""
    start = {"decoder_start_token_id": START} if model.reads and model.writes else {}
    special = {"pad_token_id": PAD, "bos_token_id": END, "eos_token_id": END, **start}
    shape = layout.config(model)
    return {"architectures": [], **shape, **special, "vocab_size": model.vocab_size}


def native_files(tokenizers: Tokenizers, reads: bool) -> dict[str, bytes]:
    """Our tokenizer for transformers, with the end token where our models have it."""
    if tokenizers[0] is not tokenizers[1]:
        raise ExchangeError(
            "A run with two tokenizers of our own cannot be written for transformers.",
            "Train with tokenizer.shared = true.",
        )
    end = SPECIALS["end"]
    text = {"Sequence": {"id": "A", "type_id": 0}}
    mark = {"SpecialToken": {"id": end, "type_id": 0}}
    single = [text, mark] if reads else [mark, text]
    document = json.loads(tokenizers[1].json)
    document["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {end: {"id": end, "ids": [END], "tokens": [end]}},
    }
    roles = {"pad": "pad", "start": "bos", "end": "eos", "unknown": "unk", "mask": "mask"}
    settings = {f"{theirs}_token": SPECIALS[ours] for ours, theirs in roles.items()}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **settings}
    return {
        TOKENIZER: json.dumps(document, ensure_ascii=False).encode(),
        TOKENIZER_CONFIG: json.dumps(settings, indent=2).encode(),
    }
