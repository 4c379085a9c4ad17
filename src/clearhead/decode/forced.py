"""How likely a model finds a given text, what else it would have said, and text as it is being written."""

from collections.abc import Callable, Generator, Iterator, Sequence

import torch

from clearhead.config import DecodeConfig
from clearhead.decode.batches import size
from clearhead.decode.choice import top
from clearhead.decode.decoder import DEFAULTS, SPECIALS, decode_each
from clearhead.decode.engine import engine_for
from clearhead.decode.hypothesis import Hypothesis
from clearhead.decode.plan import Models, Plan, Sentence, checked, never
from clearhead.decode.ranking import Ranking, hypothesis
from clearhead.decode.rules import Rules
from clearhead.decode.single import Single
from clearhead.decode.start import read_prompts
from clearhead.model import Tap


@torch.inference_mode()
def score(
    models: Models,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    options: DecodeConfig = DEFAULTS,
    *,
    start: int = 1,
    end: int = 2,
    ended: bool = True,
) -> list[Hypothesis]:
    """Given outputs for given sources as if they had been decoded: their log-probabilities, and their score.

    An output that is not `ended` is scored without the end token, like one that was cut off.
    """
    plan = Plan(checked(models), options, start, end)
    sentences = [
        plan.sentence(index, source, (*target, *([end] if ended else [])))
        for index, (source, target) in enumerate(pairs)
    ]
    ranking, found = Ranking(options), {}
    for batch in by_size(sentences, options):
        _, nodes = read_prompts(engine_for(plan), batch, 1)
        for sentence, node in zip(batch, nodes, strict=True):
            total = 0.0 if node is None else sum(node.path()[1])
            found[sentence.index] = hypothesis(node, total, ranking, finished=ended)
    return [found[index] for index in range(len(pairs))]


def by_size(sentences: Sequence[Sentence], options: DecodeConfig) -> Iterator[list[Sentence]]:
    """Batches for one pass, which keeps the scores of every position and so takes fewer tokens at a time."""
    waiting = sorted(sentences, key=size)
    while waiting:
        n_together = max(1, min(options.batch_size, options.batch_tokens // 4 // size(waiting[-1])))
        yield waiting[-n_together:]
        del waiting[-n_together:]


def alternatives(
    models: Models,
    source: Sequence[int],
    prefix: Sequence[int],
    n: int,
    options: DecodeConfig = DEFAULTS,
    *,
    start: int = 1,
    end: int = 2,
    blocked: Sequence[int] = SPECIALS,
) -> list[Hypothesis]:
    """What could follow the prefix: its n likeliest next tokens, likeliest first, each with its best continuation."""
    plan = Plan(checked(models), options.but(n_best=1), start, end, tuple(blocked))
    sentence = plan.sentence(0, source, prefix)
    with torch.inference_mode():
        log_probs, _ = read_prompts(engine_for(plan), [sentence], 1)
        values, tokens = top(Rules(plan).block(log_probs), min(n, log_probs.size(2)))
    nexts = tokens[values > -torch.inf].tolist()
    going_on = [plan.sentence(token, source, (*prefix, token)) for token in nexts if token != end]
    found = dict(decode_each(plan, going_on))
    ending = score(plan.models, [(source, prefix)], options, start=start, end=end)
    return [ending[0] if token == end else found[token][0] for token in nexts]


def stream(
    models: Models,
    source: Sequence[int],
    options: DecodeConfig = DEFAULTS,
    *,
    prefix: Sequence[int] = (),
    start: int = 1,
    end: int = 2,
    blocked: Sequence[int] = SPECIALS,
    tap: Tap | None = None,
    should_stop: Callable[[], bool] = never,
) -> Generator[int, None, Hypothesis]:
    """The tokens of one output, each as soon as it is decided: the best, or at a temperature one drawn at random.

    They are those that `decode` finds for this source alone with a beam of 1; the whole is the generator's value.
    """
    plan = Plan(checked(models), options, start, end, tuple(blocked), tap)
    with (
        torch.inference_mode()
    ):  # only while computing: what the caller does in between is no business of ours
        batch = Single(plan, [plan.sentence(0, source, prefix)])
    (draft,) = batch.drafts
    while True:
        if draft.node is not None and not draft.ended:
            yield draft.node.token
        if draft.done or should_stop():
            return batch.take_all()[0][1][0]
        with torch.inference_mode():
            batch.advance()
