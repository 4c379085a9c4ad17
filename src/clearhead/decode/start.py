"""What both searches begin and end with: forced prefixes, and texts as tensors for the rules."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.decode.engine import Engine, padded
from clearhead.decode.hypothesis import Node, grown
from clearhead.decode.plan import Sentence
from clearhead.decode.rules import NOTHING


def read_prompts(
    engine: Engine, sentences: Sequence[Sentence], width: int
) -> tuple[Float[Tensor, "N 1 V"], list[Node | None]]:
    """The log-probabilities of the first token to choose, and the prefixes that are already written."""
    longest = max(sentence.n_prefix for sentence in sentences)
    log_probs = engine.read(sentences, width)
    if not longest:
        return log_probs, [None] * len(sentences)
    tokens = padded([sentence.prefix for sentence in sentences], log_probs.device, left=True)
    written = log_probs[:, :-1].gather(2, tokens[..., None])[..., 0].tolist()
    return log_probs[:, -1:], [
        chain(sentence.prefix, row) for sentence, row in zip(sentences, written, strict=True)
    ]


def chain(tokens: Sequence[int], log_probs: Sequence[float]) -> Node | None:
    """A text that is already written; its log-probabilities are the last ones."""
    node = None
    for token, log_prob in zip(tokens, log_probs[len(log_probs) - len(tokens) :], strict=True):
        node = grown(node, token, log_prob)
    return node


def texts(
    rows: Sequence[Sequence[Node | None]], width: int, device: torch.device
) -> Int[Tensor, "N W T"]:
    """What each hypothesis has written, ending in the same column; sentences with fewer are filled up."""
    paths = [[[] if node is None else node.path()[0] for node in nodes] for nodes in rows]
    length = max(len(path) for nodes in paths for path in nodes)
    full = [[[NOTHING] * (length - len(path)) + path for path in nodes] for nodes in paths]
    full = [nodes + [[NOTHING] * length] * (width - len(nodes)) for nodes in full]
    return torch.tensor(full, dtype=torch.long, device=device).view(len(rows), width, length)
