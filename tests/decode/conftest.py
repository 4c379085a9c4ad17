"""Small models that are sure of what they say, so that no two outputs score the same."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from clearhead.config import DecodeConfig, ModelConfig
from clearhead.model import Model
from clearhead.model import build as built

SMALL: dict[str, Any] = {
    "vocab_size": 11, "d_model": 16, "d_ff": 24, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 2,
    "norm": "post", "init": "xavier",
}  # fmt: skip


@pytest.fixture(scope="session")
def build() -> Callable[..., Model]:
    """Makes a small model; the same arguments give the same one."""

    @cache
    def make(seed: int = 0, **changes: Any) -> Model:
        torch.manual_seed(seed)
        model = built(ModelConfig(**{**SMALL, **changes})).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight += 0.3 * torch.randn_like(weight)
            model.tokens.weight *= 1.5
        return model

    return make


@pytest.fixture(scope="session")
def options() -> Callable[..., DecodeConfig]:
    """Options for short outputs that nobody guards."""

    def make(**changes: Any) -> DecodeConfig:
        return DecodeConfig(**{"max_length": 6, "guard": False, **changes})

    return make
