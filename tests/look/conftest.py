"""Small models, and looks at them."""

import pytest
import torch
from looks import RECURRENT, SHAPES, SMALL, look_at

from clearhead.config import ModelConfig
from clearhead.model import build as built


@pytest.fixture(scope="session")
def build():
    """Makes a small model; biases and norms are moved from 0 and 1, where a mistake would not show."""

    def make(seed=0, **changes):
        torch.manual_seed(seed)
        model = built(ModelConfig(**{**SMALL, **changes})).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight += 0.1 * torch.randn_like(weight)
            for name in ("rarity", "weight", "bias") if model.config.n_grams else ():
                model.ngrams.get_buffer(name)[:9].normal_().abs_()
                model.ngrams.pieces.random_(10)
        return model

    return make


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def look(request, build):
    return look_at(build(**request.param))


@pytest.fixture(params=RECURRENT.values(), ids=RECURRENT)
def recurrent(request, build):
    return look_at(build(**request.param))
