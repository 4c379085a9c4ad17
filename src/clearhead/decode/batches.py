"""Which sentences are decoded together: those of a length, the longest first.

Sentences that are done leave. The others are mostly done soon after, so new ones wait for a batch
of their own; only when a few go on for much too long do new ones come in beside them (continuous
batching). A batch never changes what comes out of it.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from clearhead.decode.hypothesis import Hypothesis
from clearhead.decode.request import Request, Sentence
from clearhead.decode.search import Best, Result, Search

PATIENCE = 16
"""Steps more than the longest source has tokens, after which a batch is no longer waited for."""


def in_batches(request: Request, sentences: Sequence[Sentence], way: Best) -> Iterator[Result]:
    """Every sentence with its outputs, in the order in which they are done."""
    waiting = deque(sorted(sentences, key=lambda sentence: -size(sentence)))
    batch: Search | None = None
    room = n_steps = overdue = 0
    while (waiting or batch) and not request.should_stop():
        if batch:
            batch.advance()
            n_steps += 1
            yield from batch.take()
        if waiting and not batch:
            room, n_steps = room_for(waiting[0], request, way.width), 0
            overdue = size(waiting[0]) + PATIENCE
        n_inside = len(batch) if batch else 0
        if waiting and (n_inside == 0 or (n_steps > overdue and n_inside <= room // 2)):
            n_new = min(room - n_inside, len(waiting))
            new = Search(request, [waiting.popleft() for _ in range(n_new)], way)
            yield from new.take()
            if batch:
                batch.join(new)
            batch, n_steps = batch or new, 0
    yield from (stopped(*result) for result in (batch.take(lambda _: True) if batch else []))
    nothing = Hypothesis(ids=(), score=0.0, log_probs=(), finished=False)
    yield from (stopped(sentence, [nothing]) for sentence in waiting)


def room_for(longest: Sentence, request: Request, width: int) -> int:
    """How many sentences of a size may be together."""
    options = request.options
    return max(1, min(options.batch_size, options.batch_tokens // (width * size(longest))))


def size(sentence: Sentence) -> int:
    return max(len(sentence.source), len(sentence.prompt))


def stopped(sentence: Sentence, hypotheses: list[Hypothesis]) -> Result:
    """What there was when the caller did not want to wait any longer."""
    return sentence, [replace(each, notes=(*each.notes, "stopped")) for each in hypotheses]
