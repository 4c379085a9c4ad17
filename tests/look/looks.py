"""Looks at small models of every family, whose tokens are named by their numbers."""

from typing import Any

from clearhead.look import Look, replayed, tokens

SMALL: dict[str, Any] = {
    "vocab_size": 23, "d_model": 16, "d_ff": 24, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 2,
    "norm": "post", "init": "xavier",
}  # fmt: skip
SHAPES: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "pre-norm, three matrices": {
        "norm": "pre",
        "tie": "none",
        "source_vocab_size": 19,
        "logit_bias": True,
    },
    "reads": {
        "family": "encoder",
        "n_token_types": 2,
        "embedding_norm": True,
        "activation": "gelu",
    },
    "classifies": {"family": "encoder", "n_classes": 3, "norm": "pre", "positions": "learned"},
    "classifies by the first": {
        "family": "encoder",
        "n_classes": 3,
        "pooling": "first",
        "pooled": "relu",
        "bias": False,
    },
    "classifies beside n-grams": {"family": "encoder", "n_classes": 3, "n_grams": 9},
    "Marian's": {"positions": "halves", "activation": "silu", "logit_bias": True},
    "writes": {"family": "decoder", "norm": "pre", "scale_embeddings": False, "activation": "silu"},
}
RECURRENT: dict[str, dict[str, Any]] = {
    "LSTM": {"architecture": "lstm"},
    "LSTM, additive, input feeding": {
        "architecture": "lstm",
        "attention": "additive",
        "input_feeding": True,
        "bias": False,
    },
    "GRU, additive": {"architecture": "gru", "attention": "additive", "tie": "none"},
    "GRU, input feeding": {"architecture": "gru", "input_feeding": True, "logit_bias": True},
    "LSTM that writes": {"architecture": "lstm", "family": "decoder"},
    "GRU that reads": {"architecture": "gru", "family": "encoder"},
    "GRU that classifies": {"architecture": "gru", "family": "encoder", "n_classes": 3},
}


SPECIAL = ["<pad>", "<s>", "</s>", "<mask>"]


def spell(ids):
    """Every fourth token stands inside a word."""
    return [SPECIAL[n] if n < 4 else f"{'▁' if n % 4 else ''}w{n}" for n in ids]


def look_at(model, source=(5, 9, 8, 3, 7, 2), target=(1, 6, 10, 12, 5), edits=None, **more):
    """A look at given ids."""
    family = model.config.family
    source = source if family != "decoder" else ()
    target = target if family != "encoder" else ()
    both = tokens([*target, 2], spell, 4) if target else ()
    classes = tuple(f"class {n}" for n in range(model.config.n_classes))
    return Look(
        model=model,
        task="test",
        input="in",
        output="out",
        source=tokens(list(source), spell, 4),
        target=both[:-1],
        predicted=both[1:],
        seen=replayed(model, source, target, edits),
        spell=spell,
        classes=classes,
        **more,
    )
