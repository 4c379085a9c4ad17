"""Is attention the reason? Four measures of what each output word owes to each word that was read, side by side.

- attention: how much was looked at, the mean over layers and heads
- weighted attention: the length of the vectors that attention brought home, which a look alone does not tell
- gradient × input: how steeply the output word's log-probability rises along the read word's own vector
- removal: how much of the output word's log-probability is lost when the read word is not there
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from clearhead.errors import ModelError
from clearhead.look.alignment import belongs
from clearhead.look.labelled import Labelled
from clearhead.look.look import Look
from clearhead.look.tokens import Token, spelled, words
from clearhead.model import Edit, Trace

Table = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reasons:
    """Tables of output words × read words, one for each measure; what a word could not see is not a number."""

    said: tuple[str, ...]
    read: tuple[str, ...]
    measures: Mapping[str, Table]

    def __getitem__(self, measure: str) -> Labelled:
        return Labelled(
            measure,
            self.measures[measure].astype(np.float32),
            ("said", "read"),
            (self.said, self.read),
        )

    @property
    def agreement(self) -> dict[tuple[str, str], float]:
        """Spearman's rank correlation of each two measures, the mean over output words: 1 same order, 0 unrelated."""
        found = {}
        for a, b in combinations(self.measures, 2):
            rows = [spearman(x, y) for x, y in zip(self.measures[a], self.measures[b], strict=True)]
            found[a, b] = float(np.nanmean(rows)) if not np.isnan(rows).all() else float("nan")
        return found

    def __str__(self) -> str:
        tables = [str(self[name]) for name in self.measures]
        ranks = [f"  {value:+.2f}  {a} and {b}" for (a, b), value in self.agreement.items()]
        return "\n\n".join(
            [*tables, "\n".join(["rank agreement, the mean over output words", *ranks])]
        )


def reasons(look: Look) -> Reasons:
    """The four measures for every word that was said."""
    side = "target" if look.family == "decoder" else "source"
    read: tuple[Token, ...] = getattr(look, side)
    rows, said = outputs(look)
    if not rows:
        raise ModelError(
            "Nothing was said, so there are no reasons for it.",
            "Mask a word of the text, or let it write.",
        )
    tables = {
        "attention": attended(look, rows),
        "weighted attention": attended(look, rows, weighted=True),
        "gradient × input": steepness(look, rows, side),
        "removal": removal(look, rows, side),
    }
    places = words(said) or [[row] for row in range(len(rows))]
    names = spelled(said) or tuple(token.text for token in said)
    columns = belongs(read)
    unseen = [
        [
            look.family == "decoder" and places_read[0] > rows[group[0]]
            for places_read in words(read)
        ]
        for group in places
    ]
    merged = {}
    for name, table in tables.items():
        by_word = table if name == "removal" else table @ columns.mT
        over_tokens = torch.mean if "attention" in name else torch.sum  # log-probabilities add up
        whole = torch.stack([over_tokens(by_word[group], dim=0) for group in places]).double()
        merged[name] = whole.masked_fill(torch.tensor(unseen), torch.nan).numpy()
    return Reasons(names, spelled(read), merged)


def outputs(look: Look) -> tuple[list[int], tuple[Token, ...]]:
    """The rows that say something, and what they say."""
    if look.classes:
        best = look.verdict[0]
        return [0], (Token(best.id, best.text, None, True),)
    if look.target:
        rows = [
            row for row in range(look.n_given, len(look.target)) if not look.predicted[row].special
        ]
        return rows, tuple(look.predicted[row] for row in rows)
    best_ids = [int(look.logits[row].argmax()) for row in look.gaps]
    return list(look.gaps), tuple(Token(id_, look.spell([id_])[0], None, True) for id_ in best_ids)


def log_probs(
    look: Look,
    rows: Sequence[int],
    source: Sequence[int],
    target: Sequence[int],
    edits: Mapping[str, Edit],
) -> Float[Tensor, " R"]:
    """The log-probability of what was said, when this is read instead."""
    device = look.model.device
    sides = [torch.tensor([side], device=device) if side else None for side in (source, target)]
    logits = look.model(*sides, tap=Trace(edits))[0].float().cpu()
    ids = [token.id for token in outputs(look)[1]]
    if look.classes:
        scaled = logits / look.temperature
        found: Tensor = (F.logsigmoid(scaled) if look.several else scaled.log_softmax(dim=0))[ids]
        return found
    chosen: Tensor = logits.log_softmax(dim=-1)[list(rows), ids]
    return chosen


def attended(look: Look, rows: Sequence[int], weighted: bool = False) -> Float[Tensor, "R S"]:
    """Attention from the rows that say something to what was read, the mean over layers."""
    kind = "cross" if look.family == "encoder-decoder" else "self"
    tables = []
    for path in (path for path in look.attentions if path.endswith(kind)):
        pattern = look.seen[f"{path}.pattern"]
        if weighted:
            weight = (
                look.part(path).out.weight.detach().float().cpu().unflatten(1, (len(pattern), -1))
            )  # (D, H, K)
            brought = torch.einsum("hsk,dhk->hsd", look.seen[f"{path}.v"], weight)
            tables.append(torch.einsum("hts,hsd->tsd", pattern, brought).norm(dim=-1))
        else:
            tables.append(pattern.mean(dim=0))
    mean = torch.stack(tables).mean(dim=0)
    return (
        mean.mean(dim=0, keepdim=True)
        if look.classes and look.model.config.pooling == "mean"
        else mean[list(rows)]
    )


def steepness(look: Look, rows: Sequence[int], side: str) -> Float[Tensor, "R S"]:
    """|gradient · vector| of every token that was read."""
    vectors: list[Tensor] = []
    path = "encoder.tokens" if side == "source" else "decoder.tokens"
    earlier: Edit | None = look.taps.get(path)

    def leaf(x: Tensor) -> Tensor:
        x = (earlier(x) if earlier else x).detach()
        x.requires_grad = True
        vectors.append(x)
        return x

    source, target = ([token.id for token in tokens] for tokens in (look.source, look.target))
    with torch.enable_grad():
        scores = log_probs(look, rows, source, target, {**look.taps, path: leaf})
        found = [gradient_of(score, vectors[0]) for score in scores]
    products = [(gradient * vectors[0][0].detach()).sum(dim=-1).abs() for gradient in found]
    return torch.stack(products).float().cpu()


def gradient_of(score: Float[Tensor, ""], vectors: Float[Tensor, "1 S D"]) -> Float[Tensor, "S D"]:
    """How the score changes with each number; where it does not depend on them, not at all."""
    (found,) = torch.autograd.grad(
        score, [vectors], retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return found[0]


@torch.inference_mode()
def removal(look: Look, rows: Sequence[int], side: str) -> Float[Tensor, "R W"]:
    """What is lost of each row's log-probability when a word is taken out of what is read."""
    sides = {name: [token.id for token in getattr(look, name)] for name in ("source", "target")}
    whole = log_probs(look, rows, **sides, edits=look.taps)
    columns = []
    for places in words(getattr(look, side)):
        less = {
            **sides,
            side: [number for place, number in enumerate(sides[side]) if place not in places],
        }
        moved = side == look.rows  # rows behind the word move up
        now = [
            max(0, row - sum(place <= row for place in places)) if moved else row for row in rows
        ]
        columns.append(
            whole - log_probs(look, now, **less, edits=look.taps)
            if less[side]
            else torch.zeros(len(rows))
        )
    return torch.stack(columns, dim=1) if columns else torch.zeros(len(rows), 0)


def spearman(a: Table, b: Table) -> float:
    """Rank correlation, over what is a number in both; of fewer than three, none."""
    both = ~(np.isnan(a) | np.isnan(b))
    if both.sum() < 3:
        return float("nan")
    x, y = (ranks(values[both]) for values in (a, b))
    spread = x.std() * y.std()
    return float(((x - x.mean()) * (y - y.mean())).mean() / spread) if spread else float("nan")


def ranks(values: Table) -> Table:
    """Places in order, equal values sharing theirs."""
    below, same = (
        (values[:, None] > values[None]).sum(axis=1),
        (values[:, None] == values[None]).sum(axis=1),
    )
    found: Table = below + (same - 1) / 2
    return found
