"""How likely a model finds a given text (forced decoding), and what else it would have said."""

from collections.abc import Iterator, Sequence

import torch

from clearhead.config import DecodeConfig
from clearhead.decode.batches import size
from clearhead.decode.choose import Rules, top
from clearhead.decode.decoder import decode_each
from clearhead.decode.engine import engine_for
from clearhead.decode.hypothesis import Hypothesis, Ranking
from clearhead.decode.request import DEFAULTS, Models, Request, Sentence, checked
from clearhead.decode.search import read_prompts
from clearhead.text import END


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
    for batch in by_size(sentences, options):
        _, nodes = read_prompts(engine_for(request), batch, width=1)
        for sentence, node in zip(batch, nodes, strict=True):
            total = 0.0 if node is None else sum(node.path()[1])
            found[sentence.index] = ranking.hypothesis(node, total, finished=ended)
    return [found[index] for index in range(len(pairs))]


def by_size(sentences: Sequence[Sentence], options: DecodeConfig) -> Iterator[list[Sentence]]:
    """Batches for one pass, which keeps the scores of every position: fewer tokens at a time."""
    waiting = sorted(sentences, key=size)
    while waiting:
        n_together = max(1, min(options.batch_size, options.batch_tokens // 4 // size(waiting[-1])))
        yield waiting[-n_together:]
        del waiting[-n_together:]


def alternatives(
    models: Models,
    source: Sequence[int],
    prefix: Sequence[int],
    *,
    n: int,
    options: DecodeConfig = DEFAULTS,
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
    found = {sentence.index: outputs[0] for sentence, outputs in decode_each(request, going_on)}
    found[END] = score(request.models, [(source, prefix)], options)[0]
    return [found[token] for token in nexts]
