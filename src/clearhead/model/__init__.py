"""ids → logits: the Transformer, and the recurrent model with attention that came before it.

They know no vocabulary, no loss and no file. Read `attention.py`, `block.py`, `stack.py`,
`transformer.py` in this order: the paper's figure, from the inside out. `sequence.py` is what all
architectures share, `recurrent.py` the older way.
"""

from clearhead.config import ModelConfig
from clearhead.model.recurrent import Recurrent
from clearhead.model.sequence import Model
from clearhead.model.tap import SILENT, Edit, Tap, Trace
from clearhead.model.transformer import Transformer

__all__ = ["SILENT", "Edit", "Model", "Recurrent", "Tap", "Trace", "Transformer", "build"]

ARCHITECTURES: dict[str, type[Model]] = {
    "transformer": Transformer,
    "lstm": Recurrent,
    "gru": Recurrent,
}


def build(config: ModelConfig) -> Model:
    """The model that a config describes, with random weights: the one constructor."""
    return ARCHITECTURES[config.architecture](config)
