"""Runs with random weights that decide clearly: no two tokens are nearly equally likely, and outputs end."""

from pathlib import Path
from typing import Any

import torch

from clearhead.config import Config, DataConfig, DecodeConfig, ModelConfig, TokenizerConfig
from clearhead.folder import RunFolder
from clearhead.model import build
from clearhead.text import END, SPECIALS, Tokenizer

TEXTS = [
    "the cat sees the dog .",
    "ein Hund sieht 12 Katzen !",
    "we eat bread , and they drink water ?",
] * 5
SHAPE = {
    "d_model": 32, "d_ff": 48, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 2, "tie": "none",
    "logit_bias": True,
}  # fmt: skip


def sharp_run(path: Path, task: str = "translation", method: str = "", **shape: Any) -> Path:
    method = method or ("bpe" if task == "translation" else "bytes")
    tokenizer = Tokenizer.learn(TEXTS, TokenizerConfig(method=method, vocab_size=400))
    config = Config(
        task=task,
        model=ModelConfig(**{"vocab_size": tokenizer.vocab_size, **SHAPE, **shape}),
        data=DataConfig(max_length=40),
        decode=DecodeConfig(guard=False),
    )
    torch.manual_seed(1)
    model = build(config.model)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(4)
            else:
                weight.add_(torch.randn_like(weight), alpha=0.1)
        if config.model.logit_bias:
            model.head.bias[: len(SPECIALS)] = -1e3
            model.head.bias[END] = 6 if config.model.reads else -1e3
    folder = RunFolder.create(path, config, tokenizer)
    folder.write_weights(model.state_dict())
    return path


def random_sources(n: int, n_tokens: int, longest: int = 12) -> list[list[int]]:
    """Sources of ordinary tokens, each with its end."""
    lengths = torch.randint(1, longest, (n,)).tolist()
    return [
        [*torch.randint(len(SPECIALS), n_tokens, (length,)).tolist(), END] for length in lengths
    ]
