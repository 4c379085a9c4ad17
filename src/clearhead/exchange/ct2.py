"""A run as a CTranslate2 model: the same weights under its names, in the precision asked for."""

from pathlib import Path
from typing import Any, Literal, get_args

import torch

from clearhead.config import ModelConfig
from clearhead.errors import ConfigError, ModelError
from clearhead.exchange.layout import ACTIVATIONS, places
from clearhead.model import Transformer
from clearhead.text import END, START, UNKNOWN, Tokenizer

Precision = Literal["float32", "float16", "int16", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


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
    model: Transformer,
    tokenizers: tuple[Tokenizer, Tokenizer],
    folder: Path,
    precision: Precision = "float32",
) -> None:
    """Write model.bin, config.json and the vocabularies into an empty folder."""
    refuse_others(model)
    config, spec = model.config, spec_of(model.config)
    weights = {**model.state_dict(), **dict(model.named_buffers())}
    zeros = torch.zeros(config.d_model)
    for place in places(config):
        scope, _, name = place.theirs.rpartition("/")
        weight = weights.get(place.ours, zeros)[place.rows]
        setattr(specs().model_spec.index_spec(spec, scope), name, weight.float().cpu().numpy())
    describe(spec, config, *map(tokens_of, tokenizers))
    spec.validate()
    spec.optimize(precision)
    spec.save(str(folder))


def refuse_others(model: Transformer) -> None:
    """Refuse by name what CTranslate2 cannot express."""
    config = model.config
    found = {
        f'model.family = "{config.family}"': not config.writes,
        f"model.n_token_types = {config.n_token_types}": config.n_token_types,
    }
    if names := [name for name, holds in found.items() if holds]:
        raise ModelError(
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
        spec.config.add_source_eos = True
        spec.register_source_vocabulary(source)
        spec.register_target_vocabulary(target)
    else:
        spec.register_vocabulary(target)


def tokens_of(tokenizer: Tokenizer) -> list[str]:
    """The tokens by their ids, as `tokenizer.json` spells them."""
    return tokenizer.vocabulary.tokens
