"""What may not be chosen, whatever its probability: rules that change log-probabilities before the choice."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.decode.plan import Plan

NOTHING = -1
"""Stands before shorter texts in a batch; no token has this id."""


class Rules:
    """The rules of one call, in the order in which they apply."""

    def __init__(self, plan: Plan) -> None:
        self.options, self.end = plan.options, plan.end
        n_tokens = plan.models[0].config.vocab_size
        self.blocked = torch.tensor(
            [token for token in plan.blocked if token < n_tokens], device=plan.device
        )

    def __call__(
        self,
        log_probs: Float[Tensor, "N W V"],
        too_short: Sequence[int],
        written: Callable[[], Int[Tensor, "N W T"]],
    ) -> Float[Tensor, "N W V"]:
        """What to choose by; what is ruled out is so in the given tensor too, all else stays there as it was.

        Sentences that are too short may not end yet. What was written is only asked for by rules that need it.
        """
        log_probs = self.block(log_probs)
        if too_short:
            log_probs[too_short, :, self.end] = -torch.inf
        if self.options.no_repeat_ngram:
            log_probs.masked_fill_(
                repeats(written(), self.options.no_repeat_ngram, log_probs.size(2)), -torch.inf
            )
        if self.options.repetition_penalty != 1:
            again = marked(written(), log_probs.size(2))
            return torch.where(again, log_probs * self.options.repetition_penalty, log_probs)
        return log_probs

    def block(self, log_probs: Float[Tensor, "N W V"]) -> Float[Tensor, "N W V"]:
        """Rules out the tokens that are never chosen."""
        return (
            log_probs.index_fill_(2, self.blocked, -torch.inf) if len(self.blocked) else log_probs
        )


def repeats(written: Int[Tensor, "N W T"], n: int, n_tokens: int) -> Bool[Tensor, "N W V"]:
    """Tokens that would complete a run of n for the second time."""
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
