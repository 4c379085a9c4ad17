"""Pre-training: from plain text alone, without labels, what other tasks can begin with.

The model's family says what is asked: a decoder is asked for the next token, an encoder for tokens that are hidden, and
both together for spans that were taken out.
"""

from collections.abc import Iterable
from typing import Any

import torch

from clearhead.config import Config
from clearhead.data.batches import Batches, Windows
from clearhead.data.noise import Denoised, Masked
from clearhead.data.store import Store
from clearhead.model import Transformer
from clearhead.tasks.fit import Tokenizers
from clearhead.tasks.writing import WritingTask
from clearhead.train import Judge, Loss, masked_token_loss, next_token_loss

OBJECTIVES = {"next": "decoder", "masked": "encoder", "denoise": "encoder-decoder"}
"""What is asked of which family."""


class PretrainingTask(WritingTask):
    """What training has to know about pre-training: the text is read as for writing."""

    name = "pretraining"

    def settled(self, config: Config, tokenizers: Tokenizers, examples: Iterable[str]) -> Config:  # noqa: ARG002
        return config.but(
            model=config.model.but(family=config.model.family, vocab_size=tokenizers[1].vocab_size)
        )

    def predictions(self, store: Store, config: Config) -> int:
        """In a pass: every token, or those that are hidden."""
        share = 1.0 if config.model.family == "decoder" else config.data.mask_share
        return max(1, round(share * int(store.n_tokens[0])))

    def batches(self, store: Store, tokenizers: Tokenizers, config: Config) -> Batches[Any]:
        windows = Windows(store, config.data.window, config.data.batch_tokens, config.train.seed)
        share, seed, tokenizer = config.data.mask_share, config.train.seed, tokenizers[1]
        if config.model.family == "encoder":
            return Masked(
                windows,
                share,
                seed,
                range(len(tokenizer.vocabulary.specials), tokenizer.vocab_size),
            )
        return windows if config.model.family == "decoder" else Denoised(windows, share, seed)

    def loss(self, config: Config) -> Loss:
        return masked_token_loss if config.model.family == "encoder" else next_token_loss()

    def judge(
        self, examples: list[str], store: Store, tokenizers: Tokenizers, config: Config
    ) -> Judge:
        if config.model.family == "decoder":
            return super().judge(examples, store, tokenizers, config)
        return NoiseJudge(self.batches(store, tokenizers, config), self.loss(config))


class NoiseJudge:
    """The mean loss over what is hidden in the validation text, the same at every look."""

    name = "loss"
    effort = 1.0

    def __init__(self, batches: Batches[Any], loss: Loss) -> None:
        self.batches, self.asked = batches, loss

    @torch.no_grad()
    def loss(self, model: Transformer) -> float:
        device = model.tokens.weight.device
        losses = [self.asked(model, batch.to(device)) for batch in self.batches.fixed()]
        return sum(float(loss) for loss, _ in losses) / sum(n for _, n in losses)

    def score(self, model: Transformer, whole: bool) -> None:
        """There is none: the lowest loss is best."""

    def samples(self, model: Transformer) -> tuple[tuple[str, str], ...]:  # noqa: ARG002
        return ()
