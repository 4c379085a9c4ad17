"""logits → ids: greedy, beam and random search over a cached decoder, on ids alone.

Read `plan.py` for what is asked, `forward.py` and `tree.py` for the models and their cache, `choice.py`, `rules.py` and
`ranking.py` for how tokens and outputs are chosen, `single.py` and `beam.py` for the searches that put them together.
"""

from clearhead.decode.decoder import decode, decode_each, sentences_of
from clearhead.decode.engine import Engine
from clearhead.decode.flat import FlatTransformer
from clearhead.decode.forced import alternatives, score, stream
from clearhead.decode.hypothesis import Candidate, Hypothesis, Record
from clearhead.decode.plan import Plan, Sentence, Term, laid_out

__all__ = [
    "Candidate",
    "Engine",
    "FlatTransformer",
    "Hypothesis",
    "Plan",
    "Record",
    "Sentence",
    "Term",
    "alternatives",
    "decode",
    "decode_each",
    "laid_out",
    "score",
    "sentences_of",
    "stream",
]
