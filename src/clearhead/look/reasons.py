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
from clearhead.look.labelled import LabelledTensor, as_batch, patterns, with_edit
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
        **{
            name: attention_paid(look, rows, weighted) @ columns.mT
            for name, weighted in looked.items()
        },
        "gradient × input": steepness(look, side) @ columns.mT,
        "removal": removal(look, side),
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
    look: Replay,
    rows: Sequence[int],
    edits: Mapping[str, Edit],
    *,
    n: int = 1,
    instead: Mapping[str, Sequence[Token]] | None = None,
) -> Float[Tensor, "N R V"]:
    """The log-probabilities of all tokens or classes in some rows, in each of n passes at once.

    `instead` is what is read in place of a side.
    """
    sides = {"source": look.source, "target": look.target, **(instead or {})}
    batch = as_batch(look.model, *([token.id for token in side] for side in sides.values()), n=n)
    logits = look.model(*batch, tap=Trace(edits)).float().cpu()
    scores = logits[:, None] / look.temperature if look.classes else logits[:, list(rows)]
    return F.logsigmoid(scores) if look.several else scores.log_softmax(dim=-1)


def picked(logs: Float[Tensor, "N R V"], said: Sequence[Token]) -> Float[Tensor, "N R"]:
    """The log-probability of what was said in each row."""
    return logs[:, range(len(said)), [token.id for token in said]]


def attention_paid(
    look: Replay, rows: Sequence[int], weighted: bool = False
) -> Float[Tensor, "R S"]:
    """Attention from the rows that say something to what was read, the mean over layers."""
    kind = "cross" if look.family == "encoder-decoder" else "self"
    tables = []
    for path, pattern in patterns(look.seen, kind).items():
        if weighted:
            brought = look.head_outputs(path, "v")
            tables.append(torch.einsum("hts,hsd->tsd", pattern, brought).norm(dim=-1))
        else:
            tables.append(pattern.mean(dim=0))
    mean = torch.stack(tables).mean(dim=0)
    pooled = look.classes and look.model.config.pooling == "mean"
    return mean.mean(dim=0, keepdim=True) if pooled else mean[list(rows)]


def steepness(look: Replay, side: str) -> Float[Tensor, "R S"]:
    """|gradient · vector| of every token that was read, for each output."""
    rows, said = outputs(look)
    vectors: list[Tensor] = []

    def leaf(x: Tensor) -> Tensor:
        vectors.append(x.detach().requires_grad_())
        return vectors[0]

    stack = "encoder" if side == "source" else "decoder"
    edits = with_edit(look.taps, f"{stack}.tokens", leaf)
    with torch.enable_grad():
        # where a score does not depend on what was read, its gradient is zero
        found = [
            torch.autograd.grad(
                score, vectors, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            for score in picked(log_probs(look, rows, edits), said)[0]
        ]
    products = [(gradient * vectors[0].detach())[0].sum(dim=-1).abs() for (gradient,) in found]
    return torch.stack(products).float().cpu()


@torch.inference_mode()
def removal(look: Replay, side: str) -> Float[Tensor, "R W"]:
    """What is lost of each output's log-probability when a word is taken out of what is read."""
    read: tuple[Token, ...] = getattr(look, side)
    rows, said = outputs(look)
    whole = picked(log_probs(look, rows, look.taps), said)[0]
    columns = [torch.zeros(len(rows), 0)]
    for places in word_places(read):
        rest = [token for place, token in enumerate(read) if place not in places]
        now = rows
        if side == look.rows:  # rows behind the word move up
            now = [max(0, row - sum(place <= row for place in places)) for row in rows]
        logs = log_probs(look, now, look.taps, instead={side: rest}) if rest else None
        less = whole if logs is None else picked(logs, said)[0]
        columns.append((whole - less)[:, None])
    return torch.cat(columns, dim=1)
