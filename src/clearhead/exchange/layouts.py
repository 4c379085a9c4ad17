"""Where Hugging Face keeps each weight of ours: one table per layout, read in both directions."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from clearhead.config import Given, ModelConfig
from clearhead.errors import ExchangeError, shown

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
"""The names of non-linearities there, and ours; the first of several is the one that we write."""
THEIRS = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}


class Row(NamedTuple):
    """One of our weights and those of theirs that it is made of, one below the other."""

    ours: str
    theirs: tuple[str, ...]
    by_token: bool = False
    """Its rows are tokens, whose order differs."""
    transposed: bool = False


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How one family of models is stored."""

    base: str
    """What names begin with, unless the model has no head."""
    heads: Mapping[str, str]
    """The class of a model, and what it is for here: a task, or "vectors"."""
    settings: Callable[[Given], Given]
    """Settings of a model from those of a config.json."""
    config: Callable[[ModelConfig], Given]
    """The config.json of a model."""
    rows: Callable[[ModelConfig], Iterator[Row]]
    tied: Mapping[str, str]
    """Names under which a tensor may stand a second time, and that of the first."""
    unused: re.Pattern[str]
    """Names of tensors that take no part in what the model says."""
    fixed: Given
    """Settings of ours that the layout cannot express otherwise."""
    classes: Given = field(default_factory=dict)
    """The same of a classifier."""


def linear(ours: str, *theirs: str, transposed: bool = False) -> Iterator[Row]:
    yield Row(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), transposed=transposed)
    yield Row(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs))


def embedding(ours: str, theirs: str) -> Row:
    return Row(f"{ours}.weight", (f"{theirs}.weight",), by_token=True)


def table(ours: str, theirs: str) -> Row:
    return Row(ours, (f"{theirs}.weight",))


# BERT


def bert_rows(config: ModelConfig) -> Iterator[Row]:
    yield embedding("tokens", "bert.embeddings.word_embeddings")
    yield table("encoder.positions.table", "bert.embeddings.position_embeddings")
    yield table("encoder.types.weight", "bert.embeddings.token_type_embeddings")
    yield from linear("encoder.norm_embedding", "bert.embeddings.LayerNorm")
    for index in range(config.n_encoder_layers):
        ours, theirs = f"encoder.layers.{index}", f"bert.encoder.layer.{index}"
        own = (f"{theirs}.attention.self.{name}" for name in ("query", "key", "value"))
        yield from linear(f"{ours}.self_attention.qkv", *own)
        yield from linear(f"{ours}.self_attention.out", f"{theirs}.attention.output.dense")
        yield from linear(f"{ours}.norm_self", f"{theirs}.attention.output.LayerNorm")
        yield from linear(f"{ours}.feed_forward.inner", f"{theirs}.intermediate.dense")
        yield from linear(f"{ours}.feed_forward.out", f"{theirs}.output.dense")
        yield from linear(f"{ours}.norm_ff", f"{theirs}.output.LayerNorm")
    if config.n_classes:
        yield from linear("classifier.dense", "bert.pooler.dense")
        yield from linear("classifier.out", "classifier")
    elif not config.vectors:
        yield from linear("head.dense", "cls.predictions.transform.dense")
        yield from linear("head.norm", "cls.predictions.transform.LayerNorm")
        yield Row("head.bias", ("cls.predictions.bias",), by_token=True)


def bert_settings(config: Given) -> Given:
    refuse(config, position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    return {
        "d_model": config["hidden_size"],
        "d_ff": config["intermediate_size"],
        "n_heads": config["num_attention_heads"],
        "n_encoder_layers": config["num_hidden_layers"],
        "max_positions": config["max_position_embeddings"],
        "n_token_types": config.get("type_vocab_size", 2),
        "norm_eps": config.get("layer_norm_eps", 1e-12),
        "activation": activation(config.get("hidden_act", "gelu")),
        "dropout": config.get("hidden_dropout_prob", 0.1),
        "attention_dropout": config.get("attention_probs_dropout_prob", 0.1),
        "pooling": "first",
    }


def bert_config(model: ModelConfig) -> Given:
    return {
        "model_type": "bert",
        "hidden_size": model.d_model,
        "intermediate_size": model.d_ff,
        "num_attention_heads": model.n_heads,
        "num_hidden_layers": model.n_encoder_layers,
        "max_position_embeddings": model.max_positions,
        "type_vocab_size": model.n_token_types,
        "layer_norm_eps": model.norm_eps,
        "hidden_act": THEIRS[model.activation],
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": model.attention_dropout,
    }


READS: Given = {
    "architecture": "transformer",
    "family": "encoder",
    "norm": "post",
    "positions": "learned",
    "scale_embeddings": False,
    "embedding_norm": True,
    "bias": True,
    "logit_bias": True,
    "tie": "all",
}
"""What all encoders of the family of BERT have."""

# DistilBERT


def distilbert_rows(config: ModelConfig) -> Iterator[Row]:
    yield embedding("tokens", "distilbert.embeddings.word_embeddings")
    yield table("encoder.positions.table", "distilbert.embeddings.position_embeddings")
    yield from linear("encoder.norm_embedding", "distilbert.embeddings.LayerNorm")
    for index in range(config.n_encoder_layers):
        ours, theirs = f"encoder.layers.{index}", f"distilbert.transformer.layer.{index}"
        own = (f"{theirs}.attention.{name}" for name in ("q_lin", "k_lin", "v_lin"))
        yield from linear(f"{ours}.self_attention.qkv", *own)
        yield from linear(f"{ours}.self_attention.out", f"{theirs}.attention.out_lin")
        yield from linear(f"{ours}.norm_self", f"{theirs}.sa_layer_norm")
        yield from linear(f"{ours}.feed_forward.inner", f"{theirs}.ffn.lin1")
        yield from linear(f"{ours}.feed_forward.out", f"{theirs}.ffn.lin2")
        yield from linear(f"{ours}.norm_ff", f"{theirs}.output_layer_norm")
    if config.n_classes:
        yield from linear("classifier.dense", "pre_classifier")
        yield from linear("classifier.out", "classifier")
    elif not config.vectors:
        yield from linear("head.dense", "vocab_transform")
        yield from linear("head.norm", "vocab_layer_norm")
        yield Row("head.bias", ("vocab_projector.bias",), by_token=True)


def distilbert_settings(config: Given) -> Given:
    return {
        "d_model": config["dim"],
        "d_ff": config["hidden_dim"],
        "n_heads": config["n_heads"],
        "n_encoder_layers": config["n_layers"],
        "max_positions": config["max_position_embeddings"],
        "norm_eps": 1e-12,
        "activation": activation(config.get("activation", "gelu")),
        "dropout": config.get("dropout", 0.1),
        "attention_dropout": config.get("attention_dropout", 0.1),
        "pooling": "first",
        "pooled": "relu",
    }


def distilbert_config(model: ModelConfig) -> Given:
    return {
        "model_type": "distilbert",
        "dim": model.d_model,
        "hidden_dim": model.d_ff,
        "n_heads": model.n_heads,
        "n_layers": model.n_encoder_layers,
        "max_position_embeddings": model.max_positions,
        "activation": THEIRS[model.activation],
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
    }


# GPT-2


def gpt2_rows(config: ModelConfig) -> Iterator[Row]:
    yield embedding("tokens", "transformer.wte")
    yield table("decoder.positions.table", "transformer.wpe")
    for index in range(config.n_decoder_layers):
        ours, theirs = f"decoder.layers.{index}", f"transformer.h.{index}"
        yield from linear(f"{ours}.norm_self", f"{theirs}.ln_1")
        for mine, other in (
            ("self_attention.qkv", "attn.c_attn"),
            ("self_attention.out", "attn.c_proj"),
            ("feed_forward.inner", "mlp.c_fc"),
            ("feed_forward.out", "mlp.c_proj"),
        ):
            yield from linear(f"{ours}.{mine}", f"{theirs}.{other}", transposed=True)
        yield from linear(f"{ours}.norm_ff", f"{theirs}.ln_2")
    yield from linear("decoder.norm", "transformer.ln_f")
    if config.tie == "none":
        yield embedding("head.tokens", "lm_head")


def gpt2_settings(config: Given) -> Given:
    refuse(
        config,
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
    )
    return {
        "d_model": config["n_embd"],
        "d_ff": config.get("n_inner") or 4 * config["n_embd"],
        "n_heads": config["n_head"],
        "n_decoder_layers": config["n_layer"],
        "max_positions": config.get("n_positions", 1024),
        "norm_eps": config.get("layer_norm_epsilon", 1e-5),
        "activation": activation(config.get("activation_function", "gelu_new")),
        "dropout": config.get("resid_pdrop", 0.1),
        "attention_dropout": config.get("attn_pdrop", 0.1),
        "tie": "all" if config.get("tie_word_embeddings", True) else "none",
    }


def gpt2_config(model: ModelConfig) -> Given:
    return {
        "model_type": "gpt2",
        "n_embd": model.d_model,
        "n_inner": model.d_ff,
        "n_head": model.n_heads,
        "n_layer": model.n_decoder_layers,
        "n_positions": model.max_positions,
        "layer_norm_epsilon": model.norm_eps,
        "activation_function": THEIRS[model.activation],
        "resid_pdrop": model.dropout,
        "embd_pdrop": model.dropout,
        "attn_pdrop": model.attention_dropout,
        "tie_word_embeddings": model.tie != "none",
    }


# Marian


def marian_rows(config: ModelConfig) -> Iterator[Row]:
    shared = config.tie == "all"
    yield embedding("tokens", "model.shared" if shared else "model.decoder.embed_tokens")
    if not shared:
        yield embedding("source_tokens", "model.encoder.embed_tokens")
    stacks = ("encoder", config.n_encoder_layers), ("decoder", config.n_decoder_layers)
    for stack, n_layers in stacks:
        for index in range(n_layers):
            ours, theirs = f"{stack}.layers.{index}", f"model.{stack}.layers.{index}"
            attentions = [("self_attention", "self_attn", "norm_self")]
            if stack == "decoder":
                attentions.append(("cross_attention", "encoder_attn", "norm_cross"))
            for mine, other, norm in attentions:
                parts = (f"{theirs}.{other}.{name}_proj" for name in "qkv")
                yield from linear(f"{ours}.{mine}.qkv", *parts)
                yield from linear(f"{ours}.{mine}.out", f"{theirs}.{other}.out_proj")
                yield from linear(f"{ours}.{norm}", f"{theirs}.{other}_layer_norm")
            yield from linear(f"{ours}.feed_forward.inner", f"{theirs}.fc1")
            yield from linear(f"{ours}.feed_forward.out", f"{theirs}.fc2")
            yield from linear(f"{ours}.norm_ff", f"{theirs}.final_layer_norm")
    yield Row("head.bias", ("final_logits_bias",), by_token=True)


def marian_settings(config: Given) -> Given:
    refuse(config, normalize_before=False, normalize_embedding=False, tie_word_embeddings=True)
    for name in ("attention_heads", "ffn_dim"):
        both = config[f"encoder_{name}"], config[f"decoder_{name}"]
        if both[0] != both[1]:
            raise ExchangeError(
                f"config.json: encoder_{name} = {both[0]} and decoder_{name} = {both[1]} differ; "
                "here they are one.",
                "Such a model cannot be brought in.",
            )
    return {
        "d_model": config["d_model"],
        "d_ff": config["encoder_ffn_dim"],
        "n_heads": config["encoder_attention_heads"],
        "n_encoder_layers": config["encoder_layers"],
        "n_decoder_layers": config["decoder_layers"],
        "max_positions": config.get("max_position_embeddings", 512),
        "activation": activation(config.get("activation_function", "swish")),
        "scale_embeddings": config.get("scale_embedding", False),
        "dropout": config.get("dropout", 0.1),
        "attention_dropout": config.get("attention_dropout", 0.0),
        "tie": "all" if config.get("share_encoder_decoder_embeddings", True) else "output",
    }


def marian_config(model: ModelConfig) -> Given:
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("attention_heads", model.n_heads), ("ffn_dim", model.d_ff))
    }
    return {
        "model_type": "marian",
        "is_encoder_decoder": True,
        "d_model": model.d_model,
        **sides,
        "encoder_layers": model.n_encoder_layers,
        "decoder_layers": model.n_decoder_layers,
        "max_position_embeddings": model.max_positions,
        "activation_function": THEIRS[model.activation],
        "scale_embedding": model.scale_embeddings,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "share_encoder_decoder_embeddings": model.tie == "all",
        "tie_word_embeddings": True,
    }


LAYOUTS = {
    "bert": Layout(
        base="bert",
        heads={
            "BertForMaskedLM": "pretraining",
            "BertForPreTraining": "pretraining",
            "BertForSequenceClassification": "classification",
            "BertModel": "vectors",
        },
        settings=bert_settings,
        config=bert_config,
        rows=bert_rows,
        tied={
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
        unused=re.compile(
            r"bert\.pooler\..+|cls\.(seq_relationship|predictions)\..+|.+\.position_ids"
        ),
        fixed=READS,
        classes={"pooling": "first", "pooled": "tanh"},
    ),
    "distilbert": Layout(
        base="distilbert",
        heads={
            "DistilBertForMaskedLM": "pretraining",
            "DistilBertForSequenceClassification": "classification",
            "DistilBertModel": "vectors",
        },
        settings=distilbert_settings,
        config=distilbert_config,
        rows=distilbert_rows,
        tied={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
        unused=re.compile(r"vocab_(transform|layer_norm|projector)\..+|.+\.position_ids"),
        fixed={**READS, "n_token_types": 0},
        classes={"pooling": "first", "pooled": "relu"},
    ),
    "gpt2": Layout(
        base="transformer",
        heads={"GPT2LMHeadModel": "writing"},
        settings=gpt2_settings,
        config=gpt2_config,
        rows=gpt2_rows,
        tied={"lm_head.weight": "transformer.wte.weight"},
        unused=re.compile(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)"),
        fixed={
            "architecture": "transformer",
            "family": "decoder",
            "norm": "pre",
            "positions": "learned",
            "scale_embeddings": False,
            "embedding_norm": False,
            "n_token_types": 0,
            "bias": True,
            "logit_bias": True,
        },
    ),
    "marian": Layout(
        base="model",
        heads={"MarianMTModel": "translation"},
        settings=marian_settings,
        config=marian_config,
        rows=marian_rows,
        tied={
            "lm_head.weight": "model.shared.weight",
            "model.encoder.embed_tokens.weight": "model.shared.weight",
            "model.decoder.embed_tokens.weight": "model.shared.weight",
        },
        unused=re.compile(r"model\.(encoder|decoder)\.embed_positions\.weight"),
        fixed={
            "architecture": "transformer",
            "family": "encoder-decoder",
            "norm": "post",
            "norm_eps": 1e-5,
            "positions": "halves",
            "source_end": True,
            "embedding_norm": False,
            "n_token_types": 0,
            "bias": True,
            "logit_bias": True,
        },
    ),
}
"""By the `model_type` of a config.json."""


def activation(name: Any) -> str:
    if name not in ACTIVATIONS:
        raise ExchangeError(
            f"config.json: the non-linearity {shown(name)} is not known here.",
            f"There are: {', '.join(ACTIVATIONS)}.",
        )
    return ACTIVATIONS[name]


def refuse(config: Given, **expressed: Any) -> None:
    """Refuse what a config.json asks for and the model here cannot do."""
    for name, only in expressed.items():
        if config.get(name, only) not in (only, None):
            raise ExchangeError(
                f"config.json: {name} = {shown(config[name])} cannot be expressed here, only {only}.",
                "Such a model cannot be brought in.",
            )
