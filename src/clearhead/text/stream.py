"""Text as its tokens arrive."""

import codecs
from collections.abc import Sequence

from clearhead.errors import TextError


class Stream:
    """Gives out text as soon as it is certain: half a character waits for its other half, and for nothing else."""

    def __init__(self, table: Sequence[bytes], spaced: bool) -> None:
        self.table = table
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.at_padding = spaced
        """Whether the space that encoding put before the text is still to come."""

    def push(self, token: int) -> str:
        """The text that this id completes, often one piece of a word, sometimes nothing."""
        return self.unpadded(self.decoder.decode(bytes_of(token, self.table)))

    def end(self) -> str:
        """What is left: a replacement character if the last character never became whole."""
        return self.unpadded(self.decoder.decode(b"", final=True))

    def unpadded(self, text: str) -> str:
        if self.at_padding and text:
            self.at_padding = False
            return text.removeprefix(" ")
        return text


def bytes_of(token: int, table: Sequence[bytes]) -> bytes:
    """What an id stands for; a negative one stands for nothing, whatever Python says."""
    if not 0 <= token < len(table):
        raise TextError(
            f"Id {token} is not in the vocabulary of {len(table)} tokens.",
            "Use the tokenizer of the model that made it.",
        )
    return table[token]
