"""Log-probabilities of the next token for every hypothesis: models, what they read, and the cache between steps."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from clearhead.decode.plan import Plan, Sentence
from clearhead.decode.tree import Tree, TreeCache
from clearhead.model import Tap, masks


class Cached:
    """Many sentences at once; each step costs the new tokens alone."""

    def __init__(self, plan: Plan, sentences: Sequence[Sentence], width: int) -> None:
        self.steps, self.device = plan.steps, plan.device
        self.source, self.mask = read_sources(plan, sentences)
        self.prompts = padded([sentence.prompt for sentence in sentences], self.device, left=True)
        self.tree = Tree([len(sentence.prompt) for sentence in sentences], self.device)
        # Output is seldom much longer than its source; where it is, the cache grows.
        expected = max(min(sentence.limit, len(sentence.source) + 16) for sentence in sentences)
        capacity = self.prompts.size(1) + width * expected
        self.caches = [
            TreeCache(self.tree, model.config.n_decoder_layers, capacity) for model in plan.models
        ]

    def read_prompts(self, n_last: int) -> Float[Tensor, "N T V"]:
        """The log-probabilities after each of the prompts' last tokens."""
        if self.source is not None:
            for step, cache in zip(self.steps, self.caches, strict=True):
                step.read(self.source, self.mask, cache)
        return self.log_probs(self.prompts, n_last)

    def step(
        self, tokens: Int[Tensor, "N W"], parents: Int[Tensor, "N W"] | None
    ) -> Float[Tensor, "N W V"]:
        """The log-probabilities after each of these tokens, whose parents are hypotheses of the step before."""
        self.tree.grow(parents)
        return self.log_probs(tokens)

    def log_probs(
        self, tokens: Int[Tensor, "N W"], n_last: int | None = None
    ) -> Float[Tensor, "N L V"]:
        pairs = zip(self.steps, self.caches, strict=True)
        return ensemble([step(tokens, self.mask, cache, n_last) for step, cache in pairs])

    def keep(self, sentences: Int[Tensor, " R"]) -> None:
        """The other sentences leave the batch."""
        self.tree.keep(sentences)
        self.source = None if self.source is None else self.source[sentences]
        self.mask = None if self.mask is None else self.mask[sentences]
        for cache in self.caches:
            cache.reorder(sentences)
            cache.keep_sources(sentences)

    def join(self, other: "Cached | Uncached") -> None:
        """The sentences of another batch come in below."""
        assert isinstance(other, Cached), "one sentence has no company"
        if self.source is not None and other.source is not None:
            width = max(self.source.size(1), other.source.size(1))
            self.mask = torch.cat([batch.source_mask(width) for batch in (self, other)])
            self.source = torch.cat(
                [wider(source, width) for source in (self.source, other.source)]
            )
        n_unused = self.tree.forget()
        for mine, theirs in zip(self.caches, other.caches, strict=True):
            mine.forget(n_unused)
            mine.join(theirs)
        self.tree.join(other.tree)

    def source_mask(self, width: int) -> Bool[Tensor, "N 1 1 S"]:
        """What may be looked at when the sources are padded to a width."""
        assert self.source is not None, "a mask belongs to a source"
        mask = (
            masks.padding(torch.ones_like(self.source, dtype=torch.bool))
            if self.mask is None
            else self.mask
        )
        return wider(mask, width)


class Uncached:
    """One sentence, every step from scratch and through a tap: slow, but edits see the sequences that a trace sees."""

    def __init__(self, plan: Plan, sentences: Sequence[Sentence], tap: Tap) -> None:
        (sentence,) = sentences
        self.models, self.tap, self.device = plan.models, tap, plan.device
        self.ids = torch.tensor([sentence.prompt], device=self.device)
        source, self.mask = read_sources(plan, sentences)
        self.memories = [
            None if source is None else model.encode(source, self.mask, tap=tap)
            for model in self.models
        ]

    def read_prompts(self, n_last: int) -> Float[Tensor, "1 T V"]:
        return self.log_probs()[:, -n_last:]

    def step(
        self, tokens: Int[Tensor, "1 W"], parents: Int[Tensor, "1 W"] | None
    ) -> Float[Tensor, "1 W V"]:
        ids = self.ids if parents is None else self.ids[parents[0]]
        self.ids = torch.cat([ids, tokens.mT], dim=1)
        return self.log_probs()[:, -1][None]

    def log_probs(self) -> Float[Tensor, "W T V"]:
        n_rows = self.ids.size(0)
        mask = None if self.mask is None else self.mask.expand(n_rows, -1, -1, -1)
        logits = []
        for model, memory in zip(self.models, self.memories, strict=True):
            rows = None if memory is None else memory.expand(n_rows, -1, -1)
            x = model.decode(self.ids, rows, mask, tap=self.tap)
            logits.append(model.logits(x, self.tap))
        return ensemble(logits)

    def keep(self, sentences: Int[Tensor, " R"]) -> None:  # noqa: ARG002
        raise AssertionError("one sentence has no company")

    def join(self, other: "Cached | Uncached") -> None:  # noqa: ARG002
        raise AssertionError("one sentence has no company")


def forward_of(plan: Plan, sentences: Sequence[Sentence], width: int) -> Cached | Uncached:
    """Cached, unless somebody wants to edit on the way."""
    return (
        Cached(plan, sentences, width) if plan.tap is None else Uncached(plan, sentences, plan.tap)
    )


def ensemble(logits: list[Tensor]) -> Float[Tensor, "..."]:
    """The logarithm of the mean probability."""
    log_probs = [each.log_softmax(dim=-1) for each in logits]
    return (
        log_probs[0]
        if len(logits) == 1
        else torch.stack(log_probs).logsumexp(dim=0) - math.log(len(logits))
    )


def read_sources(
    plan: Plan, sentences: Sequence[Sentence]
) -> tuple[Int[Tensor, "N S"] | None, Bool[Tensor, "N 1 1 S"] | None]:
    """The sources side by side, and a mask where some are shorter than others; neither for a model that reads none."""
    if not plan.reads:
        return None, None
    lengths = torch.tensor([len(sentence.source) for sentence in sentences], device=plan.device)
    source = padded([sentence.source for sentence in sentences], plan.device)
    if lengths.min() == source.size(1):
        return source, None
    real = torch.arange(source.size(1), device=plan.device) < lengths[:, None]
    return source, masks.padding(real)


def padded(
    rows: Sequence[Sequence[int]], device: torch.device, left: bool = False
) -> Int[Tensor, "N S"]:
    """Rows of one length, at least 1; what stands in the padding is never looked at."""
    width = max(1, *map(len, rows)) if rows else 1
    fill = [[0] * (width - len(row)) for row in rows]
    return torch.tensor(
        [[*f, *row] if left else [*row, *f] for f, row in zip(fill, rows, strict=True)],
        device=device,
    )


def wider(rows: Shaped[Tensor, "... R"], width: int) -> Shaped[Tensor, "... S"]:
    """Rows that are padded further at their end, with zeros or with False."""
    return F.pad(rows, (0, width - rows.size(-1)))
