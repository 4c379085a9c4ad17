"""Writing: the opening of a text in, its continuation out."""

from collections.abc import Iterable
from pathlib import Path

from clearhead.config import Config
from clearhead.data.batches import Batches, TextBatch, Windows
from clearhead.data.encoding import Encoding, text_encoding
from clearhead.data.examples import running_text
from clearhead.data.store import Store
from clearhead.model import Transformer
from clearhead.tasks.fit import Tokenizers
from clearhead.tasks.judging import LossJudge, Samples
from clearhead.tasks.writer import Writer
from clearhead.train import Judge, Loss, next_token_loss

SAMPLE_TOKENS = 60
OPENING = 40
"""Characters of the validation text that the samples begin with."""


class WritingTask:
    """What training has to know about writing."""

    name = "writing"

    def read(self, paths: Iterable[Path]) -> Iterable[str]:
        return running_text(*paths)

    def texts(self, example: str) -> tuple[str, ...]:
        return (example,)

    def settled(self, config: Config, tokenizers: Tokenizers, examples: Iterable[str]) -> Config:  # noqa: ARG002
        """The settings that follow from the tokenizer."""
        return config.but(
            model=config.model.but(family="decoder", vocab_size=tokenizers[1].vocab_size)
        )

    def encoding(self, tokenizers: Tokenizers, config: Config) -> Encoding:  # noqa: ARG002
        return text_encoding(tokenizers[1])

    def predictions(self, store: Store, config: Config) -> int:  # noqa: ARG002
        """In a pass: every token."""
        return int(store.n_tokens[0])

    def batches(self, store: Store, tokenizers: Tokenizers, config: Config) -> Batches[TextBatch]:  # noqa: ARG002
        return Windows(store, config.data.window, config.data.batch_tokens, config.train.seed)

    def loss(self, config: Config) -> Loss:
        return next_token_loss(config.train.label_smoothing, config.train.word_dropout)

    def judge(
        self, examples: list[str], store: Store, tokenizers: Tokenizers, config: Config
    ) -> Judge:
        opening = next((line for line in examples if line.strip()), "")[:OPENING]

        def sampled(model: Transformer) -> Samples:
            writer = Writer(model, tokenizers[1], config)
            found = writer.write(opening, max_length=SAMPLE_TOKENS)
            return ((found.prompt, found.text),)

        return LossJudge(self.batches(store, tokenizers, config), sampled)
