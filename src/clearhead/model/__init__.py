"""ids → logits: the Transformer itself. It knows no vocabulary, no loss and no file.

Read `attention.py`, `block.py`, `stack.py`, `transformer.py` in this order: the paper's figure, from the inside out.
"""

from clearhead.model.cache import NO_CACHE, Cache, NoCache
from clearhead.model.step import Step
from clearhead.model.tap import SILENT, Edit, Tap, Trace
from clearhead.model.transformer import Transformer

__all__ = ["NO_CACHE", "SILENT", "Cache", "Edit", "NoCache", "Step", "Tap", "Trace", "Transformer"]
