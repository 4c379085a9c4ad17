"""Text as it is being written: one output, token by token."""

from collections.abc import Callable, Generator, Sequence

import torch

from clearhead.config import DecodeConfig
from clearhead.decode.hypothesis import Hypothesis
from clearhead.decode.request import BLOCKED, DEFAULTS, Models, Request, checked, never
from clearhead.decode.search import Best, Drawn, Search
from clearhead.text import END


def stream(
    models: Models,
    source: Sequence[int],
    options: DecodeConfig = DEFAULTS,
    *,
    prefix: Sequence[int] = (),
    end: int = END,
    blocked: Sequence[int] = BLOCKED,
    should_stop: Callable[[], bool] = never,
) -> Generator[int, None, Hypothesis]:
    """The tokens of one output, each as soon as it is decided: the best, or one drawn at random.

    They are those that `decode` finds for this source with a beam of 1; the whole is the
    generator's value.
    """
    request = Request(
        models=checked(models),
        options=options.but(beam=1, n_best=1),
        end=end,
        blocked=tuple(blocked),
    )
    sentence = request.sentence(0, source, prefix)
    way = Drawn(request) if options.temperature else Best(request)
    # Only while computing: between tokens the mode is the caller's.
    with torch.inference_mode():
        search = Search(request, [sentence], way)
    (slot,), n_written = search.slots, sentence.n_prefix
    while True:
        (row,), (total,) = slot.rows, slot.totals
        if row is not None and slot.length > n_written and total > -torch.inf:
            yield row.token
        n_written = slot.length
        if slot.done or should_stop():
            return slot.result()[1][0]
        with torch.inference_mode():
            search.advance()
