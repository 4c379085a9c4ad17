"""Which sentences are decoded together: the longest first, and new ones come in when many have left.

A batch never changes what comes out of it, only how soon.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from clearhead.decode.hypothesis import Hypothesis
from clearhead.decode.plan import Plan, Sentence

Result = tuple[Sentence, list[Hypothesis]]


class Batch(Protocol):
    """Sentences that are decoded together, in one way or another."""

    def __len__(self) -> int: ...

    def advance(self) -> None:
        """One more token for every sentence."""

    def take_done(self) -> list[Result]:
        """The sentences that are finished, which leave the batch."""

    def take_all(self) -> list[Result]:
        """All sentences as they are."""

    def join(self, other: Any) -> None:
        """The sentences of another batch of this kind come in."""


def in_batches(
    plan: Plan, sentences: Sequence[Sentence], begin: Callable[[Plan, Sequence[Sentence]], Batch]
) -> Iterator[Result]:
    """Every sentence with its outputs, in the order in which they are done."""
    waiting = deque(sorted(sentences, key=lambda sentence: -size(sentence)))
    batch: Batch | None = None
    room = 0
    while (waiting or batch) and not plan.should_stop():
        if batch:
            batch.advance()
            yield from batch.take_done()
        if not batch:
            room = room_for(waiting, plan)
        n_inside = len(batch) if batch else 0
        # Coming in costs a copy of the cache, a batch that is not full wastes steps.
        if waiting and n_inside <= room // 2:
            new = begin(plan, [waiting.popleft() for _ in range(min(room - n_inside, len(waiting)))])
            yield from new.take_done()
            batch = joined(batch, new)
    yield from (stopped(*result) for result in (batch.take_all() if batch else []))
    yield from (stopped(sentence, [Hypothesis((), 0.0, (), finished=False)]) for sentence in waiting)


def joined(batch: Batch | None, new: Batch) -> Batch:
    """One batch out of two, either of which may be empty."""
    if not batch or not new:
        return batch or new
    batch.join(new)
    return batch


def room_for(waiting: Sequence[Sentence], plan: Plan) -> int:
    """How many sentences of the size of the next may be together."""
    if plan.tap is not None or not waiting:
        return 1
    return max(1, min(plan.options.batch_size, plan.options.batch_tokens // size(waiting[0])))


def size(sentence: Sentence) -> int:
    return max(len(sentence.source), len(sentence.prompt))


def stopped(sentence: Sentence, hypotheses: list[Hypothesis]) -> Result:
    """What there was when the caller did not want to wait any longer."""
    return sentence, [replace(each, notes=(*each.notes, "stopped")) for each in hypotheses]
