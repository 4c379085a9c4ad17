"""ids → logits: the Transformer itself. It knows no vocabulary, no loss and no file.

Read `attention.py`, `block.py`, `stack.py`, `transformer.py` in this order: the paper's figure,
from the inside out.
"""

from clearhead.config import ModelConfig
from clearhead.model.tap import SILENT, Edit, Tap, Trace
from clearhead.model.transformer import Transformer

__all__ = ["SILENT", "Edit", "Tap", "Trace", "Transformer", "build"]


def build(config: ModelConfig) -> Transformer:
    """The model that a config describes, with random weights: the one constructor."""
    return Transformer(config)
