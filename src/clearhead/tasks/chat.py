"""Chat: something is said, and something is answered.

An encoder–decoder learns answers to questions: its examples are the last two turns. A decoder
alone learns whole conversations: marks tell who speaks, and the loss counts the bot's turns only.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from clearhead.config import Config, DecodeConfig, Given, layered
from clearhead.data.batches import Batches, ByLength, TextBatch, conversation_batch, pair_batch
from clearhead.data.examples import Conversation, Examples, Pair, conversations
from clearhead.data.store import (
    Encoding,
    Rows,
    Store,
    conversation_encoding,
    pair_encoding,
    temporary_store,
)
from clearhead.decode import laid_out, stream
from clearhead.errors import TextError
from clearhead.look import Look
from clearhead.model import Model
from clearhead.tasks.looking import Asked, look_at_writing
from clearhead.tasks.task import (
    DEFAULTS,
    N_SAMPLES,
    Kept,
    Output,
    Perplexity,
    Task,
    User,
    value_of,
)
from clearhead.tasks.translation import source_row
from clearhead.text import USER
from clearhead.training import Judge, Samples, mean_loss, next_token_loss, total_loss

PIECE = 1_024
"""Bytes of the pieces that conversations are learned in: about what a chatbot reads at once."""
LENGTH: int = DEFAULTS["chat"]["decode"]["max_length"]
"""Tokens of the longest reply where the settings name no number."""
SAMPLE_TOKENS = 200
"""Tokens of a reply that is shown at a validation, at most, whatever the settings allow."""
ENOUGH_TO_TELL = 1_000
"""Conversations that are looked at to see whether they are more than questions and answers."""


def read_conversations(*paths: str | Path, columns: Sequence[str] = ()) -> Examples[Conversation]:
    """The conversations in files, in pieces that begin with the user and end with the bot."""
    return conversations(*paths, columns=columns).in_parts(
        lambda conversation: exchanges(conversation.turns)
    )


def exchanges(turns: Sequence[str]) -> Iterator[Conversation]:
    """A conversation in pieces of whole exchanges that are short enough; a blank turn ends one."""
    piece: list[str] = []
    for said, answer in zip(turns[::2], turns[1::2], strict=False):
        blank = not said.strip() or not answer.strip()
        if piece and (blank or sum(len(turn.encode()) for turn in (*piece, said, answer)) > PIECE):
            yield Conversation(tuple(piece))
            piece = []
        piece += [] if blank else [said, answer]
    if piece:
        yield Conversation(tuple(piece))


def oldest_kept(ids: list[int], longest: int) -> int:
    """Where the oldest turn of the user begins that still fits; 0, if none of them does."""
    return next((i for i, token in enumerate(ids) if token == USER and len(ids) - i <= longest), 0)


@dataclass(frozen=True, kw_only=True)
class Reply(Output):
    """What the bot said; `str()` is the reply."""

    said: str
    """What it answers."""
    seed: int = 0


class Chatbot(User):
    """A model that answers, and one conversation with it; `answer` serves any number of others."""

    ability = "chat"
    remedy = "clearhead train FILES --task chat --into RUN"

    def _prepare(self) -> None:
        self.flat = laid_out(self.model)
        self.reads_question = self.config.model.family == "encoder-decoder"
        self.limit = self.limit_of(self.config.data.max_length, n_marks=2)
        self.turns: list[str] = []
        """What was said so far, by the user and the bot in turn."""
        self.n_asked = 0

    @staticmethod
    def suits(config: Config) -> bool:
        return config.task == "chat" and config.model.writes

    def reply(self, text: str, decode: DecodeConfig | None = None, **options: Any) -> Reply:
        """Answer, and remember both.

        Options are the settings of the section `decode`, whole or one by one: temperature (0:
        deterministic), top_k, top_p, min_p, repetition_penalty, max_length, seed … Each reply of a
        conversation is drawn with the next seed, so the same seed and the same words make the same
        conversation.
        """
        return value_of(self.stream(text, decode, **options))

    def stream(
        self, text: str, decode: DecodeConfig | None = None, **options: Any
    ) -> Generator[str, None, Reply]:
        """A reply as a stream of text; one that is broken off is remembered as far as it went."""
        asked = self.asked(decode, options)
        reply = Kept(self.answering([*self.turns, text], asked.but(seed=asked.seed + self.n_asked)))
        self.n_asked += 1
        said: list[str] = []
        try:
            for piece in reply:
                said.append(piece)
                yield piece
            return reply.value
        finally:
            if said:
                self.turns += [text, "".join(said)]

    def retry(self, decode: DecodeConfig | None = None, **options: Any) -> Reply:
        """Answer the last turn again, with the next seed."""
        return self.reply(self.undo(), decode, **options)

    def undo(self) -> str:
        """Take back the last turn and its reply; the answer is what the user had said."""
        if not self.turns:
            raise TextError(
                "There is no reply to take back: nothing was said yet.", "Say something first."
            )
        *self.turns, text, _ = self.turns
        return text

    def reset(self) -> None:
        """Forget everything that was said."""
        self.turns, self.n_asked = [], 0

    def answer(
        self, turns: Sequence[str], decode: DecodeConfig | None = None, **options: Any
    ) -> Reply:
        """The reply to a conversation that ends with the user's turn; nothing is remembered."""
        return value_of(self.answering(turns, decode, **options))

    def answering(
        self, turns: Sequence[str], decode: DecodeConfig | None = None, **options: Any
    ) -> Generator[str, None, Reply]:
        """An answer as a stream of text; the whole reply is the generator's return value."""
        asked = self.asked(decode, options, LENGTH).but(n_best=1)
        ids, notes = self.context(turns, asked)
        text = self.target.stream()
        drawn = Kept(stream(self.flat, ids, asked, searching=self.searching))
        pieces: list[str] = []
        for token in drawn:
            pieces.append(text.push(token))
            yield pieces[-1]
        pieces.append(text.end())
        yield pieces[-1]
        return Reply(
            said=turns[-1],
            text="".join(pieces),
            tokens=tuple(self.target.tokens(drawn.value.ids)),
            ids=drawn.value.ids,
            log_probs=drawn.value.log_probs,
            seed=asked.seed,
            notes=notes,
        )

    def context(
        self, turns: Sequence[str], options: DecodeConfig
    ) -> tuple[list[int], tuple[str, ...]]:
        """The newest turns that the model can read and answer, and notes on what is left out.

        A model that was trained on questions and answers reads the last turn alone.
        """
        for_reply = min(options.max_length or LENGTH, self.limit // 2)
        room = self.limit if self.reads_question else self.limit - for_reply
        kept, notes = list(turns[-1:] if self.reads_question else turns), []
        while len(ids := self.read(kept)) > room and len(kept) > 1:
            del kept[:2]
        if n_left_out := 0 if self.reads_question else len(turns) - len(kept):
            notes.append(
                f"the conversation is long: its first {n_left_out} turns are no longer read"
            )
        if len(ids) > room:
            notes.append(f"the message has {len(ids):,} tokens: only the last {room} are read")
            ids = self.read(kept, room)
        return ids, tuple(notes)

    def read(self, turns: Sequence[str], longest: int | None = None) -> list[int]:
        """The turns as ids, up to where the reply begins; beyond `longest`, the first words go."""
        if self.reads_question:
            ids = source_row(self.source.encode(turns[-1]), self.config.model)
            return ids[-(longest or 0) :]
        rows, _ = conversation_encoding(self.target).encode([Conversation(tuple(turns))])
        user, *words = rows[0]
        words = words if longest is None else words[-max(1, longest - 3) :]
        return [self.target.start, user, *words, self.target.bot]

    def look(
        self,
        text: str,
        target: str | None = None,
        edit: Asked = None,
        before: Sequence[str] = (),
        decode: DecodeConfig | None = None,
        **options: Any,
    ) -> Look:
        """Every number behind the reply to a message, or behind a given one, after earlier turns.

        Nothing of it is remembered.
        """
        asked = self.asked(decode, options, LENGTH).but(beam=1, n_best=1)
        return look_at_writing(
            self.flat,
            self.tokenizers,
            text,
            encode=lambda text: self.context([*before, text], asked)[0],
            options=asked,
            task="chat",
            target=target,
            edit=edit,
        )

    def perplexity(self, conversations: Iterable[Sequence[str]]) -> Perplexity:
        """How surprised the model is by the bot's turns in conversations."""
        examples = [Conversation(tuple(turns)) for turns in conversations]
        task = ChatTask(self.config, self.tokenizers)
        batches = task.batches(temporary_store(examples, task.encoding)[0])
        nats, n_tokens = total_loss(self.model, next_token_loss(), batches.fixed())
        judged = [each.turns[-1:] if self.reads_question else each.turns[1::2] for each in examples]
        return Perplexity(
            nats=nats,
            tokens=n_tokens,
            bytes=sum(len(turn.encode()) + 1 for turns in judged for turn in turns),
        )


class ChatTask(Task):
    """What training has to know about chat, in both of its forms."""

    name = "chat"
    families = ("encoder-decoder", "decoder")
    unit = "conversations"
    enough = 50_000

    read = staticmethod(read_conversations)

    @staticmethod
    def texts(example: Conversation) -> tuple[str, ...]:
        return example.turns

    @classmethod
    def read_text(cls, example: Conversation) -> str:
        return "\n".join(example.turns)

    @classmethod
    def resolve(cls, decided: Given, examples: Iterator[Conversation], /) -> Config:
        """The family, if it is not decided: for pairs of question and answer, both stacks."""
        are_pairs = all(len(each.turns) == 2 for each in islice(examples, ENOUGH_TO_TELL))
        family = "encoder-decoder" if are_pairs else "decoder"
        return Config(**layered({"model": {"family": family}}, decided))

    @property
    def encoding(self) -> Encoding:
        """Pairs are the last two turns; long conversations lose their oldest turns."""
        if self.config.model.reads:
            pairs = pair_encoding(*self.tokenizers)
            return Encoding(
                lambda examples: pairs.encode([Pair(*each.turns[-2:]) for each in examples]),
                pairs.vocab_sizes,
                f"last {pairs.fingerprint}",
            )
        longest, plain = self.config.data.max_length, conversation_encoding(self.tokenizers[1])

        def encode(examples: list[Conversation]) -> tuple[Rows, ...]:
            both = plain.encode(examples)
            starts = [oldest_kept(row, longest) for row in both[0]]
            return tuple(
                [row[start:] for row, start in zip(rows, starts, strict=True)] for rows in both
            )

        return Encoding(encode, plain.vocab_sizes, f"{plain.fingerprint} {longest}")

    def n_predictions(self, store: Store) -> int:
        """The tokens that the bot has to say, and an end for each example."""
        n_tokens = store.n_tokens[1] if self.config.model.reads else int(store.ids[1].values.sum())
        return n_tokens + len(store)

    def batches(self, store: Store) -> Batches[TextBatch]:
        made = pair_batch if self.config.model.reads else conversation_batch
        return ByLength(store, made, self.config.data.batch_tokens, self.config.train.seed)

    def judge(self, examples: list[Conversation], store: Store) -> Judge:
        """The loss; the likeliest replies to a few of the conversations."""
        some = [each.turns[:-1] for each in examples[:N_SAMPLES]]
        longest = min(self.config.decode.max_length or LENGTH, SAMPLE_TOKENS)

        def sampled(model: Model) -> Samples:
            bot = Chatbot(model, self.tokenizers, self.config)
            replies = (bot.answer(turns, temperature=0.0, max_length=longest) for turns in some)
            return tuple((reply.said, reply.text) for reply in replies)

        return Judge(loss=mean_loss(next_token_loss(), self.batches(store)), samples=sampled)
