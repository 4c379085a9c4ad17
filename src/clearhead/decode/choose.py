"""From scores to tokens: what may not be chosen, the best ones, and one that is drawn at random."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.config import DecodeConfig
from clearhead.decode.request import Request

NOTHING = -1
"""Stands before shorter texts in a batch; no token has this id."""
CHUNK = 64
"""Scores of which only the best is looked at first."""
MANY = 100_000
"""Scores that take longer to go through one by one than to cut into chunks."""


class Rules:
    """What may not be chosen, whatever its probability: rules that change log-probabilities."""

    def __init__(self, request: Request) -> None:
        self.options, self.end = request.options, request.end
        n_tokens = request.models[0].config.vocab_size
        blocked = [token for token in request.blocked if token < n_tokens]
        self.blocked = torch.tensor(blocked, dtype=torch.long, device=request.device)

    def __call__(
        self,
        log_probs: Float[Tensor, "N W V"],
        too_short: Sequence[int],
        written: Callable[[], Int[Tensor, "N W T"]],
    ) -> Float[Tensor, "N W V"]:
        """What to choose by; what is ruled out is so in the given tensor too.

        Sentences that are too short may not end yet. What was written is only asked for by rules
        that need it.
        """
        log_probs = self.block(log_probs)
        if too_short:
            log_probs[too_short, :, self.end] = -torch.inf
        if self.options.no_repeat_ngram:
            again = repeats(written(), self.options.no_repeat_ngram, log_probs.size(2))
            log_probs.masked_fill_(again, -torch.inf)
        if self.options.repetition_penalty != 1:
            again = marked(written(), log_probs.size(2))
            return torch.where(again, log_probs * self.options.repetition_penalty, log_probs)
        return log_probs

    def block(self, log_probs: Float[Tensor, "N W V"]) -> Float[Tensor, "N W V"]:
        return log_probs.index_fill_(2, self.blocked, -torch.inf)


def repeats(written: Int[Tensor, "N W T"], n: int, n_tokens: int) -> Bool[Tensor, "N W V"]:
    """Tokens that would complete a run of n (an n-gram) for the second time."""
    n_texts, width, length = written.shape
    if length < n:
        return torch.zeros(n_texts, width, n_tokens, dtype=torch.bool, device=written.device)
    runs = written.unfold(2, n, 1)  # (N, W, T - n + 1, n)
    last = written[:, :, None, length - n + 1 :]
    same = (runs[..., :-1] == last).all(dim=-1)
    return marked(runs[..., -1].where(same, NOTHING), n_tokens)


def marked(tokens: Int[Tensor, "N W T"], n_tokens: int) -> Bool[Tensor, "N W V"]:
    """A row over the vocabulary for each list of tokens, True for those in it."""
    marks = torch.zeros(*tokens.shape[:2], n_tokens + 1, dtype=torch.bool, device=tokens.device)
    return marks.scatter_(2, tokens.where(tokens != NOTHING, n_tokens), True)[..., :-1]


def top(
    scores: Float[Tensor, "N W V"], k: int
) -> tuple[Float[Tensor, "N W k"], Int[Tensor, "N W k"]]:
    """The k best scores and their tokens.

    Searching whole vocabularies can take longer than a layer of the model. The k best lie in the k
    chunks that have the best maxima, and maxima are cheap; what is left over behind the last whole
    chunk is always looked at.
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


def best_tokens(scores: Float[Tensor, "N 1 V"]) -> Int[Tensor, "N 1"]:
    """The token with the best score (argmax); numpy finds it several times faster than torch."""
    if scores.device.type == "cpu" and scores.dtype == torch.float32:
        return torch.from_numpy(scores.detach().numpy().argmax(axis=-1))
    return scores.argmax(dim=-1)


def drawn_tokens(
    scores: Float[Tensor, "N 1 V"], options: DecodeConfig, chances: list[float]
) -> Int[Tensor, "N 1"]:
    """A token for each sentence; its chance, from 0 to below 1, says where in the distribution.

    One number per sentence, from a generator of its own, makes the draw the same in every batch.
    """
    ordered = (scores.double() / options.temperature).sort(dim=-1, descending=True, stable=True)
    cumulative = kept(ordered.values, options).cumsum(dim=-1)
    share = torch.tensor(chances, dtype=torch.float64, device=scores.device)[:, None, None]
    places = torch.searchsorted(cumulative, share * cumulative[..., -1:], right=True)
    return ordered.indices.gather(2, places.clamp_max(scores.size(2) - 1))[..., 0]


def kept(scores: Float[Tensor, "N 1 V"], options: DecodeConfig) -> Float[Tensor, "N 1 V"]:
    """Probabilities, best first, with zero for what top-k, min-p or the nucleus (top-p) leave out.

    The best one may always be drawn.
    """
    probs = scores.softmax(dim=-1)
    if options.top_k:
        probs[..., options.top_k :] = 0
    if options.min_p:
        probs = probs.where(probs >= options.min_p * probs[..., :1], 0)
    if options.top_p < 1:
        before = probs.cumsum(dim=-1) - probs
        probs = probs.where(before < options.top_p * probs.sum(dim=-1, keepdim=True), 0)
    return probs
