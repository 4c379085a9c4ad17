"""What is decided before the data are seen: by task, size, another run's weights, and a person."""

from clearhead.config import PRESETS, Given, layered, spelled_out

DEFAULTS: dict[str, Given] = {
    "chat": {
        "train": {"label_smoothing": 0.0},
        "decode": {"beam": 1, "temperature": 0.6, "top_p": 0.9, "max_length": 60, "guard": False},
    },
    "classification": {
        "model": {"n_encoder_layers": 2, "dropout": 0.3},
        "tokenizer": {"method": "words"},
        "data": {"batch_tokens": 1_024, "validation_share": 0.1},
        "train": {"optimizer": "adamw", "learning_rate": 1e-3, "word_dropout": 0.1},
    },
    "pretraining": {
        "data": {"max_length": 1_000_000},
    },
    "writing": {
        "tokenizer": {"method": "bytes"},
        # a line of any length is text; windows are cut elsewhere
        "data": {"max_length": 1_000_000},
        "train": {"label_smoothing": 0.0},
        "decode": {"beam": 1, "temperature": 0.8, "min_p": 0.05, "max_length": 200, "guard": False},
    },
}
"""Where a task does better with other settings than those of `config.py`, which suit
translation."""

FINE_TUNING: Given = {"train": {"learning_rate": 1e-3, "muon_learning_rate": 0.005}}
"""Smaller steps, whatever the task, for weights that another run has learned."""


def decide(task: str, given: Given, inherited: Given | None = None) -> Given:
    """All that is decided about a new run of a task; later layers win, and at last what is given.

    `inherited` are the settings that it takes over from a run that it begins with. What is not
    decided is open: the plan may choose it, and else the default in `config.py` holds.
    """
    settings = spelled_out(given)
    size = PRESETS[given["size"]] if "size" in given else {}
    beginnings = () if inherited is None else (inherited, FINE_TUNING)
    return layered(DEFAULTS.get(task, {}), size, *beginnings, settings, {"task": task})
