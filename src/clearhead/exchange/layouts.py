"""Where other formats keep each weight of ours: tables, for reading and for writing.

A layout is how Hugging Face stores one family of models: its names of settings and of tensors.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from clearhead.config import Given, ModelConfig
from clearhead.errors import ExchangeError, shown
from clearhead.exchange.foreign import BY_TOKEN, Lexicon
from clearhead.folder.run import Undrawn
from clearhead.model import build

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
BIAS, LOGITS_BIAS = "head.bias", "final_logits_bias"
"""The bias of the output here, and in Marian, where it is a row of a matrix."""
IN_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Where another format keeps each weight of ours."""

    weights: Mapping[str, str]
    """Outside of layers: a weight, or a module with a weight and a bias, by our name; and its name
    there, or the names of several tensors, which hold it one below the other."""
    layer: str
    """What the names in a layer of a stack begin with; its last character stands before "weight"."""
    parts: Mapping[str, str]
    """The same as `weights`, inside each layer."""

    def theirs(self, ours: str) -> list[str]:
        """The tensors that hold a weight of ours; none, if there is no place for it."""
        before, names, rest = "", self.weights, ours
        if in_layer := IN_LAYER.fullmatch(ours):
            stack, index, rest = in_layer.groups()
            before, names = self.layer.format(stack=stack, index=index), self.parts
        if rest in names:
            return [before + names[rest]]
        part, _, kind = rest.rpartition(".")
        return [f"{before}{name}{self.layer[-1]}{kind}" for name in names.get(part, "").split()]


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
    table: Table
    separate: Table | None = None
    """The same, where source and target have a matrix of token vectors each."""
    is_transposed: bool = False
    """The matrices in layers are kept transposed."""
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
        for name, only in self.only.items():
            if config.get(name, only) not in (only, None):
                raise ExchangeError(
                    f"config.json: {name} = {shown(config[name])} cannot be expressed here, "
                    f"only {only}.",
                    "Such a model cannot be brought in.",
                )
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
        if found["activation"] not in ACTIVATIONS:
            raise ExchangeError(
                f"config.json: the non-linearity {shown(found['activation'])} is not known here.",
                f"There are: {', '.join(ACTIVATIONS)}.",
            )
        found["activation"] = ACTIVATIONS[found["activation"]]
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


class Conversion:
    """The weights of a model there and here, by the table of their layout."""

    def __init__(self, layout: Layout, model: ModelConfig, lexicon: Lexicon) -> None:
        self.layout, self.lexicon, self.ours = layout, lexicon, shapes_of(model)
        is_separate = "source_tokens.weight" in self.ours
        table = (layout.separate if is_separate else None) or layout.table
        self.table = {ours: names for ours in self.ours if (names := table.theirs(ours))}
        """Our weights by name, and the tensors there that hold each."""
        self.theirs: dict[str, tuple[int, ...]] = {}
        """The shapes that their tensors must have."""
        for ours, names in self.table.items():
            shape = self.part_shape(ours, len(names))
            self.theirs |= {name: (1, *shape) if name == LOGITS_BIAS else shape for name in names}

    def part_shape(self, ours: str, n_parts: int) -> tuple[int, ...]:
        """The shape of each tensor of theirs that one of our weights is made of."""
        n_rows, *rest = self.ours[ours]
        n_rows = self.lexicon.order_of(ours).n_theirs if ours in BY_TOKEN else n_rows
        shape = n_rows // n_parts, *rest
        return shape[::-1] if self.is_transposed(ours) else shape

    def is_transposed(self, ours: str) -> bool:
        return self.layout.is_transposed and ".layers." in ours and len(self.ours[ours]) == 2

    @property
    def adds_bias(self) -> bool:
        """Whether a bias that the layout has not keeps the new special tokens from being said."""
        return BIAS in self.ours and BIAS not in self.table

    def taken(self, theirs: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Our weights, made of theirs."""
        for ours, names in self.table.items():
            parts = [theirs[name].float() for name in names]
            whole = torch.cat([part.mT if self.is_transposed(ours) else part for part in parts])
            if ours in BY_TOKEN:
                flat = whole.reshape(-1, *self.ours[ours][1:])  # a bias may be a row of a matrix
                whole = self.lexicon.order_of(ours).rows(flat)
            yield ours, whole.contiguous()
        if self.adds_bias:
            order = self.lexicon.order_of(BIAS)
            yield BIAS, order.rows(torch.zeros(order.n_theirs))

    def given(self, ours: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Their weights, made of ours."""
        for name, names in self.table.items():
            order, whole = self.lexicon.order_of(name), ours[name]
            whole = order.given_back(whole) if name in BY_TOKEN else whole
            for other, part in zip(names, whole.chunk(len(names)), strict=True):
                turned = part.mT if self.is_transposed(name) else part
                yield other, turned.reshape(self.theirs[other]).contiguous()
        if self.adds_bias and self.lexicon.order_of(BIAS).given_back(ours[BIAS]).any():
            raise ExchangeError(
                f"{BIAS} was learned, and the layout has no output bias.",
                "Train without one: --set model.logit_bias=false",
            )


def shapes_of(model: ModelConfig) -> dict[str, tuple[int, ...]]:
    """The shapes of a model's weights, without making any."""
    with torch.device("meta"), Undrawn():
        return {name: tuple(weight.shape) for name, weight in build(model).state_dict().items()}


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

MARIAN = Table(
    weights={"tokens": "model.shared", "head.bias": "final_logits_bias"},
    layer="model.{stack}.layers.{index}.",
    parts={
        "self_attention.qkv": "self_attn.q_proj self_attn.k_proj self_attn.v_proj",
        "self_attention.out": "self_attn.out_proj",
        "norm_self": "self_attn_layer_norm",
        "cross_attention.qkv": "encoder_attn.q_proj encoder_attn.k_proj encoder_attn.v_proj",
        "cross_attention.out": "encoder_attn.out_proj",
        "norm_cross": "encoder_attn_layer_norm",
        "feed_forward.inner": "fc1",
        "feed_forward.out": "fc2",
        "norm_ff": "final_layer_norm",
    },
)
SEPARATE = {
    "tokens": "model.decoder.embed_tokens",
    "source_tokens": "model.encoder.embed_tokens",
    "head.bias": "final_logits_bias",
}
"""Where Marian keeps the weights outside of layers, if source and target have a vocabulary each."""

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
        table=Table(
            weights={
                "tokens": "bert.embeddings.word_embeddings",
                "encoder.positions.table": "bert.embeddings.position_embeddings.weight",
                "encoder.types": "bert.embeddings.token_type_embeddings",
                "encoder.norm_embedding": "bert.embeddings.LayerNorm",
                "classifier.dense": "bert.pooler.dense",
                "classifier.out": "classifier",
                "head.dense": "cls.predictions.transform.dense",
                "head.norm": "cls.predictions.transform.LayerNorm",
                "head.bias": "cls.predictions.bias",
            },
            layer="bert.encoder.layer.{index}.",
            parts={
                "self_attention.qkv": "attention.self.query attention.self.key attention.self.value",
                "self_attention.out": "attention.output.dense",
                "norm_self": "attention.output.LayerNorm",
                "feed_forward.inner": "intermediate.dense",
                "feed_forward.out": "output.dense",
                "norm_ff": "output.LayerNorm",
            },
        ),
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
        table=Table(
            weights={
                "tokens": "distilbert.embeddings.word_embeddings",
                "encoder.positions.table": "distilbert.embeddings.position_embeddings.weight",
                "encoder.norm_embedding": "distilbert.embeddings.LayerNorm",
                "classifier.dense": "pre_classifier",
                "classifier.out": "classifier",
                "head.dense": "vocab_transform",
                "head.norm": "vocab_layer_norm",
                "head.bias": "vocab_projector.bias",
            },
            layer="distilbert.transformer.layer.{index}.",
            parts={
                "self_attention.qkv": "attention.q_lin attention.k_lin attention.v_lin",
                "self_attention.out": "attention.out_lin",
                "norm_self": "sa_layer_norm",
                "feed_forward.inner": "ffn.lin1",
                "feed_forward.out": "ffn.lin2",
                "norm_ff": "output_layer_norm",
            },
        ),
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
        table=Table(
            weights={
                "tokens": "transformer.wte",
                "decoder.positions.table": "transformer.wpe.weight",
                "decoder.norm": "transformer.ln_f",
                "head.tokens": "lm_head",
            },
            layer="transformer.h.{index}.",
            parts={
                "norm_self": "ln_1",
                "self_attention.qkv": "attn.c_attn",
                "self_attention.out": "attn.c_proj",
                "norm_ff": "ln_2",
                "feed_forward.inner": "mlp.c_fc",
                "feed_forward.out": "mlp.c_proj",
            },
        ),
        is_transposed=True,
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
        table=MARIAN,
        separate=replace(MARIAN, weights=SEPARATE),
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
