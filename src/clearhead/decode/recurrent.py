"""The recurrent model for decoding: a hypothesis is a few vectors, however long it has become.

The weights are laid out as those of the Transformer are (`flat.py`), and a step is the arithmetic
of the model for one more word. A test holds the two equal, step by step, for every shape of model.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Self

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.decode.cache import KeysValues, joined, wider_mask
from clearhead.decode.flat import Map, product, weights
from clearhead.decode.sentence import Sentence, n_followed, padded, sources
from clearhead.model import SILENT, Recurrent
from clearhead.model.attention import attend, merge_heads
from clearhead.model.recurrent import GATES, STEPS, RecurrentLayer


class FlatRecurrent:
    """A model's weights, laid out for decoding; with `int8`, the decoder's in 8 bits."""

    def __init__(self, model: Recurrent, int8: bool = False) -> None:
        self.model, self.int8, self.config = model, int8, model.config

    @cached_property
    def layers(self) -> list[tuple[Map, Map]]:
        """What each layer makes of its input, and of its state before."""
        return [
            (self.gates(each, "ih"), self.gates(each, "hh")) for each in self.model.decoder.readers
        ]

    @cached_property
    def query(self) -> Map:
        return product(*weights(self.model.decoder.cross.query), self.int8)

    @cached_property
    def combine(self) -> Map:
        return product(*weights(self.model.decoder.cross.combine), self.int8)

    @cached_property
    def head(self) -> Map:
        bias, matrix = self.model.head.bias, self.model.head.matrix(self.model.tokens.weight)
        return product(matrix.detach(), None if bias is None else bias.detach(), self.int8)

    def gates(self, layer: RecurrentLayer, side: str) -> Map:
        matrix = getattr(layer.cells, f"weight_{side}_l0").detach()
        bias = getattr(layer.cells, f"bias_{side}_l0").detach() if self.config.bias else None
        return product(matrix, bias, self.int8)

    def step(
        self,
        tokens: Int[Tensor, "N W"],
        memory: Float[Tensor, "M N W D"],
        source: KeysValues | None,
        mask: Bool[Tensor, "N 1 1 S"] | None,
    ) -> tuple[Float[Tensor, "N W D"], Float[Tensor, "M N W D"]]:
        """What predicts the next token, and what each hypothesis remembers then."""
        x = self.model.look_up(self.model.tokens, tokens)
        n_each = 2 if self.config.architecture == "lstm" else 1
        if self.model.decoder.feeds:
            x = torch.cat([x, memory[-1]], dim=-1)
        kept: list[Tensor] = []
        for n, (of_input, of_state) in enumerate(self.layers):
            state = tuple(memory[n * n_each : (n + 1) * n_each])
            sides = (self.rows(of_input, x), self.rows(of_state, state[0]))
            gates = [side.chunk(len(GATES[self.config.architecture]), dim=-1) for side in sides]
            kept += STEPS[self.config.architecture](gates[0], gates[1], state, SILENT)
            x = kept[-n_each]
        if source is not None:
            x = self.answer(x, source, mask)
        return x, torch.stack([*kept, x] if self.model.decoder.feeds else kept)

    def answer(
        self,
        x: Float[Tensor, "N W D"],
        source: KeysValues,
        mask: Bool[Tensor, "N 1 1 S"] | None,
    ) -> Float[Tensor, "N W D"]:
        """The state together with what it finds in the source, which all hypotheses share."""
        q, (k, v) = self.rows(self.query, x)[:, None], source
        if self.config.attention == "additive":
            z = self.model.decoder.cross.additive_pattern(q, k, mask) @ v
        else:
            z = attend(q, k, v, mask)
        return self.rows(self.combine, torch.cat([merge_heads(z), x], dim=-1)).tanh()

    def rows(self, f: Map, x: Float[Tensor, "N W X"]) -> Float[Tensor, "N W Y"]:
        return f(x.flatten(0, 1)).view(*x.shape[:2], -1)


class RecurrentEngine:
    """Many sentences at once; of each hypothesis only the states of its layers are kept."""

    source: KeysValues | None = None
    mask: Bool[Tensor, "N 1 1 S"] | None = None

    def __init__(self, flat: FlatRecurrent) -> None:
        self.flat = flat

    def read(self, sentences: Sequence[Sentence], _width: int) -> Float[Tensor, "N T V"]:
        model, read = self.flat.model, None
        if model.config.reads:
            source, self.mask = sources(sentences, model.device)
            read = model.encode(source, self.mask)
            self.source = model.decoder.cross.keys_and_values(read)
        prompts = padded([sentence.prompt for sentence in sentences], model.device, left=True)
        lengths = torch.tensor([len(each.prompt) for each in sentences], device=model.device)
        empty = model.tokens.weight.new_zeros(len(sentences), 1, model.config.d_model)
        states = [each for state in model.decoder.states(empty, read) for each in state]
        self.memory = torch.stack([*states, empty] if model.decoder.feeds else states)
        found = []
        for place, tokens in enumerate(prompts.unbind(dim=1)):
            x, memory = self.flat.step(tokens[:, None], self.memory, self.source, self.mask)
            has_begun = prompts.size(1) - place <= lengths  # shorter prompts begin later
            self.memory = torch.where(has_begun[:, None, None], memory, self.memory)
            found.append(x)
        return self.log_probs(torch.cat(found[-n_followed(sentences) :], dim=1))

    def step(
        self, tokens: Int[Tensor, "N W"], parents: Int[Tensor, "N W"]
    ) -> Float[Tensor, "N W V"]:
        memory = self.memory.take_along_dim(parents[None, ..., None], dim=2)
        x, self.memory = self.flat.step(tokens, memory, self.source, self.mask)
        return self.log_probs(x)

    def log_probs(self, x: Float[Tensor, "N W D"]) -> Float[Tensor, "N W V"]:
        return self.flat.rows(self.flat.head, x).log_softmax(dim=-1)

    def keep(self, sentences: Int[Tensor, " R"]) -> None:
        self.memory = self.memory[:, sentences]
        if self.source is not None:
            self.source = self.source[0][sentences], self.source[1][sentences]
            self.mask = None if self.mask is None else self.mask[sentences]

    def join(self, other: Self) -> None:
        width = max(each.memory.size(2) for each in (self, other))
        self.memory = torch.cat(
            [F.pad(each.memory, (0, 0, 0, width - each.memory.size(2))) for each in (self, other)],
            dim=1,
        )
        if self.source is not None and other.source is not None:
            (k, v), (other_k, other_v) = self.source, other.source
            n_source = max(k.size(2), other_k.size(2))
            masks = wider_mask(self.mask, k, n_source), wider_mask(other.mask, other_k, n_source)
            self.mask = torch.cat(masks)
            self.source = joined(k, other_k, n_source), joined(v, other_v, n_source)
