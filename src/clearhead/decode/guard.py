"""Outputs that went wrong in the ways models go wrong: loops, endless text, a source that was not read.

Such a sentence is decoded once more, with repetition blocked and where needed with a minimum length. The better output
is kept, and its notes say what happened.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import torch

from clearhead.decode.hypothesis import Hypothesis, Record
from clearhead.decode.plan import Plan, Sentence
from clearhead.model import Trace

LONGEST_PERIOD = 10
"""Loops of more tokens than this show as repeated runs."""
RUN = 4
"""Tokens of a run that a text seldom holds several times."""
NOTABLE = 8
"""A repetition shorter than this may be meant: laughter, digits, dots."""
READ = 0.1
"""Attention from any head at any step that counts as reading a source token."""

Decoding = Callable[[Plan, Sequence[Sentence]], dict[int, list[Hypothesis]]]


def faults(plan: Plan, sentence: Sentence, output: Hypothesis) -> list[str]:
    """What is wrong with an output, as the end of a sentence about it."""
    found = []
    source = sentence.source or sentence.prompt
    if repetition(output.ids) >= NOTABLE and repetition(output.ids) > 2 * repetition(source):
        found.append("repeated itself")
    if sentence.source and len(output.ids) > 2 * len(source) + 20:
        found.append("was far longer than its source")
    elif (
        sentence.source
        and 3 * len(output.ids) < len(source) >= NOTABLE
        and unread(plan, sentence, output) > 0.5
    ):
        found.append("left most of its source unread")
    return found


def repetition(ids: Sequence[int]) -> int:
    """Tokens in the longest stretch that is the same few tokens three times or more, or in one run said too often."""
    longest = 0
    for period in range(1, LONGEST_PERIOD + 1):
        breaks = [i for i in range(len(ids) - period) if ids[i] != ids[i + period]]
        stretch = max(b - a - 1 for a, b in pairwise([-1, *breaks, max(0, len(ids) - period)]))
        if stretch >= 2 * period:
            longest = max(longest, stretch + period)
    runs = Counter(tuple(ids[i : i + RUN]) for i in range(len(ids) - RUN + 1))
    often = max(runs.values(), default=0)
    return max(longest, RUN * often if often > 2 else 0)


def unread(plan: Plan, sentence: Sentence, output: Hypothesis) -> float:
    """Share of the source that no head looked at while this was written, seen in one pass over the whole."""
    model, device = plan.models[0].model, plan.device
    trace = Trace()
    prompt = sentence.prompt[: len(sentence.prompt) - sentence.n_prefix]
    model(
        torch.tensor([sentence.source], device=device),
        torch.tensor([prompt + output.ids], device=device),
        tap=trace,
    )
    patterns = [pattern for path, pattern in trace.seen.items() if path.endswith("cross.pattern")]
    strongest = torch.stack([pattern.amax(dim=(0, 1, 2)) for pattern in patterns]).amax(
        dim=0
    )  # (S,)
    return float((strongest < READ).float().mean())


def second_attempt(sentence: Sentence, wrong: Sequence[str]) -> Sentence:
    """The same sentence; an output that left its source unread was too short."""
    if not any("unread" in fault for fault in wrong):
        return sentence
    return replace(sentence, min_length=min(len(sentence.source) // 2, sentence.limit - 1))


def guarded(
    plan: Plan, suspects: dict[int, tuple[Sentence, list[Hypothesis]]], again: Decoding
) -> dict[int, list[Hypothesis]]:
    """For each suspect, what a second attempt made of it, or the first output where that was no worse."""
    wrong = {
        index: faults(plan, sentence, outputs[0]) for index, (sentence, outputs) in suspects.items()
    }
    blocking = plan.options.but(
        no_repeat_ngram=min(plan.options.no_repeat_ngram or RUN - 1, RUN - 1)
    )
    record: Record | None = None if plan.record is None else {}
    attempts = [second_attempt(sentence, wrong[index]) for index, (sentence, _) in suspects.items()]
    second = again(replace(plan, options=blocking, record=record), attempts)
    kept = {}
    for index, (sentence, first) in suspects.items():
        whole = not plan.should_stop()  # else the second attempt is not one
        better = whole and badness(plan, sentence, second[index][0]) < badness(
            plan, sentence, first[0]
        )
        if better and plan.record is not None and record is not None:
            plan.record[index] = record[index]
        outcome = (
            "decoded again, because the first output"
            if better
            else "a second attempt was no better: it"
        )
        note = f"{outcome} {' and '.join(wrong[index])}"
        kept[index] = [
            replace(each, notes=(*each.notes, note))
            for each in (second if better else {index: first})[index]
        ]
    return kept


def badness(plan: Plan, sentence: Sentence, output: Hypothesis) -> tuple[int, float]:
    """Fewer faults are better; among equals, tokens that the model finds likelier."""
    return len(faults(plan, sentence, output)), -output.log_prob / max(1, len(output.log_probs))
