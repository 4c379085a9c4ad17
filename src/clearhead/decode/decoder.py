"""The entries: sources in, the best outputs out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from clearhead.config import DecodeConfig
from clearhead.decode.batches import Batch, in_batches
from clearhead.decode.beam import Beam
from clearhead.decode.constraints import TermBeam, progress_of
from clearhead.decode.guard import faults, guarded
from clearhead.decode.hypothesis import Hypothesis, Record
from clearhead.decode.plan import Models, Plan, Sentence, Term, checked, never
from clearhead.decode.single import Single
from clearhead.model import Tap

DEFAULTS = DecodeConfig()
SPECIALS = (0, 1, 3)
"""Padding, start and unknown, which no output should hold."""


def decode(
    models: Models,
    sources: Sequence[Sequence[int]],
    options: DecodeConfig = DEFAULTS,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    terms: Sequence[Sequence[Term]] | None = None,
    start: int = 1,
    end: int = 2,
    blocked: Sequence[int] = SPECIALS,
    tap: Tap | None = None,
    record: Record | None = None,
    should_stop: Callable[[], bool] = never,
) -> list[list[Hypothesis]]:
    """The best outputs for each source, in the order given.

    Several models are an ensemble. A model without an encoder goes on from its source. Every output begins with its
    prefix and holds its terms, or says which it does not. A tap sees and may edit every step, slowly.
    """
    plan = Plan(checked(models), options, start, end, tuple(blocked), tap, record, should_stop)
    sentences = sentences_of(plan, sources, prefixes, terms)
    results = dict(decode_each(plan, sentences))
    return [results[index] for index in range(len(sources))]


def sentences_of(
    plan: Plan,
    sources: Sequence[Sequence[int]],
    prefixes: Sequence[Sequence[int]] | None = None,
    terms: Sequence[Sequence[Term]] | None = None,
) -> list[Sentence]:
    """What is to be decoded, in the order given."""
    no = [()] * len(sources)
    triples = zip(sources, prefixes or no, terms or no, strict=True)
    return [plan.sentence(index, *triple) for index, triple in enumerate(triples)]


@torch.inference_mode()
def decode_each(
    plan: Plan, sentences: Sequence[Sentence]
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """The outputs of each sentence as they are done: suspicious ones last, after a second attempt."""
    suspects: dict[int, tuple[Sentence, list[Hypothesis]]] = {}
    by_index = {sentence.index: sentence for sentence in sentences}
    for index, outputs in searched(plan, sentences):
        sentence = by_index[index]
        if watched(plan) and faults(plan, sentence, outputs[0]):
            suspects[index] = sentence, outputs
        else:
            yield index, outputs
    if suspects:
        yield from guarded(plan, suspects, lambda *again: dict(searched(*again))).items()


def watched(plan: Plan) -> bool:
    """Random outputs and edited runs are what they are; so is one that had to stop."""
    return (
        plan.options.guard
        and not plan.options.temperature
        and plan.tap is None
        and not plan.should_stop()
    )


def searched(plan: Plan, sentences: Sequence[Sentence]) -> Iterator[tuple[int, list[Hypothesis]]]:
    """The outputs of each sentence, found in the way that the options and its terms ask for."""
    if plan.options.temperature:
        yield from drawn(plan, sentences)
        return
    begin = Beam if plan.options.beam > 1 or plan.record is not None else Single
    free = [sentence for sentence in sentences if not sentence.terms]
    for sentence, outputs in in_batches(plan, free, begin):
        yield sentence.index, outputs
    bound = [sentence for sentence in sentences if sentence.terms]
    yield from with_terms(plan, bound, begin)


def with_terms(
    plan: Plan, sentences: Sequence[Sentence], begin: Callable[[Plan, Sequence[Sentence]], Batch]
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Outputs that hold their terms; where none does, the best without, and a note of what it lacks."""
    failed = []
    for sentence, outputs in in_batches(plan, sentences, TermBeam):
        if outputs:
            yield sentence.index, outputs
        else:
            failed.append(sentence)
    for sentence, outputs in in_batches(plan, failed, begin):
        yield sentence.index, [lacking(sentence, output) for output in outputs]


def lacking(sentence: Sentence, output: Hypothesis) -> Hypothesis:
    """The output with a note of the terms that it does not hold."""
    missing = progress_of(sentence.terms, output.ids).missing
    notes = tuple(f"term {index + 1} found no place" for index in missing)
    return replace(output, missing=missing, notes=output.notes + notes)


def drawn(plan: Plan, sentences: Sequence[Sentence]) -> Iterator[tuple[int, list[Hypothesis]]]:
    """As many random outputs as asked for, independent of each other, the likeliest first."""
    n_draws = plan.options.n_best
    outputs: dict[int, list[Hypothesis]] = {}
    draws = [replace(sentence, draw=draw) for sentence in sentences for draw in range(n_draws)]
    for sentence, (output,) in in_batches(plan, draws, Single):
        outputs.setdefault(sentence.index, []).append(
            lacking(sentence, output) if sentence.terms else output
        )
        if len(outputs[sentence.index]) == n_draws:
            yield sentence.index, sorted(outputs.pop(sentence.index), key=lambda each: -each.score)
