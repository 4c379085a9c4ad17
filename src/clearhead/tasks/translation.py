"""Translation: a sentence in, a sentence out."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from clearhead import metrics
from clearhead.config import Config, DecodeConfig
from clearhead.data.batches import Batches, ByLength, PairBatch, Recut, pair_batch
from clearhead.data.encoding import Encoding, pair_encoding
from clearhead.data.examples import Pair, pairs
from clearhead.data.store import Store
from clearhead.decode import decode
from clearhead.model import Transformer
from clearhead.tasks.fit import Tokenizers
from clearhead.tasks.translator import ended
from clearhead.train import Judge, Loss, next_token_loss

GREEDY = DecodeConfig(beam=1, max_extra=10, guard=False)
"""Quick and plain: what validation asks is whether the model has become better."""
N_SAMPLES = 3


class TranslationTask:
    """What training has to know about translation."""

    name = "translation"

    def read(self, paths: Iterable[Path]) -> Iterable[Pair]:
        return pairs(*paths)

    def texts(self, example: Pair) -> tuple[str, ...]:
        return example

    def settled(self, config: Config, tokenizers: Tokenizers, examples: Iterable[Pair]) -> Config:  # noqa: ARG002
        """The settings that follow from the tokenizers."""
        source, target = tokenizers
        model: dict[str, Any] = {"family": "encoder-decoder", "vocab_size": target.vocab_size}
        if source is not target:
            model |= {"source_vocab_size": source.vocab_size, "tie": "output"}
        return config.but(model=config.model.but(**model))

    def encoding(self, tokenizers: Tokenizers, config: Config) -> Encoding:  # noqa: ARG002
        return pair_encoding(*tokenizers)

    def predictions(self, store: Store, config: Config) -> int:  # noqa: ARG002
        """In a pass: the tokens of the target side, and an end for each."""
        return int(store.n_tokens[1]) + len(store)

    def batches(self, store: Store, tokenizers: Tokenizers, config: Config) -> Batches[PairBatch]:
        batches = ByLength(store, pair_batch, config.data.batch_tokens, config.train.seed)
        dropout = config.tokenizer.dropout
        return Recut(batches, tokenizers, dropout, config.train.seed) if dropout else batches

    def loss(self, config: Config) -> Loss:
        return next_token_loss(config.train.label_smoothing, config.train.word_dropout)

    def judge(
        self, examples: list[Pair], store: Store, tokenizers: Tokenizers, config: Config
    ) -> Judge:
        return TranslationJudge(
            examples, self.batches(store, tokenizers, config), tokenizers, config
        )


class TranslationJudge:
    """Loss over all validation pairs; BLEU of greedy translations."""

    name = "BLEU"

    def __init__(
        self,
        examples: list[Pair],
        batches: Batches[PairBatch],
        tokenizers: Tokenizers,
        config: Config,
    ) -> None:
        self.examples, self.batches, self.tokenizers = examples, batches, tokenizers
        self.sample = examples[: config.train.score_sample]
        self.effort = len(examples) / len(self.sample)

    @torch.no_grad()
    def loss(self, model: Transformer) -> float:
        device = model.tokens.weight.device
        losses = [next_token_loss()(model, batch.to(device)) for batch in self.batches.fixed()]
        return sum(float(loss) for loss, _ in losses) / sum(n for _, n in losses)

    def score(self, model: Transformer, whole: bool) -> float | None:
        examples = self.examples if whole else self.sample
        hypotheses = self.translated(model, [pair.source for pair in examples])
        return metrics.bleu(hypotheses, [pair.target for pair in examples]).value

    def samples(self, model: Transformer) -> tuple[tuple[str, str], ...]:
        sources = [pair.source for pair in self.examples[:N_SAMPLES]]
        return tuple(zip(sources, self.translated(model, sources), strict=True))

    def translated(self, model: Transformer, texts: list[str]) -> list[str]:
        source, target = self.tokenizers
        found = decode(model, ended(source, texts), GREEDY)
        return [target.decode(best[0].ids) for best in found]
