"""A stack of blocks of one shape and separate weights, on top of tokens and their positions."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.config import ModelConfig
from clearhead.model.block import Block, norm
from clearhead.model.dropout import Dropout
from clearhead.model.positions import LearnedPositions, SinusoidalPositions
from clearhead.model.tap import SILENT, Tap


class Stack(nn.Module):
    """An encoder or a decoder: they differ in the mask, and in whether there is a memory to ask."""

    def __init__(self, config: ModelConfig, n_layers: int, cross: bool = False) -> None:
        super().__init__()
        self.positions = (
            LearnedPositions(config.d_model, config.max_positions)
            if config.positions == "learned"
            else SinusoidalPositions(config.d_model, halves=config.positions == "halves")
        )
        self.types = (
            nn.Embedding(config.n_token_types, config.d_model) if config.n_token_types else None
        )
        self.norm_embedding = norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(Block(config, cross) for _ in range(n_layers))
        # A pre-norm stream is never normalised on its way, so it is at its end.
        self.norm = norm(config) if config.norm == "pre" else nn.Identity()

    def forward(
        self,
        tokens: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "..."] | None = None,
        memory: Float[Tensor, "B S D"] | None = None,
        memory_mask: Bool[Tensor, "#B 1 1 S"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
        tap: Tap = SILENT,
    ) -> Float[Tensor, "B T D"]:
        x = self.dropout(self.embed(tokens, types, tap))
        for index, block in enumerate(self.layers):
            x = block(x, mask, memory, memory_mask, tap=tap.into(str(index)))
        return tap("out", self.norm(x))

    def embed(
        self,
        tokens: Float[Tensor, "B T D"],
        types: Int[Tensor, "B T"] | None,
        tap: Tap,
    ) -> Float[Tensor, "B T D"]:
        """Token vectors + position vectors (+ segment vectors)."""
        n_tokens = tokens.size(1)
        positions = self.positions(torch.arange(n_tokens, device=tokens.device)[None], n_tokens)
        x = tap("tokens", tokens) + tap("positions", positions)
        if self.types is not None:
            first = tokens.new_zeros(tokens.shape[:2], dtype=torch.long)
            x = x + tap("types", self.types(first if types is None else types))
        return tap("embedded", self.norm_embedding(x))
