"""Runs with random weights: what they say is nonsense, and every law of using them holds all the same."""

from pathlib import Path
from typing import Any

import torch

from clearhead.config import Config, TokenizerConfig
from clearhead.folder import RunFolder
from clearhead.model import Transformer
from clearhead.tasks.task import decide
from clearhead.text import Tokenizer

TEXTS = [
    "the cat sees the dog .",
    "ein Hund sieht 12 Katzen !",
    "we eat bread , and they drink water ?",
] * 5


def random_folder(
    path: Path, task: str, family: str, method: str = "bpe", positions: int = 0, **data: Any
) -> Path:
    """A run folder for a task; its output matrix is its own, so that it does not just repeat what it reads."""
    tokenizer = Tokenizer.learn(TEXTS, TokenizerConfig(method=method, vocab_size=300))
    model = {
        "family": family, "vocab_size": tokenizer.vocab_size, "d_model": 16, "d_ff": 16, "n_heads": 2,
        "n_encoder_layers": 1, "n_decoder_layers": 1, "tie": "none",
    }  # fmt: skip
    if positions:
        model |= {"positions": "learned", "max_positions": positions}
    config = Config(**decide(task, {"model": model, "data": data}))
    torch.manual_seed(0)
    folder = RunFolder.create(path, config, tokenizer)
    folder.write_weights(Transformer(config.model).state_dict())
    return path
