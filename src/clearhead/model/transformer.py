"""The Transformer: ids in, logits out. One class makes the three families, and has no modes.

It is the figure of the paper; `sequence.py` has what it shares with the recurrent model.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.config import ModelConfig
from clearhead.model import masks
from clearhead.model.sequence import Model
from clearhead.model.stack import Stack
from clearhead.model.tap import SILENT, Tap


class Transformer(Model):
    """Stacks of attention and feed-forward networks: every position asks every other."""

    encoder: Stack
    decoder: Stack

    def make_stacks(self, config: ModelConfig) -> None:
        if config.reads:
            self.encoder = Stack(config, config.n_encoder_layers)
        if config.writes:
            self.decoder = Stack(config, config.n_decoder_layers, cross=config.reads)

    def encode(
        self,
        source: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B 1 1 S"] | None = None,
        types: Int[Tensor, "B S"] | None = None,
        tap: Tap = SILENT,
    ) -> Float[Tensor, "B S D"]:
        memory: Tensor = self.encoder(
            self.source_vectors(source), mask, types=types, tap=tap.into("encoder")
        )
        return memory

    def decode(
        self,
        target: Int[Tensor, "B T"],
        memory: Float[Tensor, "B S D"] | None = None,
        mask: Bool[Tensor, "#B 1 1 S"] | None = None,
        tap: Tap = SILENT,
    ) -> Float[Tensor, "B T D"]:
        own = masks.causal(target.size(1), target.device)
        tokens = self.look_up(self.tokens, target)
        x: Tensor = self.decoder(tokens, own, memory, memory_mask=mask, tap=tap.into("decoder"))
        return x
