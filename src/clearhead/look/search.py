"""How beam search found an output: what it kept at every step, what it gave up, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


class Candidate(Protocol):
    """One way on that a search looked at, as decoding records it; its parent is a rank of the step before."""

    @property
    def rank(self) -> int: ...
    @property
    def parent(self) -> int: ...
    @property
    def token(self) -> int: ...
    @property
    def log_prob(self) -> float: ...
    @property
    def cumulative(self) -> float: ...
    @property
    def fate(self) -> Literal["kept", "finished", "pruned"]: ...


@dataclass(frozen=True)
class Node:
    """A token in the tree of the search."""

    rank: int
    parent: int
    """The rank, one step before, of what it follows."""
    id: int
    text: str
    log_prob: float
    total: float
    """The log-probability of the whole up to here."""
    divisor: float
    """The length penalty: what the total is divided by to compare texts of different lengths."""
    state: Literal["kept", "finished", "pruned"]
    why: str

    @property
    def score(self) -> float:
        return self.total / self.divisor


@dataclass(frozen=True)
class Search:
    """The whole tree, step by step, best first within a step."""

    width: int
    penalty: str
    length_penalty: float
    steps: tuple[tuple[Node, ...], ...]
    winner: tuple[int, ...]
    """The rank of the winner's token at each step."""

    def text(self, step: int, rank: int) -> tuple[str, ...]:
        """The tokens on the way to a node."""
        return tuple(
            self.steps[depth][place].text
            for depth, place in enumerate(ranks(self.steps, step, rank))
        )

    def __str__(self) -> str:
        lines = [f"beam of {self.width}, total ÷ {self.penalty} length penalty"]
        for step, nodes in enumerate(self.steps):
            for node in nodes:
                won = step < len(self.winner) and self.winner[step] == node.rank
                mark = "★" if won else {"kept": "│", "finished": "■", "pruned": "×"}[node.state]
                text = "".join(self.text(step, node.rank)).replace("▁", " ").strip()
                lines.append(
                    f"{step + 1:3} {mark} {node.total:8.3f} {text}{f'   ({node.why})' if node.why else ''}"
                )
        return "\n".join(lines)


def ranks(steps: Sequence[Sequence[Node]], step: int, rank: int) -> tuple[int, ...]:
    """Where, at each step, the way to a node passes."""
    found = [rank]
    for nodes in reversed(steps[1 : step + 1]):
        found.append(nodes[found[-1]].parent)
    return tuple(reversed(found))


def search_of(
    record: Sequence[Sequence[Candidate]],
    texts: dict[int, str],
    width: int,
    penalty: tuple[str, float],
    divisors: Sequence[float],
    chosen: Sequence[int],
) -> Search:
    """The tree of a recorded search; divisors by the number of tokens, and the tokens that won, their end included."""
    kept = [min((c.cumulative for c in step if c.fate != "pruned"), default=0.0) for step in record]
    steps = tuple(
        tuple(
            Node(
                c.rank,
                c.parent,
                c.token,
                texts[c.token],
                c.log_prob,
                c.cumulative,
                divisors[depth],
                c.fate,
                why(c, width, kept[depth], divisors[depth], depth == len(record) - 1),
            )
            for c in step
        )
        for depth, step in enumerate(record)
    )
    return Search(width, *penalty, steps, winner(steps, chosen))


def why(candidate: Candidate, width: int, worst: float, divisor: float, last: bool) -> str:
    """What became of a candidate, where that needs a reason."""
    total = candidate.cumulative
    if candidate.fate == "pruned":
        return f"rank {candidate.rank + 1}, and {width} are kept: {total:.3f} < {worst:.3f}"
    if candidate.fate == "finished":
        return f"ended: {total:.3f} ÷ {divisor:.3f} = {total / divisor:.3f}"
    return "the search was over" if last else ""


def winner(steps: Sequence[Sequence[Node]], chosen: Sequence[int]) -> tuple[int, ...]:
    """The way through the tree that spells the output; none, where something else than the search decided."""
    depth = len(chosen) - 1
    for node in steps[depth] if 0 <= depth < len(steps) else ():
        way = ranks(steps, depth, node.rank)
        if [steps[step][rank].id for step, rank in enumerate(way)] == list(chosen):
            return way
    return ()
