"""Where a task does better with other settings than those of `config.py`, which suit translation."""

from typing import Any

from clearhead.config import Config

DEFAULTS: dict[str, dict[str, dict[str, Any]]] = {
    "chat": {
        "model": {"norm": "pre", "init": "small"},
        "train": {"label_smoothing": 0.0},
        "decode": {"beam": 1, "temperature": 0.6, "top_p": 0.9, "max_length": 60, "guard": False},
    },
    "classification": {
        "model": {"norm": "pre", "init": "small", "n_encoder_layers": 2, "dropout": 0.3},
        "tokenizer": {"method": "words"},
        "data": {"batch_tokens": 1_024, "validation_share": 0.1},
        "train": {"optimizer": "adamw", "learning_rate": 1e-3, "word_dropout": 0.1},
    },
    "pretraining": {
        "model": {"norm": "pre", "init": "small"},
        "data": {"max_length": 1_000_000},
    },
    "writing": {
        "model": {"norm": "pre", "init": "small"},
        "tokenizer": {"method": "bytes"},
        "data": {
            "max_length": 1_000_000
        },  # a line of any length is text; windows are cut elsewhere
        "train": {"label_smoothing": 0.0},
        "decode": {"beam": 1, "temperature": 0.8, "min_p": 0.05, "max_length": 200, "guard": False},
    },
}


FINE_TUNING: dict[str, dict[str, Any]] = {
    "train": {"learning_rate": 1e-3, "muon_learning_rate": 0.005}
}
"""Smaller steps, whatever the task, for weights that another run has learned."""


def with_defaults(config: Config) -> Config:
    """The settings, filled up with the task's own where nobody has said otherwise."""
    for chosen in ([FINE_TUNING] if config.train.start else []) + [DEFAULTS.get(config.task, {})]:
        for section, values in chosen.items():
            given = getattr(config, section)
            config = config.but(
                **{section: given.but(**(values | given.model_dump(exclude_unset=True)))}
            )
    return config
