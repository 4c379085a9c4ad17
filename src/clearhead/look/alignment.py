"""Which source word each output word was made from, read off cross-attention."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from clearhead.model import Trace, Transformer


@dataclass(frozen=True)
class Alignment:
    """How much each output word looks at each source word; rows sum to 1."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: NDArray[np.float32]
    """Output words × source words."""

    @property
    def links(self) -> tuple[tuple[int, int], ...]:
        """For each output word, the source word that it looks at most, as (source, output)."""
        return tuple((int(row.argmax()), number) for number, row in enumerate(self.weights))

    def __str__(self) -> str:
        """Pharaoh's format: 0-0 2-1 …"""
        return " ".join(f"{source}-{target}" for source, target in sorted(self.links))


@torch.inference_mode()
def align(
    model: Transformer, source: Sequence[int], target: Sequence[int], labels: tuple[Sequence[str], Sequence[str]],
    start: int = 1, end: int = 2,
) -> Alignment:  # fmt: skip
    """The alignment of a source and an output, both ids without special tokens; labels are their tokens as text.

    Row t of the decoder reads token t - 1 and predicts token t, so it is row t that belongs to output token t. The last
    layer but one is used, averaged over its heads: the layers above prepare the next word more than they read this one.
    """
    trace = Trace()
    device = model.tokens.weight.device
    model(torch.tensor([[*source, end]], device=device), torch.tensor([[start, *target]], device=device), tap=trace)
    layer = max(0, model.config.n_decoder_layers - 2)
    pattern = trace[f"decoder.{layer}.cross.pattern"][0].mean(dim=0)  # (T, S)
    pattern = pattern[: len(target), : len(source)]
    spans = [word_spans(side) for side in labels]
    weights = merged(pattern, *spans)
    words = [tuple("".join(side[begin:stop]).strip("▁ ") for begin, stop in span)
             for side, span in zip(labels, spans, strict=True)]  # fmt: skip
    return Alignment(words[0], words[1], weights)


def merged(
    pattern: Float[Tensor, "T S"], source: list[tuple[int, int]], target: list[tuple[int, int]]
) -> NDArray[np.float32]:
    """Token weights as word weights: added up over a source word, averaged over an output word."""
    columns = torch.stack([pattern[:, begin:stop].sum(dim=1) for begin, stop in source], dim=1)
    rows = torch.stack([columns[begin:stop].mean(dim=0) for begin, stop in target])
    return (rows / rows.sum(dim=1, keepdim=True)).float().cpu().numpy()


def word_spans(tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Where words begin and end among tokens that show a leading space as ▁."""
    begins = [number for number, token in enumerate(tokens) if number == 0 or token.startswith("▁")]
    return list(zip(begins, [*begins[1:], len(tokens)], strict=True))
