"""Which sentences are decoded together: those of a length, the longest first.

Sentences that are done leave. The others are mostly done soon after, so new ones wait for a batch of their own; only
when a few go on for much too long do new ones come in beside them. A batch never changes what comes out of it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from clearhead.decode.hypothesis import Hypothesis
from clearhead.decode.plan import Plan, Sentence

Result = tuple[Sentence, list[Hypothesis]]

PATIENCE = 16
"""Steps more than the longest source has tokens, after which a batch is no longer waited for: joining has its price."""


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
    room = n_steps = overdue = 0
    while (waiting or batch) and not plan.should_stop():
        if batch:
            batch.advance()
            n_steps += 1
            yield from batch.take_done()
        if waiting and not batch:
            room, n_steps, overdue = room_for(waiting[0], plan), 0, size(waiting[0]) + PATIENCE
        n_inside = len(batch) if batch else 0
        if waiting and (n_inside == 0 or (n_steps > overdue and n_inside <= room // 2)):
            new = begin(
                plan, [waiting.popleft() for _ in range(min(room - n_inside, len(waiting)))]
            )
            yield from new.take_done()
            batch, n_steps = joined(batch, new), 0
    yield from (stopped(*result) for result in (batch.take_all() if batch else []))
    yield from (
        stopped(sentence, [Hypothesis((), 0.0, (), finished=False)]) for sentence in waiting
    )


def staying(done: Sequence[bool]) -> list[int]:
    """The places of those that are not done, in the order that moves the fewest: the last fill the gaps."""
    n_staying = len(done) - sum(done)
    last = iter([place for place in range(n_staying, len(done)) if not done[place]])
    return [next(last) if done[place] else place for place in range(n_staying)]


def joined(batch: Batch | None, new: Batch) -> Batch:
    """One batch out of two, either of which may be empty."""
    if not batch or not new:
        return batch or new
    batch.join(new)
    return batch


def room_for(longest: Sentence, plan: Plan) -> int:
    """How many sentences of a size may be together; edits see one at a time."""
    options = plan.options
    width = 1 if options.temperature else options.beam
    return (
        1
        if plan.tap
        else max(1, min(options.batch_size, options.batch_tokens // (width * size(longest))))
    )


def size(sentence: Sentence) -> int:
    return max(len(sentence.source), len(sentence.prompt))


def stopped(sentence: Sentence, hypotheses: list[Hypothesis]) -> Result:
    """What there was when the caller did not want to wait any longer."""
    return sentence, [replace(each, notes=(*each.notes, "stopped")) for each in hypotheses]
