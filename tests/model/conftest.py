"""Small models whose every weight matters."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.config import ModelConfig
from clearhead.model import Model
from clearhead.model import build as built

SMALL: dict[str, Any] = {
    "vocab_size": 23, "d_model": 16, "d_ff": 24, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 2,
    "norm": "post", "init": "xavier",
}  # fmt: skip


@pytest.fixture(scope="session")
def build() -> Callable[..., Model]:
    """Makes a small model ready to use; biases and norms are moved from 0 and 1, where a mistake would not show."""

    def make(seed: int = 0, **changes: Any) -> Model:
        torch.manual_seed(seed)
        model = built(ModelConfig(**{**SMALL, **changes})).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight += 0.1 * torch.randn_like(weight)
        return model

    return make


@pytest.fixture(scope="session")
def ids() -> Callable[..., Tensor]:
    """Draws token ids of a shape."""

    def draw(*shape: int, seed: int = 0, n: int = SMALL["vocab_size"]) -> Tensor:
        return torch.randint(n, shape, generator=torch.Generator().manual_seed(seed))

    return draw


@pytest.fixture(scope="session")
def real() -> Callable[..., Tensor]:
    """Tells tokens from padding for sentences of these lengths in one batch."""

    def mark(*lengths: int) -> Tensor:
        return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]

    return mark
