"""Where Hugging Face keeps each weight of ours: one table per layout, read in both directions."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
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


class Match(NamedTuple):
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
    names: Mapping[str, str]
    """Our settings by what they are called in a config.json."""
    absent: Given
    """What those are that a config.json need not name."""
    begins: Given = field(default_factory=dict)
    """Settings of ours that a config.json does not have."""
    twins: Mapping[str, str] = field(default_factory=dict)
    """What a config.json says twice; the two of encoder and decoder must be the same."""
    tie: tuple[str, str] = ("", "all")
    """What a config.json calls the tie of its embeddings, and ours where it is off."""
    marks: Given
    """What is the same in every config.json."""
    only: Given = field(default_factory=dict)
    """What a config.json may ask for and a model here cannot have otherwise."""
    rows: Callable[[ModelConfig], Iterator[Match]]
    tied: Mapping[str, str]
    """Names under which a tensor may stand a second time, and that of the first."""
    unused: re.Pattern[str]
    """Names of tensors that take no part in what the model says."""
    fixed: Given
    """Settings of ours that the layout cannot express otherwise."""
    classes: Given = field(default_factory=dict)
    """The same of a classifier."""

    def settings(self, config: Given) -> Given:
        """Settings of a model from those of a config.json."""
        refuse_settings(config, **self.only)
        for one, other in self.twins.items():
            if one.startswith("encoder") and config[one] != config[other]:
                raise ExchangeError(
                    f"config.json: {one} = {config[one]} and {other} = {config[other]} differ; "
                    "here they are one.",
                    "Such a model cannot be brought in.",
                )
        found: Given = {
            ours: config.get(theirs, self.absent[ours]) if ours in self.absent else config[theirs]
            for ours, theirs in self.names.items()
        }
        if "d_ff" in self.absent:
            found["d_ff"] = found["d_ff"] or 4 * found["d_model"]
        found["activation"] = activation(found["activation"])
        if self.tie[0]:
            found["tie"] = "all" if config.get(self.tie[0], True) else self.tie[1]
        return found | self.begins

    def config(self, model: ModelConfig) -> Given:
        """The config.json of a model."""
        found = {theirs: getattr(model, ours) for ours, theirs in self.names.items()}
        found[self.names["activation"]] = THEIRS[model.activation]
        found |= {other: found[one] for one, other in self.twins.items()}
        tied = {self.tie[0]: model.tie not in (self.tie[1], "none")} if self.tie[0] else {}
        return {**self.marks, **found, **tied}


def linear(ours: str, *theirs: str, transposed: bool = False) -> Iterator[Match]:
    yield Match(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), transposed=transposed)
    yield Match(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs))


def embedding(ours: str, theirs: str) -> Match:
    return Match(f"{ours}.weight", (f"{theirs}.weight",), by_token=True)


# BERT


BERT = {
    "tokens": "bert.embeddings.word_embeddings",
    "encoder.positions.table": "bert.embeddings.position_embeddings.weight",
    "encoder.types.weight": "bert.embeddings.token_type_embeddings.weight",
    "encoder.norm_embedding": "bert.embeddings.LayerNorm",
    "encoder.layers": "bert.encoder.layer",
    "self_attention.qkv": "attention.self.query attention.self.key attention.self.value",
    "self_attention.out": "attention.output.dense",
    "norm_self": "attention.output.LayerNorm",
    "feed_forward.inner": "intermediate.dense",
    "feed_forward.out": "output.dense",
    "norm_ff": "output.LayerNorm",
    "classifier.dense": "bert.pooler.dense",
    "classifier.out": "classifier",
    "head.dense": "cls.predictions.transform.dense",
    "head.norm": "cls.predictions.transform.LayerNorm",
    "head.bias": "cls.predictions.bias",
}
DISTILBERT = {
    "tokens": "distilbert.embeddings.word_embeddings",
    "encoder.positions.table": "distilbert.embeddings.position_embeddings.weight",
    "encoder.norm_embedding": "distilbert.embeddings.LayerNorm",
    "encoder.layers": "distilbert.transformer.layer",
    "self_attention.qkv": "attention.q_lin attention.k_lin attention.v_lin",
    "self_attention.out": "attention.out_lin",
    "norm_self": "sa_layer_norm",
    "feed_forward.inner": "ffn.lin1",
    "feed_forward.out": "ffn.lin2",
    "norm_ff": "output_layer_norm",
    "classifier.dense": "pre_classifier",
    "classifier.out": "classifier",
    "head.dense": "vocab_transform",
    "head.norm": "vocab_layer_norm",
    "head.bias": "vocab_projector.bias",
}


def encoder_rows(names: Mapping[str, str], config: ModelConfig) -> Iterator[Match]:
    """All weights of an encoder: those of its layers, of what is before, and of its one head."""
    head = "classifier." if config.n_classes else "" if config.vectors else "head."
    for ours, theirs in names.items():
        if ours == "tokens":
            yield embedding(ours, theirs)
        elif ours.endswith((".table", "types.weight")):
            yield Match(ours, (theirs,))
        elif ours == "head.bias":
            yield from [Match(ours, (theirs,), by_token=True)] * (head == "head.")
        elif ours.startswith(("self_attention", "norm_self", "feed_forward", "norm_ff")):
            for index in range(config.n_encoder_layers):
                layer = f"{names['encoder.layers']}.{index}"
                parts = (f"{layer}.{part}" for part in theirs.split())
                yield from linear(f"encoder.layers.{index}.{ours}", *parts)
        elif ours == "encoder.norm_embedding" or (head and ours.startswith(head)):
            yield from linear(ours, theirs)


DROPOUTS: Given = {"dropout": 0.1, "attention_dropout": 0.1}
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

# GPT-2


def gpt2_rows(config: ModelConfig) -> Iterator[Match]:
    yield embedding("tokens", "transformer.wte")
    yield Match("decoder.positions.table", ("transformer.wpe.weight",))
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


# Marian


def marian_rows(config: ModelConfig) -> Iterator[Match]:
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
    yield Match("head.bias", ("final_logits_bias",), by_token=True)


LAYOUTS = {
    "bert": Layout(
        base="bert",
        heads={
            "BertForMaskedLM": "pretraining",
            "BertForPreTraining": "pretraining",
            "BertForSequenceClassification": "classification",
            "BertModel": "vectors",
        },
        names={
            "d_model": "hidden_size",
            "d_ff": "intermediate_size",
            "n_heads": "num_attention_heads",
            "n_encoder_layers": "num_hidden_layers",
            "max_positions": "max_position_embeddings",
            "n_token_types": "type_vocab_size",
            "norm_eps": "layer_norm_eps",
            "activation": "hidden_act",
            "dropout": "hidden_dropout_prob",
            "attention_dropout": "attention_probs_dropout_prob",
        },
        absent={"n_token_types": 2, "norm_eps": 1e-12, "activation": "gelu", **DROPOUTS},
        begins={"pooling": "first"},
        marks={"model_type": "bert"},
        only={
            "position_embedding_type": "absolute",
            "is_decoder": False,
            "add_cross_attention": False,
        },
        rows=partial(encoder_rows, BERT),
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
        names={
            "d_model": "dim",
            "d_ff": "hidden_dim",
            "n_heads": "n_heads",
            "n_encoder_layers": "n_layers",
            "max_positions": "max_position_embeddings",
            "activation": "activation",
            "dropout": "dropout",
            "attention_dropout": "attention_dropout",
        },
        absent={"activation": "gelu", **DROPOUTS},
        begins={"norm_eps": 1e-12, "pooling": "first", "pooled": "relu"},
        marks={"model_type": "distilbert"},
        rows=partial(encoder_rows, DISTILBERT),
        tied={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
        unused=re.compile(r"vocab_(transform|layer_norm|projector)\..+|.+\.position_ids"),
        fixed={**READS, "n_token_types": 0},
        classes={"pooling": "first", "pooled": "relu"},
    ),
    "gpt2": Layout(
        base="transformer",
        heads={"GPT2LMHeadModel": "writing"},
        names={
            "d_model": "n_embd",
            "d_ff": "n_inner",
            "n_heads": "n_head",
            "n_decoder_layers": "n_layer",
            "max_positions": "n_positions",
            "norm_eps": "layer_norm_epsilon",
            "activation": "activation_function",
            "dropout": "resid_pdrop",
            "attention_dropout": "attn_pdrop",
        },
        absent={
            "d_ff": None,
            "max_positions": 1024,
            "norm_eps": 1e-5,
            "activation": "gelu_new",
            **DROPOUTS,
        },
        twins={"resid_pdrop": "embd_pdrop"},
        tie=("tie_word_embeddings", "none"),
        marks={"model_type": "gpt2"},
        only={
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
            "add_cross_attention": False,
        },
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
        names={
            "d_model": "d_model",
            "d_ff": "encoder_ffn_dim",
            "n_heads": "encoder_attention_heads",
            "n_encoder_layers": "encoder_layers",
            "n_decoder_layers": "decoder_layers",
            "max_positions": "max_position_embeddings",
            "activation": "activation_function",
            "scale_embeddings": "scale_embedding",
            "dropout": "dropout",
            "attention_dropout": "attention_dropout",
        },
        absent={
            "max_positions": 512,
            "activation": "swish",
            "scale_embeddings": False,
            **DROPOUTS,
            "attention_dropout": 0.0,
        },
        twins={
            "encoder_attention_heads": "decoder_attention_heads",
            "encoder_ffn_dim": "decoder_ffn_dim",
        },
        tie=("share_encoder_decoder_embeddings", "output"),
        marks={"model_type": "marian", "is_encoder_decoder": True, "tie_word_embeddings": True},
        only={"normalize_before": False, "normalize_embedding": False, "tie_word_embeddings": True},
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


def refuse_settings(config: Given, **expressed: Any) -> None:
    """Refuse what a config.json asks for and the model here cannot do."""
    for name, only in expressed.items():
        if config.get(name, only) not in (only, None):
            raise ExchangeError(
                f"config.json: {name} = {shown(config[name])} cannot be expressed here, only {only}.",
                "Such a model cannot be brought in.",
            )
