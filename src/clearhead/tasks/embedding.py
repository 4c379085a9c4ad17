"""Embedding: a text in, one vector out (a sentence vector), so that texts can be compared."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from clearhead.config import Config
from clearhead.look import Look
from clearhead.model import masks
from clearhead.model.sequence import pool
from clearhead.tasks.looking import Asked, look_at_reading
from clearhead.tasks.task import User, by_length


class Encoder(User):
    """A model that reads, asked for vectors: of a sentence encoder, or of any other run."""

    ability = "embed"
    remedy = "clearhead pretrain FILES --objective masked --into RUN"

    def _prepare(self) -> None:
        n_marks = len(self.source.reading(()))
        self.limit = self.limit_of(self.config.data.max_length, n_marks)

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
