"""Chat: something is said, and something is answered."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from clearhead.config import Config
from clearhead.data.batches import Batches, TextBatch
from clearhead.data.encoding import Encoding
from clearhead.data.examples import Conversation
from clearhead.data.store import Store
from clearhead.model import Transformer
from clearhead.tasks.chatbot import Chatbot
from clearhead.tasks.fit import Tokenizers
from clearhead.tasks.judging import LossJudge, Samples
from clearhead.tasks.turns import chat_batches, chat_encoding, read_conversations
from clearhead.train import Judge, Loss, next_token_loss

N_SAMPLES = 3
ENOUGH_TO_TELL = 1_000
"""Conversations that are looked at to see whether they are more than questions and answers."""


class ChatTask:
    """What training has to know about chat, in both of its forms."""

    name = "chat"

    def read(self, paths: Iterable[Path]) -> Iterable[Conversation]:
        return read_conversations(*paths)

    def texts(self, example: Conversation) -> tuple[str, ...]:
        return example.turns

    def settled(
        self, config: Config, tokenizers: Tokenizers, examples: Iterable[Conversation]
    ) -> Config:
        """Questions with one answer each are for an encoder and a decoder, longer conversations for a decoder."""
        source, target = tokenizers
        family = config.model.family
        if "family" not in config.model.model_fields_set:
            are_pairs = all(len(each.turns) == 2 for each in islice(examples, ENOUGH_TO_TELL))
            family = "encoder-decoder" if are_pairs else "decoder"
        model: dict[str, Any] = {"family": family, "vocab_size": target.vocab_size}
        if source is not target and family == "encoder-decoder":
            model |= {"source_vocab_size": source.vocab_size, "tie": "output"}
        return config.but(model=config.model.but(**model))

    def encoding(self, tokenizers: Tokenizers, config: Config) -> Encoding:
        return chat_encoding(tokenizers, config)

    def predictions(self, store: Store, config: Config) -> int:
        """In a pass: the tokens that the bot has to say, and an end for each example."""
        is_pairs = config.model.family == "encoder-decoder"
        return (store.n_tokens[1] if is_pairs else int(store.ids[1].values.sum())) + len(store)

    def batches(self, store: Store, tokenizers: Tokenizers, config: Config) -> Batches[TextBatch]:  # noqa: ARG002
        return chat_batches(store, config)

    def loss(self, config: Config) -> Loss:
        return next_token_loss(config.train.label_smoothing, config.train.word_dropout)

    def judge(
        self, examples: list[Conversation], store: Store, tokenizers: Tokenizers, config: Config
    ) -> Judge:
        some = [each.turns[:-1] for each in examples[:N_SAMPLES]]

        def sampled(model: Transformer) -> Samples:
            bot = Chatbot(model, *tokenizers, config)
            return tuple((turns[-1], bot.answer(turns, temperature=0.0).text) for turns in some)

        return LossJudge(chat_batches(store, config), sampled)
