"""Conversations as the two kinds of chatbot read them.

An encoder–decoder learns answers to questions: its examples are the last two turns. A decoder alone learns whole
conversations, in which marks tell who speaks and only what the bot says is judged.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from clearhead.config import Config
from clearhead.data.batches import Batches, ByLength, TextBatch, conversation_batch, pair_batch
from clearhead.data.encoding import Encoding, Rows, conversation_encoding, pair_encoding
from clearhead.data.examples import Conversation, Examples, Pair, conversations
from clearhead.data.order import Ints
from clearhead.data.store import Store
from clearhead.text import USER, Tokenizer

PIECE = 1_024
"""Bytes of a conversation that are learned at a time: about as many tokens as a chatbot reads, and a bit more."""


def read_conversations(*paths: str | Path) -> Examples[Conversation]:
    """The conversations in files; long ones in pieces, each beginning with the user and ending with the bot."""
    found = conversations(*paths)
    return Examples(
        found.sources, lambda: (piece for each in found for piece in pieces(each.turns))
    )


def pieces(turns: Sequence[str]) -> Iterator[Conversation]:
    """Whole exchanges in a row, as many as are short enough together; those with a blank turn end a piece."""
    piece: list[str] = []
    for said, answer in zip(turns[::2], turns[1::2], strict=False):
        blank = not said.strip() or not answer.strip()
        if piece and (blank or sum(len(turn.encode()) for turn in (*piece, said, answer)) > PIECE):
            yield Conversation(tuple(piece))
            piece = []
        piece += [] if blank else [said, answer]
    if piece:
        yield Conversation(tuple(piece))


def chat_encoding(tokenizers: tuple[Tokenizer, Tokenizer], config: Config) -> Encoding:
    """How conversations become ids for a model of this family; those too long lose their oldest turns."""
    if config.model.family == "encoder-decoder":
        pairs = pair_encoding(*tokenizers)
        return Encoding(
            lambda examples: pairs.encode([Pair(*each.turns[-2:]) for each in examples]),
            pairs.vocab_sizes,
            f"last {pairs.fingerprint}",
        )
    longest, plain = config.data.max_length, conversation_encoding(tokenizers[1])

    def encode(examples: list[Conversation]) -> tuple[Rows, ...]:
        ids, counts = plain.encode(examples)
        starts = [oldest_kept(row, longest) for row in ids]
        return tuple(
            [row[start:] for row, start in zip(rows, starts, strict=True)] for rows in (ids, counts)
        )

    return Encoding(encode, plain.vocab_sizes, f"{plain.fingerprint} {longest}")


def oldest_kept(ids: list[int], longest: int) -> int:
    """Where the first turn of the user stands from which on the conversation is short enough, if there is one."""
    if len(ids) <= longest:
        return 0
    return next((i for i, token in enumerate(ids) if token == USER and len(ids) - i <= longest), 0)


def chat_batches(store: Store, config: Config) -> Batches[TextBatch]:
    made: Callable[[Store, Ints], TextBatch] = (
        pair_batch if config.model.family == "encoder-decoder" else conversation_batch
    )
    return ByLength(store, made, config.data.batch_tokens, config.train.seed)
