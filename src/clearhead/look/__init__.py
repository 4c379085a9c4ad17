"""What happened inside: questions about a finished output, answered by one more pass of the model.

Read `replay.py` for the tensors and the output, `look.py` for the questions, `export.py`, `html.py`
and page/ for what is shown of them.
"""

from clearhead.look.labelled import Heatmap, LabelledTensor, replayed
from clearhead.look.look import Look
from clearhead.look.replay import Guess
from clearhead.look.search import SearchTree, search_tree
from clearhead.look.words import Alignment, Token, align, tokens

__all__ = [
    "Alignment",
    "Guess",
    "Heatmap",
    "LabelledTensor",
    "Look",
    "SearchTree",
    "Token",
    "align",
    "replayed",
    "search_tree",
    "tokens",
]
