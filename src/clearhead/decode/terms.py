"""Terms that must appear: hypotheses compete with those that hold as much of the terms.

Left to themselves, hypotheses that take up a term early would lose to those that have yet to pay
for it. So the beam is shared out among the numbers of term tokens held (lexically constrained
decoding by dynamic beam allocation, Post & Vilar 2018), and an output may only end when it holds
every term.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.decode.request import Request, TokenNode
from clearhead.decode.search import Best, Pick, Result, Slot, totals_of
from clearhead.decode.sentence import Sentence, Term


@dataclass(frozen=True)
class Progress:
    """Which terms a text holds, and its last tokens, in which another may have begun."""

    terms: tuple[Term, ...]
    met: frozenset[int] = frozenset()
    tail: tuple[int, ...] = ()

    def after(self, token: int) -> "Progress":
        """The same text with one more token; a term asked for twice is met by two occurrences."""
        tail = (*self.tail, token)
        new: dict[Term, int] = {}
        for index in self.missing:
            term = self.terms[index]
            if any(tail[-len(spelling) :] == spelling for spelling in term):
                new.setdefault(term, index)
        longest = max((len(spelling) for term in self.terms for spelling in term), default=0)
        return Progress(self.terms, self.met | frozenset(new.values()), tail[-longest:])

    @property
    def missing(self) -> tuple[int, ...]:
        return tuple(index for index in range(len(self.terms)) if index not in self.met)

    def begun(self) -> Iterator[tuple[Term, tuple[int, ...], int]]:
        """Each spelling of a missing term with how many of its tokens end the text, from 0 up."""
        for index in self.missing:
            for spelling in self.terms[index]:
                for n in range(len(spelling)):
                    if self.tail[len(self.tail) - n :] == spelling[:n]:
                        yield self.terms[index], spelling, n

    @property
    def wanted(self) -> set[int]:
        """Tokens that take up a term or go on with one."""
        return {spelling[n] for _, spelling, n in self.begun()}

    @property
    def n_to_come(self) -> int:
        """Tokens that are still needed at least."""
        saved = (shortest(term) - len(spelling) + n for term, spelling, n in self.begun())
        needed = sum(shortest(self.terms[index]) for index in self.missing)
        return needed - max(0, max(saved, default=0))


def shortest(term: Term) -> int:
    return min(map(len, term))


def progress_of(terms: tuple[Term, ...], ids: Iterable[int]) -> Progress:
    progress = Progress(terms)
    for token in ids:
        progress = progress.after(token)
    return progress


class TermSlot(Slot):
    """A sentence whose hypotheses know which terms they hold."""

    def __init__(self, sentence: Sentence, root: TokenNode, request: Request) -> None:
        super().__init__(sentence, root, request)
        self.progress = [progress_of(sentence.terms, sentence.prefix)]
        # Every number of tokens held has a place in the beam at least.
        self.width += sum(map(shortest, sentence.terms))

    def grow(self, picks: Sequence[Pick]) -> None:
        super().grow(picks)
        if picks:
            self.progress = [self.progress[parent].after(token) for _, parent, token, _ in picks]

    def result(self) -> Result:
        """Outputs that hold every term; there may be none."""
        self.totals = [
            -torch.inf if progress.missing else total
            for total, progress in zip(self.totals, self.progress, strict=True)
        ]
        return super().result()

    def pick(self, totals: Float[Tensor, "W V"], log_probs: Float[Tensor, "W V"]) -> list[Pick]:
        """The continuations that go on, in turn from those that hold all, all but one token …"""
        banks: dict[int, list[Pick]] = {}
        for pick in self.candidates(totals, log_probs):
            n_to_come = self.progress[pick[1]].after(pick[2]).n_to_come
            if self.length + 1 + n_to_come <= self.sentence.limit:
                banks.setdefault(n_to_come, []).append(pick)
        ordered = [sorted(banks[n], reverse=True) for n in sorted(banks)]
        in_turn = [pick for turn in zip_longest(*ordered) for pick in turn if pick is not None]
        return sorted(in_turn[: self.width], reverse=True)

    def candidates(
        self, totals: Float[Tensor, "W V"], log_probs: Float[Tensor, "W V"]
    ) -> list[Pick]:
        """The best continuations, the best of each hypothesis, and those that a term wants."""
        for row, progress in enumerate(self.progress):
            if progress.missing:
                totals[row, self.end] = -torch.inf
        n_tokens = totals.size(1)
        best = totals.flatten().topk(min(self.width, totals.numel())).indices.tolist()
        best += [row * n_tokens + token for row, token in enumerate(totals.argmax(dim=1).tolist())]
        best += [
            row * n_tokens + token
            for row, progress in enumerate(self.progress)
            for token in progress.wanted
        ]
        places = list(dict.fromkeys(best))
        values, chosen = (x.flatten()[places].tolist() for x in (totals, log_probs))
        return [
            (value, *divmod(place, n_tokens), log_prob)
            for value, place, log_prob in zip(values, places, chosen, strict=True)
            if value > -torch.inf
        ]


class WithTerms(Best):
    """A way of choosing: the best continuations that lead to all terms."""

    slot = TermSlot

    def pick(
        self,
        slots: Sequence[Slot],
        ruled: Float[Tensor, "N W V"],
        log_probs: Float[Tensor, "N W V"],
    ) -> list[list[Pick]]:
        totals = totals_of(slots, ruled)[..., None] + ruled
        return [
            slot.pick(totals[index, :n_rows], log_probs[index, :n_rows])
            for index, slot in enumerate(slots)
            if isinstance(slot, TermSlot) and (n_rows := len(slot.rows))
        ]
