"""A run as a CTranslate2 model: the same weights under its names, in the precision asked for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from clearhead.config import ModelConfig
from clearhead.disk import atomic_folder
from clearhead.errors import ConfigError, ExchangeError, FolderError
from clearhead.exchange.certificate import Certificate
from clearhead.exchange.ct2_layout import ACTIVATIONS, places
from clearhead.exchange.trial import certify
from clearhead.folder import RunFolder
from clearhead.model import Model
from clearhead.text import END, START, UNKNOWN, Tokenizer
from clearhead.text.vocabulary import ABSENT

Precision = Literal["float32", "float16", "int16", "int8"]


def write_ctranslate2(
    run: Path, into: Path, precision: Precision = "float32", test: Sequence[str] = ()
) -> Certificate:
    """Write a run for CTranslate2, with its tokenizers, into a folder that is not there yet.

    A test set, source and target, gives the certificate scores.
    """
    folder = RunFolder.open(run)
    if into.exists():
        raise FolderError(f"{into} is there already.", "Choose another --into.")
    with atomic_folder(into) as place:
        certificate = write_certified(folder, place, precision, test)
        certificate.require()
        source, target = folder.tokenizers()
        own = {} if source is target else {"source-tokenizer.json": source}
        for name, tokenizer in {"tokenizer.json": target, **own}.items():
            (place / name).write_text(tokenizer.json, encoding="utf-8")
    return certificate


def write_certified(
    folder: RunFolder, place: Path, precision: Precision, test: Sequence[str] = ()
) -> Certificate:
    """Write the model, run a sample both ways, and write what came of it."""
    model, tokenizers = folder.model(), folder.tokenizers()
    source, target = map(tokens_of, tokenizers)
    write_model(model, (source, target), place, precision)
    certificate = certify(folder, model, place, precision, test)
    certificate.write(place)
    return certificate


def specs() -> Any:
    """CTranslate2's classes that describe a model, imported when they are used."""
    try:
        from ctranslate2 import specs
    except ImportError:
        raise ConfigError(
            "CTranslate2 is not installed.", "Install it: pip install 'clearhead[exchange]'"
        ) from None
    return specs


def write_model(
    model: Model,
    tokens: tuple[list[str], list[str]],
    folder: Path,
    precision: Precision = "float32",
) -> None:
    """Write model.bin, config.json and the vocabularies, source and target, into an empty folder."""
    refuse_others(model.config)
    config, spec = model.config, spec_of(model.config)
    weights = {**model.state_dict(), **dict(model.named_buffers())}
    zeros = torch.zeros(config.d_model)
    for place in places(config):
        scope, _, name = place.theirs.rpartition("/")
        weight = weights.get(place.ours, zeros)[place.rows].float().cpu().numpy()
        # A copy: CTranslate2 rounds weights in place.
        setattr(specs().model_spec.index_spec(spec, scope), name, weight.copy())
    describe(spec, config, *tokens)
    spec.validate()
    spec.optimize(precision)
    spec.save(str(folder))


def refuse_others(config: ModelConfig) -> None:
    """Refuse by name what CTranslate2 cannot express."""
    found = {
        f'model.architecture = "{config.architecture}"': config.architecture != "transformer",
        f'model.family = "{config.family}"': not config.writes,
        f"model.n_token_types = {config.n_token_types}": config.n_token_types,
    }
    if names := [name for name, holds in found.items() if holds]:
        raise ExchangeError(
            f"CTranslate2 cannot express {' and '.join(names)}.",
            "Export it to another format: clearhead export RUN --to onnx --into FOLDER",
        )


def spec_of(config: ModelConfig) -> Any:
    """A model of this shape that has no weights yet."""
    shape = {
        "pre_norm": config.norm == "pre",
        "activation": ACTIVATIONS.index(config.activation),
        "layernorm_embedding": config.embedding_norm,
    }
    if config.reads:
        n_layers = config.n_encoder_layers, config.n_decoder_layers
        spec = specs().TransformerSpec.from_config(n_layers, config.n_heads, **shape)
        spec.encoder.scale_embeddings = config.scale_embeddings
    else:
        spec = specs().TransformerDecoderModelSpec.from_config(
            config.n_decoder_layers, config.n_heads, **shape
        )
    spec.decoder.scale_embeddings = config.scale_embeddings
    return spec


def describe(spec: Any, config: ModelConfig, source: list[str], target: list[str]) -> None:
    """What surrounds the weights: the vocabularies and the special tokens."""
    spec.config.unk_token, spec.config.eos_token = target[UNKNOWN], target[END]
    spec.config.bos_token = target[START]
    spec.config.layer_norm_epsilon = config.norm_eps
    if config.reads:
        spec.config.decoder_start_token = target[START]
        spec.config.add_source_eos = config.source_end
        spec.register_source_vocabulary(source)
        spec.register_target_vocabulary(target)
    else:
        spec.register_vocabulary(target)


def tokens_of(tokenizer: Tokenizer) -> list[str]:
    """The tokens by their ids, as they are spelled where they were learned."""
    return [token.removeprefix(ABSENT) for token in tokenizer.vocabulary.tokens]
