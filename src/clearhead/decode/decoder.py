"""The entries: sources in, the best outputs out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from clearhead.config import DecodeConfig
from clearhead.decode.batches import in_batches
from clearhead.decode.guard import Suspect, faults, guarded
from clearhead.decode.hypothesis import BeamRecord, Hypothesis
from clearhead.decode.request import (
    BLOCKED,
    DEFAULTS,
    Models,
    Request,
    Sentence,
    Term,
    checked,
    never,
)
from clearhead.decode.search import Best, Drawn, Result
from clearhead.decode.terms import WithTerms, progress_of
from clearhead.model import Tap
from clearhead.text import END


def decode(
    models: Models,
    sources: Sequence[Sequence[int]],
    options: DecodeConfig = DEFAULTS,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    terms: Sequence[Sequence[Term]] | None = None,
    end: int = END,
    blocked: Sequence[int] = BLOCKED,
    tap: Tap | None = None,
    record: BeamRecord | None = None,
    should_stop: Callable[[], bool] = never,
) -> list[list[Hypothesis]]:
    """The best outputs for each source, in the order given.

    Several models are an ensemble. A model without an encoder goes on from its source. Every output
    begins with its prefix and holds its terms, or says which it does not. A tap sees and may edit
    every step, slowly.
    """
    request = Request(
        models=checked(models),
        options=options,
        end=end,
        blocked=tuple(blocked),
        tap=tap,
        record=record,
        should_stop=should_stop,
    )
    nothing = [()] * len(sources)
    asked = zip(sources, prefixes or nothing, terms or nothing, strict=True)
    sentences = [request.sentence(index, *each) for index, each in enumerate(asked)]
    found = {sentence.index: outputs for sentence, outputs in decode_each(request, sentences)}
    return [found[index] for index in range(len(sources))]


@torch.inference_mode()
def decode_each(request: Request, sentences: Sequence[Sentence]) -> Iterator[Result]:
    """The outputs of each sentence as they are done; suspicious ones last, decoded again."""
    suspects: list[Suspect] = []
    for sentence, outputs in searched(request, sentences):
        wrong = faults(request, sentence, outputs[0]) if is_guarded(request) else []
        if wrong:
            suspects.append((sentence, outputs, wrong))
        else:
            yield sentence, outputs
    if suspects:
        yield from guarded(request, suspects, searched)


def is_guarded(request: Request) -> bool:
    """Random outputs and edited runs are what they are; so is one that had to stop."""
    options = request.options
    wanted = options.guard and not options.temperature and request.tap is None
    return wanted and not request.should_stop()


def searched(request: Request, sentences: Sequence[Sentence]) -> Iterator[Result]:
    """The outputs of each sentence, found in the way that the options and its terms ask for."""
    if request.options.temperature:
        one = replace(request, record=None, options=request.options.but(beam=1))
        yield from drawn(one, sentences)
        return
    free, bound = ([each for each in sentences if bool(each.terms) == has] for has in (False, True))
    yield from in_batches(request, free, Best(request))
    failed = []
    for sentence, outputs in in_batches(request, bound, WithTerms(request)):
        if outputs:
            yield sentence, outputs
        else:
            failed.append(sentence)
    # Where no output holds its terms: the best without, and a note of what it lacks.
    for sentence, outputs in in_batches(request, failed, Best(request)):
        yield sentence, [lacking(sentence, output) for output in outputs]


def drawn(request: Request, sentences: Sequence[Sentence]) -> Iterator[Result]:
    """As many random outputs as asked for, independent of each other, the likeliest first."""
    n_draws = request.options.n_best
    outputs: dict[int, list[Hypothesis]] = {}
    draws = [replace(sentence, draw=draw) for sentence in sentences for draw in range(n_draws)]
    for sentence, (output,) in in_batches(request, draws, Drawn(request)):
        found = outputs.setdefault(sentence.index, [])
        found.append(lacking(sentence, output) if sentence.terms else output)
        if len(found) == n_draws:
            yield sentence, sorted(found, key=lambda each: -each.score)


def lacking(sentence: Sentence, output: Hypothesis) -> Hypothesis:
    """The output with a note of the terms that it does not hold."""
    missing = progress_of(sentence.terms, output.ids).missing
    notes = tuple(f"term {index + 1} found no place" for index in missing)
    return replace(output, missing=missing, notes=output.notes + notes)
