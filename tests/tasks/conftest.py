"""A translator whose weights are random: what it says is nonsense, and every law of using it holds all the same."""

from pathlib import Path

import pytest
import torch

from clearhead import Translator
from clearhead.config import Config, DataConfig, DecodeConfig, ModelConfig, TokenizerConfig
from clearhead.folder import RunFolder
from clearhead.model import Transformer
from clearhead.text import Tokenizer

TEXTS = [
    "the cat sees the dog .",
    "ein Hund sieht 12 Katzen !",
    "we eat bread , and they drink water ?",
] * 5


def random_run(path: Path, seed: int = 0) -> Path:
    """A run folder with random weights, sharpened so that no two outputs are equally good."""
    tokenizer = Tokenizer.learn(TEXTS, TokenizerConfig(vocab_size=400))
    config = Config(
        model=ModelConfig(
            vocab_size=tokenizer.vocab_size,
            d_model=16,
            d_ff=16,
            n_heads=2,
            n_encoder_layers=1,
            n_decoder_layers=2,
        ),
        data=DataConfig(max_length=40),
        decode=DecodeConfig(beam=2, max_extra=5, guard=False),
    )
    torch.manual_seed(seed)
    model = Transformer(config.model)
    with torch.no_grad():
        model.tokens.weight *= 3
    folder = RunFolder.create(path, config, tokenizer)
    folder.write_weights(model.state_dict())
    return path


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_run(tmp_path_factory.mktemp("runs") / "random")


@pytest.fixture(scope="session")
def translator(run: Path) -> Translator:
    return Translator.load(run)
