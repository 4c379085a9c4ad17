"""The entries: sources in, the best outputs out, whole or as a stream; and scores of given ones."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch

from clearhead.config import DecodeConfig
from clearhead.decode.choose import Rules, top
from clearhead.decode.engine import engine_for
from clearhead.decode.guard import Suspect, faults, guarded
from clearhead.decode.request import (
    BLOCKED,
    DEFAULTS,
    BeamRecord,
    Hypothesis,
    Models,
    Ranking,
    Request,
    checked,
    never,
)
from clearhead.decode.search import (
    ALONE,
    Best,
    Drawn,
    Result,
    Searching,
    read_prompts,
    room_for,
    size,
    way_for,
)
from clearhead.decode.sentence import Sentence, Term
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
    searching: Searching = ALONE,
    scored: bool = True,
) -> list[list[Hypothesis]]:
    """The best outputs for each source, in the order given.

    Several models are an ensemble. A model without an encoder goes on from its source. Every output
    begins with its prefix and holds its terms, or says which it does not. A tap sees and may edit
    every step, slowly. Outputs that need not be `scored` are the same, and sooner there.
    """
    request = Request(
        models=checked(models),
        options=options,
        end=end,
        blocked=tuple(blocked),
        tap=tap,
        record=record,
        should_stop=should_stop,
        scored=scored,
    )
    nothing = [()] * len(sources)
    asked = zip(sources, prefixes or nothing, terms or nothing, strict=True)
    sentences = [request.sentence(index, *each) for index, each in enumerate(asked)]
    found = sorted(decode_each(request, sentences, searching), key=lambda result: result[0].index)
    return [outputs for _, outputs in found]


def decode_each(
    request: Request, sentences: Sequence[Sentence], searching: Searching = ALONE
) -> Iterator[Result]:
    """The outputs of each sentence as they are done; suspicious ones last, decoded again."""
    suspects: list[Suspect] = []
    # Random outputs and edited runs are what they are; so is one that had to stop.
    is_guarded = request.options.guard and not request.options.temperature and request.tap is None
    for sentence, outputs in searched(request, sentences, searching):
        is_examined = is_guarded and not request.should_stop()
        if is_examined and (wrong := faults(request, sentence, outputs[0])):
            suspects.append((sentence, outputs, wrong))
        else:
            yield sentence, outputs
    if suspects:
        yield from guarded(request, suspects, partial(searched, searching=searching))


def searched(
    request: Request, sentences: Sequence[Sentence], searching: Searching
) -> Iterator[Result]:
    """The outputs of each sentence, found in the way that the options and its terms ask for."""
    if request.options.temperature:
        yield from drawn(request, sentences, searching)
        return
    free, bound = ([each for each in sentences if bool(each.terms) == has] for has in (False, True))
    yield from searching.results(request, free, way_for(request))
    failed = []
    for sentence, outputs in searching.results(request, bound, WithTerms(request)):
        if outputs:
            yield sentence, outputs
        else:
            failed.append(sentence)
    # Where no output holds its terms: the best without, and a note of what it lacks.
    for sentence, outputs in searching.results(request, failed, way_for(request)):
        yield sentence, [lacking(sentence, output) for output in outputs]


def drawn(
    request: Request, sentences: Sequence[Sentence], searching: Searching
) -> Iterator[Result]:
    """As many random outputs as asked for, independent of each other, the likeliest first."""
    n_draws = request.options.n_best
    request = replace(request, record=None, options=request.options.but(beam=1))
    outputs: dict[int, list[Hypothesis]] = {}
    draws = [replace(sentence, draw=draw) for sentence in sentences for draw in range(n_draws)]
    for sentence, (output,) in searching.results(request, draws, Drawn(request)):
        found = outputs.setdefault(sentence.index, [])
        found.append(lacking(sentence, output) if sentence.terms else output)
        if len(found) == n_draws:
            yield sentence, sorted(found, key=lambda each: -each.score)


def lacking(sentence: Sentence, output: Hypothesis) -> Hypothesis:
    missing = progress_of(sentence.terms, output.ids).missing
    notes = tuple(f"term {index + 1} found no place" for index in missing)
    return replace(output, missing=missing, notes=output.notes + notes)


def stream(
    models: Models,
    source: Sequence[int],
    options: DecodeConfig = DEFAULTS,
    *,
    prefix: Sequence[int] = (),
    end: int = END,
    blocked: Sequence[int] = BLOCKED,
    should_stop: Callable[[], bool] = never,
    searching: Searching = ALONE,
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
        should_stop=should_stop,
    )
    sentence = request.sentence(0, source, prefix)
    way = Drawn(request) if options.temperature else Best(request)
    return (yield from searching.tokens(request, sentence, way))


@torch.inference_mode()
def score(
    models: Models,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    options: DecodeConfig = DEFAULTS,
    *,
    ended: bool = True,
) -> list[Hypothesis]:
    """Given outputs for given sources as if they had been decoded: log-probabilities and score.

    An output that is not `ended` is scored without the end token, like one that was cut off.
    """
    request = Request(models=checked(models), options=options)
    sentences = [
        request.sentence(index, source, (*target, END) if ended else target)
        for index, (source, target) in enumerate(pairs)
    ]
    ranking, found = Ranking(options), {}
    waiting = sorted(sentences, key=size)
    while waiting:
        # One pass keeps the scores of every position: fewer tokens at a time.
        n_together = room_for(waiting[-1], request, width=4)
        batch, waiting = waiting[-n_together:], waiting[:-n_together]
        _, nodes = read_prompts(engine_for(request), batch, width=1)
        for sentence, node in zip(batch, nodes, strict=True):
            total = sum(node.path()[1], 0.0)
            found[sentence.index] = ranking.hypothesis(node, total, finished=ended)
    return [found[index] for index in range(len(pairs))]


def alternatives(
    models: Models,
    source: Sequence[int],
    prefix: Sequence[int],
    *,
    n: int,
    options: DecodeConfig = DEFAULTS,
    searching: Searching = ALONE,
) -> list[Hypothesis]:
    """What could follow the prefix: the n likeliest tokens, each with its best continuation."""
    request = Request(models=checked(models), options=options.but(n_best=1))
    with torch.inference_mode():
        sentence = request.sentence(0, source, prefix)
        log_probs, _ = read_prompts(engine_for(request), [sentence], width=1)
        values, tokens = top(Rules(request).block(log_probs), min(n, log_probs.size(2)))
    nexts = tokens[values > -torch.inf].tolist()
    going_on = [
        request.sentence(token, source, (*prefix, token)) for token in nexts if token != END
    ]
    results = decode_each(request, going_on, searching)
    found = {sentence.index: outputs[0] for sentence, outputs in results}
    found[END] = score(request.models, [(source, prefix)], options)[0]
    return [found[token] for token in nexts]
