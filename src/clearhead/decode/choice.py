"""From scores to tokens: the best ones, or one drawn at random from what temperature, top-k, top-p and min-p leave."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.config import DecodeConfig

CHUNK = 64
"""Scores of which only the best is looked at first."""
MANY = 100_000
"""Scores that take longer to go through one by one than to cut into chunks."""


def top(
    scores: Float[Tensor, "N W V"], k: int
) -> tuple[Float[Tensor, "N W k"], Int[Tensor, "N W k"]]:
    """The k best scores and their tokens.

    Searching whole vocabularies can take longer than a layer of the model. The k best lie in the k chunks that have the
    best maxima, and maxima are cheap; what is left over behind the last whole chunk is always looked at.
    """
    n_chunks = scores.size(-1) // CHUNK
    if n_chunks <= 2 * k or scores.numel() < MANY:
        values, tokens = scores.topk(k) if k > 1 else scores.max(dim=-1, keepdim=True)
        return values, tokens
    chunks = scores[..., : n_chunks * CHUNK].view(*scores.shape[:2], n_chunks, CHUNK)
    chosen = chunks.amax(dim=-1).topk(k).indices  # (N, W, k)
    pool = chunks.gather(2, chosen[..., None].expand(-1, -1, -1, CHUNK)).flatten(2)
    values, place = torch.cat([pool, scores[..., n_chunks * CHUNK :]], dim=-1).topk(k)
    inside = chosen.gather(2, (place // CHUNK).clamp_max(k - 1)) * CHUNK + place % CHUNK
    return values, inside.where(place < k * CHUNK, place + (n_chunks - k) * CHUNK)


def draw(
    scores: Float[Tensor, "N 1 V"], options: DecodeConfig, chances: list[float]
) -> Int[Tensor, "N 1"]:
    """A token for each sentence; its chance, from 0 to below 1, says where in the distribution.

    One number per sentence, from a generator of its own, makes the draw the same in every batch.
    """
    ordered = (scores.double() / options.temperature).sort(dim=-1, descending=True, stable=True)
    cumulative = kept(ordered.values, options).cumsum(dim=-1)
    target = (
        torch.tensor(chances, dtype=torch.float64, device=scores.device)[:, None, None]
        * cumulative[..., -1:]
    )
    places = torch.searchsorted(cumulative, target, right=True).clamp_max(scores.size(2) - 1)
    return ordered.indices.gather(2, places)[..., 0]


def kept(scores: Float[Tensor, "N 1 V"], options: DecodeConfig) -> Float[Tensor, "N 1 V"]:
    """Probabilities, best first, with zero for the tokens that are not drawn; the best one always may be."""
    probs = scores.softmax(dim=-1)
    if options.top_k:
        probs[..., options.top_k :] = 0
    if options.min_p:
        probs = probs.where(probs >= options.min_p * probs[..., :1], 0)
    if options.top_p < 1:
        before = probs.cumsum(dim=-1) - probs
        probs = probs.where(before < options.top_p * probs.sum(dim=-1, keepdim=True), 0)
    return probs
