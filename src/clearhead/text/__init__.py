"""Text in, ids out, and back: the same text, whenever the method knows bytes.

A token is bytes. A table from id to bytes, made once, is all that decoding needs, so a stream of
tokens and a whole sentence cannot come out differently, whatever the method.
"""

from clearhead.text.tokenizer import Tokenizer, fitting_parts
from clearhead.text.vocabulary import BOT, END, MASK, PAD, SPECIALS, START, UNKNOWN, USER

__all__ = [
    "BOT", "END", "MASK", "PAD", "SPECIALS", "START", "UNKNOWN", "USER",
    "Tokenizer", "fitting_parts",
]  # fmt: skip
