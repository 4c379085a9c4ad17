"""Pre-training: from plain text alone, without labels, what other tasks can begin with.

The model's family says what is asked: a decoder is asked for the next token, an encoder for hidden
tokens (masked language modelling), and both together for spans that were taken out (denoising). A
pre-trained encoder fills gaps, and makes a vector of each text (sentence embedding).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from clearhead.config import Config, Given
from clearhead.data.batches import Batches, Noisy, denoising_batch, masked_batch
from clearhead.data.store import Store
from clearhead.errors import TextError, shown
from clearhead.look import Look
from clearhead.model import masks
from clearhead.model.sequence import pool
from clearhead.tasks.looking import Asked, look_at_reading
from clearhead.tasks.task import User, by_length
from clearhead.tasks.writing import WritingTask
from clearhead.training import Judge, Loss, masked_token_loss, mean_loss, next_token_loss

GAP = re.compile(r"_{2,}")


@dataclass(frozen=True)
class GapWord:
    """A word for a gap; `str()` is the word."""

    word: str
    probability: float

    def __str__(self) -> str:
        return self.word


@dataclass(frozen=True)
class Filling:
    """What fits the gaps of a text; `str()` is the text with the best word in each."""

    text: str
    gaps: tuple[tuple[GapWord, ...], ...]
    """For each gap, words by rank."""

    def __str__(self) -> str:
        best = (candidates[0].word if candidates else "" for candidates in self.gaps)
        return GAP.sub(lambda _: next(best), self.text)


class Filler(User):
    """An encoder that was trained to find hidden tokens."""

    ability = "fill gaps"
    remedy = "clearhead pretrain FILES --objective masked --into RUN"

    @staticmethod
    def suits(config: Config) -> bool:
        model = config.model
        return model.family == "encoder" and not (model.n_classes or model.vectors)

    @torch.no_grad()
    def fill(self, text: str, n_best: int = 5) -> Filling:
        """The words that fit each gap (____), likeliest first; each is one token."""
        parts, row = GAP.split(text), self.read(text)
        scores = self.model(torch.tensor([row], device=self.model.device))[0].cpu()
        places = [place for place, token in enumerate(row) if token == self.tokenizer.mask]
        gaps = (
            self.candidates(scores[place].softmax(dim=-1).tolist(), before, n_best)
            for place, before in zip(places, parts, strict=False)
        )
        return Filling(text, tuple(gaps))

    def look(self, text: str, edit: Asked = None) -> Look:
        return look_at_reading(
            self.model, self.tokenizer, text, encode=self.read, task="pretraining", edit=edit
        )

    def read(self, text: str) -> list[int]:
        """The text as the model reads it, a mask in every gap."""
        parts = GAP.split(text)
        ids = [self.ids(part, number) for number, part in enumerate(parts)]
        masked = [token for part in ids for token in [*part, self.tokenizer.mask]][:-1]
        row = self.tokenizer.reading(masked)
        if len(parts) == 1:
            raise TextError(
                f"There is no gap to fill in {shown(text, 60)}.", "Mark it with underscores: ____"
            )
        if len(row) > self.config.data.window:
            raise TextError(
                f"A text of {len(row):,} tokens is longer than the {self.config.data.window} that "
                f"the model was trained on.",
                "Give a shorter one.",
            )
        return row

    def ids(self, part: str, number: int) -> list[int]:
        """A part between gaps, tokenised as inside a text; a gap has the space before it."""
        if not self.tokenizer.spaced:
            return self.tokenizer.encode(part.rstrip(" "))
        if number and part and not part.startswith(" "):
            return self.tokenizer.encode_inside(part.rstrip())
        return self.tokenizer.encode(part.strip())

    def candidates(
        self, probabilities: Sequence[float], before: str, n_best: int
    ) -> tuple[GapWord, ...]:
        """The likeliest tokens that are words, or word pieces where the gap follows a letter."""
        spaced = before.endswith(" ") or (not before and self.tokenizer.spaced)
        words = (
            GapWord(spelling.decode(errors="ignore").strip(), probability)
            for spelling, probability in sorted(
                zip(self.tokenizer.table, probabilities, strict=True), key=lambda row: -row[1]
            )
            if spelling.startswith(b" ") == spaced
        )
        return tuple(islice((one for one in words if any(map(str.isalnum, one.word))), n_best))


class Encoder(User):
    """A model that reads, asked for vectors: of a sentence encoder, or of any other run."""

    ability = "embed"
    remedy = "clearhead pretrain FILES --objective masked --into RUN"

    def _prepare(self) -> None:
        self.limit = self.limit_of(self.config.data.max_length, len(self.source.reading(())))

    @staticmethod
    def suits(config: Config) -> bool:
        return config.model.reads

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> Float[Tensor, "N D"]:
        """A vector for each text, pooled and scaled as the model wants; long texts are cut off."""
        config, device = self.config.model, self.model.device
        rows = [self.read(row) for row in self.source.encode_batch(list(texts))]
        vectors = torch.empty(len(rows), config.d_model)
        for numbers, source, real in by_length(rows):
            mask = masks.padding(real.to(device))
            memory = self.model.encode(source.to(device), mask)
            vectors[numbers] = pool(memory, mask, config.pooling).float().cpu()
        return F.normalize(vectors, dim=-1) if config.unit_vectors else vectors

    def likeness(self, texts: Sequence[str], others: Sequence[str]) -> Float[Tensor, " N"]:
        """How alike the texts of each pair are: the cosine of the angle between their vectors."""
        return F.cosine_similarity(self.embed(texts), self.embed(others))

    def similarity(self, texts: Sequence[str], others: Sequence[str]) -> Float[Tensor, "N M"]:
        """The same of each text with each of the others."""
        ours, theirs = (F.normalize(self.embed(each), dim=-1) for each in (texts, others))
        return ours @ theirs.mT

    def look(self, text: str, edit: Asked = None) -> Look:
        return look_at_reading(
            self.model,
            self.source,
            text,
            encode=lambda text: self.read(self.source.encode(text)),
            task="embedding",
            edit=edit,
        )

    def read(self, ids: Sequence[int]) -> list[int]:
        row = self.source.reading(ids[: self.limit])
        return row if self.config.model.source_end else row[:-1] or row


OBJECTIVES = {"next": "decoder", "masked": "encoder", "denoise": "encoder-decoder"}
"""What is asked of which family."""


class PretrainingTask(WritingTask):
    """What training has to know about pre-training: the text is read as for writing."""

    name = "pretraining"
    families = ("encoder-decoder", "encoder", "decoder")
    unit = "lines"
    enough = 500_000

    @classmethod
    def resolve(cls, decided: Given, _examples: Iterator[str], /) -> Config:
        return Config(**decided)

    def n_predictions(self, store: Store) -> int:
        share = 1.0 if self.config.model.family == "decoder" else self.config.data.mask_share
        return max(1, round(share * int(store.n_tokens[0])))

    def batches(self, store: Store) -> Batches[Any]:
        windows, family = super().batches(store), self.config.model.family
        share, seed = self.config.data.mask_share, self.config.train.seed
        if family == "decoder":
            return windows
        if family == "encoder":
            tokenizer = self.tokenizers[1]
            words = range(len(tokenizer.vocabulary.specials), tokenizer.vocab_size)
            return Noisy(windows, partial(masked_batch, share=share, words=words), seed)
        return Noisy(windows, partial(denoising_batch, share=share), seed)

    @property
    def loss(self) -> Loss:
        return masked_token_loss if self.config.model.family == "encoder" else next_token_loss()

    def baseline(self, training: list[str], validation: list[str]) -> str:
        writes_on = self.config.model.family == "decoder"
        return super().baseline(training, validation) if writes_on else ""

    def judge(self, examples: list[str], store: Store) -> Judge:
        """The loss over what is hidden in the validation text; for a decoder, as in writing."""
        if self.config.model.family == "decoder":
            return super().judge(examples, store)
        return Judge(loss=mean_loss(self.loss, self.batches(store)))
