"""What happened inside: questions about a finished output, answered by one more, listening pass of the model."""

from clearhead.look.alignment import Alignment, align
from clearhead.look.guesses import Guess
from clearhead.look.labelled import Labelled
from clearhead.look.look import Look, replayed
from clearhead.look.search import Search, search_of
from clearhead.look.tokens import Token, tokens

__all__ = [
    "Alignment",
    "Guess",
    "Labelled",
    "Look",
    "Search",
    "Token",
    "align",
    "replayed",
    "search_of",
    "tokens",
]
