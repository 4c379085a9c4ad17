"""Is attention the reason? Four measures (attributions) of what outputs owe to inputs.

- attention: how much was looked at, the mean over layers and heads
- weighted attention: the length of the vectors that attention brought along
- gradient × input: how steeply the output's log-probability rises along the read word's own vector
- removal: how much of it is lost when the read word is not there (occlusion)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from clearhead.errors import ModelError
from clearhead.look.labelled import LabelledTensor, as_batch, patterns
from clearhead.look.replay import Replay
from clearhead.look.words import Token, membership, word_places, word_texts
from clearhead.metrics import spearman
from clearhead.model import Edit, Trace

Table = Float[np.ndarray, "..."]


@dataclass(frozen=True, eq=False, kw_only=True)
class Reasons:
    """Output words × read words, for each measure; what a word could not see is not a number."""

    said: tuple[str, ...]
    read: tuple[str, ...]
    measures: Mapping[str, Table]

    def __getitem__(self, measure: str) -> LabelledTensor:
        values = self.measures[measure].astype(np.float32)
        return LabelledTensor(measure, values, ("said", "read"), (self.said, self.read))

    @property
    def agreement(self) -> dict[tuple[str, str], float]:
        """Spearman's rank correlation of each two measures, the mean over output words."""
        found = {}
        for a, b in combinations(self.measures, 2):
            rows = list(map(spearman, self.measures[a], self.measures[b]))
            found[a, b] = float(np.nanmean(rows)) if not np.isnan(rows).all() else float("nan")
        return found

    def __str__(self) -> str:
        tables = [self[name].table() for name in self.measures]
        ranks = [f"\n  {value:+.2f}  {a} and {b}" for (a, b), value in self.agreement.items()]
        return "\n\n".join([*tables, "rank agreement, the mean over output words" + "".join(ranks)])


def reasons(look: Replay) -> Reasons:
    """Four measures of what each output word owes to each word that was read, attention first."""
    side = "target" if look.family == "decoder" else "source"
    read: tuple[Token, ...] = getattr(look, side)
    rows, said = outputs(look)
    if not rows:
        raise ModelError(
            "Nothing was said, so there are no reasons for it.",
            "Mask a word of the text, or let it write.",
        )
    if not word_places(read):
        raise ModelError(
            "Nothing was read, so there are no reasons in it.", "Give a text with a word in it."
        )
    columns = membership(read)
    # rows are output tokens, columns words that were read; a recurrent writer has no attention
    looked = {"attention": False, "weighted attention": True} if look.attentions else {}
    tables = {
        **{name: attended(look, rows, weighted) @ columns.mT for name, weighted in looked.items()},
        "gradient × input": steepness(look, rows, side) @ columns.mT,
        "removal": removal(look, rows, side),
    }
    groups = word_places(said) or [[row] for row in range(len(rows))]
    # a decoder's word cannot owe anything to what comes later
    unseen = [
        [look.family == "decoder" and places[0] > rows[group[0]] for places in word_places(read)]
        for group in groups
    ]
    return Reasons(
        said=word_texts(said) or tuple(token.text for token in said),
        read=word_texts(read),
        measures={
            name: over_words(name, table, groups)
            .masked_fill(torch.tensor(unseen), torch.nan)
            .numpy()
            for name, table in tables.items()
        },
    )


def over_words(
    name: str, table: Float[Tensor, "R W"], groups: Sequence[Sequence[int]]
) -> Float[Tensor, "G W"]:
    """The rows of each output word's tokens in one: log-probabilities add up, attention does not."""
    over_tokens = torch.mean if "attention" in name else torch.sum
    return torch.stack([over_tokens(table[group], dim=0) for group in groups]).double()


def outputs(look: Replay) -> tuple[list[int], tuple[Token, ...]]:
    """The rows that say something, and what they say."""
    if look.target:
        spoken = enumerate(look.predicted[look.n_given :], start=look.n_given)
        rows = [row for row, token in spoken if not token.special]
        return rows, tuple(look.predicted[row] for row in rows)
    rows = [0] if look.classes else list(look.gaps)
    best = look.verdict[:1] if look.classes else [look.alternatives(row, 1)[0] for row in rows]
    return rows, tuple(Token(each.id, each.text, None, True) for each in best)


def log_probs(
    look: Replay, rows: Sequence[int], edits: Mapping[str, Edit], **instead: Sequence[Token]
) -> Float[Tensor, " R"]:
    """The log-probability of what was said, also when something else is read on a side."""
    sides = {"source": look.source, "target": look.target, **instead}
    batch = as_batch(look.model, *([token.id for token in side] for side in sides.values()))
    logits: Tensor = look.model(*batch, tap=Trace(edits))[0].float().cpu()
    ids = [token.id for token in outputs(look)[1]]
    if look.classes:
        scaled = logits / look.temperature
        return (F.logsigmoid(scaled) if look.several else scaled.log_softmax(dim=0))[ids]
    return logits.log_softmax(dim=-1)[list(rows), ids]


def attended(look: Replay, rows: Sequence[int], weighted: bool = False) -> Float[Tensor, "R S"]:
    """Attention from the rows that say something to what was read, the mean over layers."""
    kind = "cross" if look.family == "encoder-decoder" else "self"
    tables = []
    for path, pattern in patterns(look.seen, kind).items():
        if weighted:
            weight = look.part(path).of_z.detach().float().cpu()
            by_head = weight.unflatten(1, (len(pattern), -1))  # (D, H, K)
            brought = torch.einsum("hsk,dhk->hsd", look.seen[f"{path}.v"], by_head)
            tables.append(torch.einsum("hts,hsd->tsd", pattern, brought).norm(dim=-1))
        else:
            tables.append(pattern.mean(dim=0))
    mean = torch.stack(tables).mean(dim=0)
    pooled = look.classes and look.model.config.pooling == "mean"
    return mean.mean(dim=0, keepdim=True) if pooled else mean[list(rows)]


def steepness(look: Replay, rows: Sequence[int], side: str) -> Float[Tensor, "R S"]:
    """|gradient · vector| of every token that was read."""
    vectors: list[Tensor] = []
    path = "encoder.tokens" if side == "source" else "decoder.tokens"
    earlier: Edit = look.taps.get(path, lambda x: x)

    def leaf(x: Tensor) -> Tensor:
        vectors.append(earlier(x).detach().requires_grad_())
        return vectors[0]

    with torch.enable_grad():
        scores = log_probs(look, rows, {**look.taps, path: leaf})
        # where a score does not depend on what was read, its gradient is zero
        found = [
            torch.autograd.grad(
                score, vectors, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            for score in scores
        ]
    products = [(gradient * vectors[0].detach())[0].sum(dim=-1).abs() for (gradient,) in found]
    return torch.stack(products).float().cpu()


@torch.inference_mode()
def removal(look: Replay, rows: Sequence[int], side: str) -> Float[Tensor, "R W"]:
    """What is lost of each row's log-probability when a word is taken out of what is read."""
    read: tuple[Token, ...] = getattr(look, side)
    whole = log_probs(look, rows, look.taps)
    columns = [torch.zeros(len(rows), 0)]
    for places in word_places(read):
        rest = [token for place, token in enumerate(read) if place not in places]
        now = list(rows)
        if side == look.rows:  # rows behind the word move up
            now = [max(0, row - sum(place <= row for place in places)) for row in rows]
        less = log_probs(look, now, look.taps, **{side: rest}) if rest else whole
        columns.append((whole - less)[:, None])
    return torch.cat(columns, dim=1)
