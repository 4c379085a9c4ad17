"""Outputs that went wrong as models go wrong: loops, endless text, a source that was not read.

Such a sentence is decoded once more, with repetition blocked and where needed with a minimum
length. The better output is kept, and its notes say what happened.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import torch

from clearhead.decode.request import Hypothesis, Request
from clearhead.decode.search import Result
from clearhead.decode.sentence import Sentence
from clearhead.model import Trace

LONGEST_PERIOD = 10
"""Loops of more tokens than this show as repeated runs."""
RUN = 4
"""Tokens of a run that a text seldom holds several times."""
NOTABLE = 8
"""A repetition shorter than this may be meant: laughter, digits, dots."""
FEW = 5
"""A text in which fewer tokens than this were there before has no notable repetition."""
READ = 0.1
"""Attention from any head at any step that counts as reading a source token."""

Suspect = tuple[Sentence, list[Hypothesis], list[str]]
"""A sentence, its outputs, and what is wrong with the best of them."""


def faults(request: Request, sentence: Sentence, output: Hypothesis) -> list[str]:
    """What is wrong with an output, as the end of a sentence about it."""
    ids, source = output.ids, sentence.source or sentence.prompt
    n_repeated = repetition(ids) if len(ids) - len(set(ids)) >= FEW else 0
    is_short = sentence.source and 3 * len(ids) < len(source) >= NOTABLE
    found = {
        "repeated itself": n_repeated >= NOTABLE and n_repeated > 2 * repetition(source),
        "was far longer than its source": sentence.source and len(ids) > 2 * len(source) + 20,
        "left most of its source unread": is_short and unread(request, sentence, output) > 0.5,
    }
    return [fault for fault, holds in found.items() if holds]


def repetition(ids: Sequence[int]) -> int:
    """Tokens in the longest stretch of the same few, thrice or more, or in a run said too often."""
    longest = 0
    for period in range(1, LONGEST_PERIOD + 1):
        breaks = [i for i in range(len(ids) - period) if ids[i] != ids[i + period]]
        stretch = max(b - a - 1 for a, b in pairwise([-1, *breaks, max(0, len(ids) - period)]))
        if stretch >= 2 * period:
            longest = max(longest, stretch + period)
    runs = Counter(tuple(ids[i : i + RUN]) for i in range(len(ids) - RUN + 1))
    often = max(runs.values(), default=0)
    return max(longest, RUN * often if often > 2 else 0)


@torch.inference_mode()
def unread(request: Request, sentence: Sentence, output: Hypothesis) -> float:
    """Share of the source that no head looked at while this was written, seen in one pass."""
    model, device, trace = request.models[0].model, request.device, Trace()
    prompt = sentence.prompt[: len(sentence.prompt) - sentence.n_prefix]
    source, target = (
        torch.tensor([ids], device=device) for ids in (sentence.source, prompt + output.ids)
    )
    model(source, target, tap=trace)
    patterns = [pattern for path, pattern in trace.seen.items() if path.endswith("cross.pattern")]
    strongest = torch.stack([pattern.amax(dim=(0, 1, 2)) for pattern in patterns]).amax(dim=0)
    return float((strongest < READ).float().mean())  # over the source's tokens


def guarded(
    request: Request,
    suspects: Sequence[Suspect],
    again: Callable[[Request, Sequence[Sentence]], Iterable[Result]],
) -> Iterator[Result]:
    """For each suspect what a second attempt made of it, or the first where that was no worse."""
    n_blocked = min(request.options.no_repeat_ngram or RUN - 1, RUN - 1)
    sentences = [sentence for sentence, _, _ in suspects]
    if not request.scored:  # outputs with equally many faults are told apart by their scores
        request = replace(request, scored=True)
        scored = {sentence.index: outputs for sentence, outputs in again(request, sentences)}
        suspects = [(each, scored[each.index], wrong) for each, _, wrong in suspects]
    blocking = replace(
        request,
        options=request.options.but(no_repeat_ngram=n_blocked),
        record=None if request.record is None else {},
    )
    attempts = [second_attempt(sentence, wrong) for sentence, _, wrong in suspects]
    second = {sentence.index: outputs for sentence, outputs in again(blocking, attempts)}
    is_whole = not request.should_stop()  # else the second attempt is not one
    for sentence, first, wrong in suspects:
        outputs, why = second[sentence.index], "decoded again, because the first output"
        still_wrong = faults(request, sentence, outputs[0])
        if is_whole and badness(outputs[0], still_wrong) < badness(first[0], wrong):
            if request.record is not None and blocking.record is not None:
                request.record[sentence.index] = blocking.record[sentence.index]
        else:
            outputs, why = first, "a second attempt was no better: it"
        note = f"{why} {' and '.join(wrong)}"
        yield sentence, [replace(each, notes=(*each.notes, note)) for each in outputs]


def second_attempt(sentence: Sentence, wrong: Sequence[str]) -> Sentence:
    """The same sentence; an output that left its source unread was too short."""
    if not any("unread" in fault for fault in wrong):
        return sentence
    return replace(sentence, min_length=min(len(sentence.source) // 2, sentence.limit - 1))


def badness(output: Hypothesis, wrong: Sequence[str]) -> tuple[int, float]:
    """Fewer faults are better; among equals, tokens that the model finds likelier."""
    return len(wrong), -output.log_prob / max(1, len(output.log_probs))
