"""logits → ids: greedy, beam and random search over engines that decode, on ids alone.

Read `sentence.py` and `request.py` for what is asked and answered, `engine.py`, `flat.py`,
`cache.py` and `recurrent.py` for the models and their memory, `choose.py` and `search.py` for how
tokens and outputs are chosen, `threads.py` for how many threads compute, `decoder.py` for the
whole, `backend.py` for decoders by others.
"""

from clearhead.decode.backend import Backend, WithBackend
from clearhead.decode.decoder import alternatives, decode, decode_each, score, stream
from clearhead.decode.engine import Engine
from clearhead.decode.flat import FlatTransformer
from clearhead.decode.request import (
    BLOCKED,
    BeamCandidate,
    BeamRecord,
    Flat,
    Hypothesis,
    Ranking,
    Request,
    checked,
    laid_out,
)
from clearhead.decode.search import ALONE, PACED, Alone, Best, Drawn, Greedy, Search, Searching
from clearhead.decode.sentence import Sentence, Term

__all__ = [
    "ALONE", "BLOCKED", "PACED", "Alone", "Backend", "BeamCandidate", "BeamRecord", "Best", "Drawn",
    "Engine", "Flat", "FlatTransformer", "Greedy", "Hypothesis", "Ranking", "Request", "Search", "Searching",
    "Sentence", "Term",
    "WithBackend", "alternatives", "checked", "decode", "decode_each", "laid_out", "score", "stream",
]  # fmt: skip
