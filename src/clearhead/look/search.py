"""How beam search found an output: what it kept at every step, what it gave up, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clearhead.look.words import Spell

Fate = Literal["kept", "finished", "pruned"]
Recorded = tuple[int, int, int, float, float, Fate]
"""A candidate as decoding records it: rank, parent, token, log-probability, sum so far, fate."""


@dataclass(frozen=True)
class Branch:
    """A token in the tree of the search."""

    rank: int
    parent: int
    """The rank, one step before, of what it follows."""
    id: int
    log_prob: float
    total: float
    """The log-probability of the whole up to here."""
    state: Fate
    text: str
    divisor: float
    """The length penalty: what the total is divided by to compare texts of different lengths."""
    why: str
    """The reason for its state, where it needs one."""

    @property
    def score(self) -> float:
        return self.total / self.divisor


Steps = Sequence[Sequence[Branch]]
"""The branches of every step, best first within a step."""


@dataclass(frozen=True, kw_only=True)
class SearchTree:
    """All candidates of a beam search, step by step."""

    width: int
    penalty: str
    length_penalty: float
    steps: Steps
    winner: tuple[int, ...]
    """The rank of the winner's token at each step."""

    def text(self, step: int, rank: int) -> tuple[str, ...]:
        way = enumerate(way_to(self.steps, step, rank))
        return tuple(self.steps[depth][place].text for depth, place in way)

    def __str__(self) -> str:
        lines = [f"beam of {self.width}, total ÷ {self.penalty} length penalty"]
        marks = {"kept": "│", "finished": "■", "pruned": "×"}
        for step, branches in enumerate(self.steps):
            for branch in branches:
                won = self.winner[step : step + 1] == (branch.rank,)
                text = "".join(self.text(step, branch.rank)).replace("▁", " ").strip()
                why = f"   ({branch.why})" if branch.why else ""
                mark = "★" if won else marks[branch.state]
                lines.append(f"{step + 1:3} {mark} {branch.total:8.3f} {text}{why}")
        return "\n".join(lines)


def way_to(steps: Steps, step: int, rank: int) -> tuple[int, ...]:
    """The ranks, step by step, on the way to a branch."""
    found = [rank]
    for branches in reversed(steps[1 : step + 1]):
        found.append(branches[found[-1]].parent)
    return tuple(reversed(found))


def search_tree(
    record: Sequence[Sequence[Recorded]],
    chosen: Sequence[int],
    *,
    spell: Spell,
    width: int,
    penalty: tuple[str, float],
    divisors: Sequence[float],
) -> SearchTree:
    """The tree of a recorded search.

    `chosen` are the tokens that won, their end included; `penalty` is its kind and its strength,
    and `divisors` what it comes to for one token, two tokens and so on.
    """
    steps = []
    for depth, (step, divisor) in enumerate(zip(record, divisors, strict=True)):
        worst = min((total for *_, total, fate in step if fate != "pruned"), default=0.0)
        texts = spell([token for _, _, token, *_ in step])
        branches = []
        for text, way in zip(texts, step, strict=True):
            rank, *_, total, fate = way
            reasons = {
                "pruned": f"rank {rank + 1}, and {width} are kept: {total:.3f} < {worst:.3f}",
                "finished": f"ended: {total:.3f} ÷ {divisor:.3f} = {total / divisor:.3f}",
                "kept": "the search was over" if depth == len(record) - 1 else "",
            }
            branches.append(Branch(*way, text=text, divisor=divisor, why=reasons[fate]))
        steps.append(branches)
    return SearchTree(
        width=width,
        penalty=penalty[0],
        length_penalty=penalty[1],
        steps=steps,
        winner=winner(steps, chosen),
    )


def winner(steps: Steps, chosen: Sequence[int]) -> tuple[int, ...]:
    """The ranks of the output's tokens; none, where something else than the search decided."""
    depth = len(chosen) - 1
    for branch in steps[depth] if 0 <= depth < len(steps) else ():
        way = way_to(steps, depth, branch.rank)
        if [steps[step][rank].id for step, rank in enumerate(way)] == list(chosen):
            return way
    return ()
