"""How each kind of number inside a Transformer is computed, step by step, in the paper's order.

Each number is computed again in double precision from the tensors and weights that go into it. Tests
check for every kind of number that the result is what the model had. The numbers inside an LSTM or
a GRU are in `gates.py`.
"""

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from clearhead.look.labelled import stream_of
from clearhead.look.replay import Replay
from clearhead.model.block import ACTIVATIONS

Vector = NDArray[np.float64]
Named = tuple[str, Vector]
"""A vector and what it is called."""
Lines = list[tuple[str, float]]
"""Steps of an arithmetic, each with what it comes to."""
N_TERMS = 3
"""Products that are written out; the rest are counted."""


@dataclass(frozen=True, kw_only=True)
class ByHand:
    """One number and how it was computed; `str()` tells it line by line."""

    path: str
    where: str
    """The labels of its row and column."""
    lines: tuple[tuple[str, float], ...]
    """Each step of the arithmetic and what it comes to; the last is the number."""
    model: float
    """What the model had, in single precision."""
    operands: Mapping[str, Vector]
    """The vectors that went in, whole."""
    edited: bool
    """The model's own number was replaced here, so the two need not agree."""

    @property
    def value(self) -> float:
        """The number, computed again."""
        return self.lines[-1][1]

    @property
    def agrees(self) -> bool:
        """Single precision keeps about seven digits of the largest number on the way."""
        largest = max((abs(value) for _, value in self.lines if math.isfinite(value)), default=0.0)
        return self.value == self.model or abs(self.value - self.model) <= 2e-5 * max(1.0, largest)

    def __str__(self) -> str:
        width = max(len(text) for text, _ in self.lines)
        steps = [f"  {text.ljust(width)}  = {value:.6g}" for text, value in self.lines]
        verdict = "edited here" if self.edited else "agrees" if self.agrees else "differs"
        end = f"  computed anew {self.value:.6g}, the model had {self.model:.6g}: {verdict}"
        return "\n".join([f"{self.path}  [{self.where}]", *steps, end])


class Cell:
    """One place in one part of the model, and how each kind of number is made there."""

    def __init__(self, look: Replay, part: str, row: int, col: int, head: int) -> None:
        # the part is the path without the tensor's name: decoder.1.cross, decoder.1, decoder
        self.look, self.part, self.row, self.col, self.head = look, part, row, col, head
        self.config = look.model.config
        self.stack, self.kind = part.partition(".")[0], part.rpartition(".")[2]
        self.modules: Any = getattr(look.model, self.stack)
        # what a sub-layer leaves in the residual stream
        self.left = "add" if self.config.norm == "pre" else "norm"
        self.operands: dict[str, Vector] = {}

    # Where things are

    @property
    def stream(self) -> str:
        """The path of what passes by this sub-layer."""
        return stream_of(self.part, self.left)

    @property
    def entry(self) -> str:
        """The path of what a sub-layer reads."""
        return f"{self.part}.norm" if self.config.norm == "pre" else self.stream

    @property
    def last(self) -> str:
        """The path of what leaves the last layer."""
        name = "state" if self.config.recurs else "resid_post"
        return f"{self.stack}.{len(self.modules.layers) - 1}.{name}"

    def seen(self, name: str) -> Vector:
        return double(self.look.seen[f"{self.part}.{name}"])

    def here(self, name: str) -> float:
        return float(self.seen(name)[self.row, self.col])

    def vector(self, path: str) -> Vector:
        return double(self.look.seen[path][self.row])

    def told(self, path: str) -> Named:
        return f"{path}[{self.row}]", self.vector(path)

    def copied(self, path: str) -> Lines:
        return [(path, float(self.vector(path)[self.col]))]

    def dot(self, a: Named, b: Named, bias: Tensor | None = None, place: int = 0) -> Lines:
        self.operands.update((a, b))
        products = [f"{x:.3f}·{y:.3f}" for x, y in zip(a[1], b[1], strict=True)]
        more = f" + … {len(products) - N_TERMS} more" if len(products) > N_TERMS else ""
        total = float(a[1] @ b[1])
        lines = [(f"{a[0]} · {b[0]} = {' + '.join(products[:N_TERMS])}{more}", total)]
        if bias is not None:
            lines.append((f"+ bias {bias[place]:.4f}", total + float(double(bias)[place])))
        return lines

    def linear(self, x: Named, matrix: str, layer: nn.Linear, place: int) -> Lines:
        """What comes in, times a column of a layer's matrix, and its bias."""
        return self.dot(x, (f"{matrix} column", double(layer.weight)[place]), layer.bias, place)

    # Attention

    def projected(self, name: Literal["q", "k", "v"]) -> Lines:
        """A query, key or value of what the sub-layer reads, or of the encoder's output."""
        path = "encoder.out" if self.kind == "cross" and name != "q" else self.entry
        # queries, keys and values stand one above the other, and in each of them the heads
        d_model, d_k = self.config.d_model, self.config.d_model // self.config.n_heads
        place = "qkv".index(name) * d_model + self.head * d_k + self.col
        qkv = self.look.part(self.part).qkv
        return self.linear(self.told(path), f"W_{name.upper()}", qkv, place)

    def weight(self) -> Lines:
        """How much the row looks at a key, in four steps: score, scale, mask and softmax."""
        query, keys = self.seen("q")[self.head, self.row], self.seen("k")[self.head]
        lines, root = self.dot(("q", query), ("k", keys[self.col])), math.sqrt(len(query))
        lines.append((f"÷ √{len(query)}", lines[-1][1] / root))
        row = keys @ query / root
        if self.stack == "decoder" and self.kind == "self":
            row[self.row + 1 :] = -math.inf
        is_later = math.isinf(row[self.col])
        mask = ("mask: a later token", -math.inf) if is_later else ("mask: may look", lines[-1][1])
        return [*lines, mask, *softmax(row, self.col)]

    def z(self) -> Lines:
        weights = self.seen("pattern")[self.head, self.row]
        values = self.seen("v")[self.head, :, self.col]
        return self.dot(("pattern", weights), (f"v[:, {self.col}]", values))

    def concat(self) -> Lines:
        z = self.seen("z")
        head, column = divmod(self.col, z.shape[-1])
        return [(f"z of head {head}, column {column}", float(z[head, self.row, column]))]

    def out(self) -> Lines:
        """The output of an attention, of a feed-forward network or of a whole stack."""
        if "." in self.part:
            name, matrix = ("hidden", "W₂") if self.kind == "ff" else ("concat", "W_O")
            layer = self.look.part(self.part).out
            return self.linear((name, self.seen(name)[self.row]), matrix, layer, self.col)
        if self.config.norm == "pre":
            return self.normed(self.last, self.vector(self.last), self.modules.norm)
        return self.copied(self.last)

    # Add & norm

    def add(self) -> Lines:
        before, new = self.copied(self.stream), self.here("out")
        return [*before, (f"+ {self.part}.out {new:.4f}", before[0][1] + new)]

    def norm(self) -> Lines:
        path = self.stream if self.config.norm == "pre" else f"{self.part}.add"
        return self.normed(path, self.vector(path), self.look.norm_of(self.part))

    def normed(self, name: str, row: Vector, norm: nn.Module) -> Lines:
        """(x − mean) ÷ deviation, times a gain, plus a bias."""
        self.operands[name] = row
        mean, deviation = float(row.mean()), math.sqrt(row.var() + self.config.norm_eps)
        value = (float(row[self.col]) - mean) / deviation
        lines = [
            (f"{name}[{self.row}, {self.col}]", float(row[self.col])),
            ("mean of the row", mean),
            ("deviation of the row, √(variance + ε)", deviation),
            ("(x − mean) ÷ deviation", value),
        ]
        weights = {key: float(double(weight)[self.col]) for key, weight in norm.named_parameters()}
        if "weight" in weights:
            lines.append((f"× gain {weights['weight']:.4f}", value := value * weights["weight"]))
        if "bias" in weights:
            lines.append((f"+ bias {weights['bias']:.4f}", value + weights["bias"]))
        return lines

    # Feed-forward

    def hidden(self) -> Lines:
        name, before = self.config.activation, torch.tensor(self.here("pre"), dtype=torch.float64)
        text = "max(0, x)" if name == "relu" else name
        return [("pre", float(before)), (text, float(ACTIVATIONS[name](before)))]

    # Into the stacks and out of them

    def tokens(self) -> Lines:
        model, encodes = self.look.model, self.stack == "encoder"
        table = getattr(model, "source_tokens", model.tokens) if encodes else model.tokens
        token = (self.look.source if encodes else self.look.target)[self.row]
        number = float(double(table.weight)[token.id, self.col])
        lines, d_model = (
            [(f"embedding of {token.text} (row {token.id})", number)],
            self.config.d_model,
        )
        if self.config.scale_embeddings:
            lines.append((f"× √{d_model}", number * math.sqrt(d_model)))
        return lines

    def positions(self) -> Lines:
        d_model = self.config.d_model
        if self.config.positions == "learned":
            table = double(self.modules.positions.table)
            return [(f"learned vector of position {self.row}", float(table[self.row, self.col]))]
        pair, is_cos = divmod(self.col, 2)
        if self.config.positions == "halves":
            is_cos, pair = divmod(self.col, d_model // 2)
        angle = self.row / 10_000 ** (2 * pair / d_model)
        wave = ("cos of it", math.cos(angle)) if is_cos else ("sin of it", math.sin(angle))
        return [(f"{self.row} ÷ 10000^({2 * pair}/{d_model})", angle), wave]

    def embedded(self) -> Lines:
        parts = ("tokens", "positions", "types")
        rows = {
            name: self.seen(name)[self.row]
            for name in parts
            if f"{self.part}.{name}" in self.look.seen
        }
        if self.config.embedding_norm:
            together = np.sum([*rows.values()], axis=0)
            return self.normed(" + ".join(rows), together, self.modules.norm_embedding)
        numbers = [(name, float(row[self.col])) for name, row in rows.items()]
        return [*numbers, ("sum", sum(number for _, number in numbers))]

    def resid_pre(self) -> Lines:
        before = f"{int(self.kind) - 1}.resid_post" if int(self.kind) else "embedded"
        return self.copied(f"{self.stack}.{before}")

    def resid_mid(self) -> Lines:
        last = "cross" if f"{self.part}.cross.out" in self.look.seen else "self"
        return self.copied(f"{self.part}.{last}.{self.left}")

    # Out of the model

    def logits(self) -> Lines:
        head = deepcopy(self.look.model.head).double().cpu()
        x = head.transform(self.look.seen[f"{self.stack}.out"].double()[self.row])
        name = f"{self.stack}.out[{self.row}]{' through a layer' if head.dense is not None else ''}"
        vector = double(head.matrix(self.look.model.tokens.weight))[self.col]
        token = f"vector of {self.look.spell([self.col])[0]}"
        return self.dot((name, double(x)), (token, vector), head.bias, self.col)

    def classes(self) -> Lines:
        """A class's score, from the one vector that stands for the whole text."""
        head = deepcopy(self.look.model.classifier).double().cpu()
        out = self.look.seen["encoder.out"].double()
        pooled = out[0] if head.pooling == "first" else out.mean(dim=0)
        x = double(head.activation(head.dense(pooled)))
        name = f"{self.config.pooled} of the {head.pooling} vector through a layer"
        weights = "weights of the class", double(head.out.weight)[self.row]
        lines = self.dot((name, x), weights, head.out.bias, self.row)
        if not self.config.n_grams:
            return lines
        beside = float(self.look.seen["encoder.ngrams"][self.row])
        return [*lines, ("score of the n-grams", beside), ("sum", lines[-1][1] + beside)]

    def ngrams(self) -> Lines:
        """A class's score by a linear model: the values of the text's n-grams and their weights."""
        ngrams, factor = self.look.model.ngrams, self.config.ngram_weight
        source = torch.tensor([[token.id for token in self.look.source]], device=ngrams.bias.device)
        columns, values = (each[0] for each in ngrams.features(source, None))
        known = values > 0
        found = "values of the n-grams", double(values[known])
        weights = "weights of the class", double(ngrams.weight[columns[known], self.row])
        lines = self.dot(found, weights, ngrams.bias, self.row)
        return [*lines, (f"× model.ngram_weight = {factor}", lines[-1][1] * factor)]


RULES: dict[str, Callable[[Cell], Lines]] = {
    "tokens": Cell.tokens,
    "positions": Cell.positions,
    "types": lambda cell: [
        ("vector of segment 0", float(double(cell.modules.types.weight)[0, cell.col]))
    ],
    "embedded": Cell.embedded,
    "q": lambda cell: cell.projected("q"),
    "k": lambda cell: cell.projected("k"),
    "v": lambda cell: cell.projected("v"),
    "scores": lambda cell: cell.weight()[:1],
    "scaled": lambda cell: cell.weight()[:2],
    "masked": lambda cell: cell.weight()[:3],
    "pattern": Cell.weight,
    "z": Cell.z,
    "concat": Cell.concat,
    "out": Cell.out,
    "add": Cell.add,
    "norm": Cell.norm,
    "pre": lambda cell: cell.linear(
        cell.told(cell.entry), "W₁", cell.look.part(cell.part).inner, cell.col
    ),
    "hidden": Cell.hidden,
    "resid_pre": Cell.resid_pre,
    "resid_mid": Cell.resid_mid,
    "resid_post": lambda cell: cell.copied(f"{cell.part}.ff.{cell.left}"),
    "logits": Cell.logits,
    "probs": lambda cell: [
        *cell.logits(),
        *softmax(double(cell.look.logits)[cell.row], cell.col),
    ],
    "classes": Cell.classes,
    "ngrams": Cell.ngrams,
}
"""How each tensor's numbers are made, by the last part of its path."""


def softmax(row: Vector, place: int) -> Lines:
    """One share of a softmax; the largest number is taken off first, which keeps exp small."""
    largest = float(row.max())
    powers = np.exp(row - largest)
    total = float(powers.sum())
    return [
        (f"exp(x − {largest:.4f}), the largest of its row", float(powers[place])),
        (f"sum of all {len(row)} such powers", total),
        ("÷ sum", float(powers[place]) / total),
    ]


def double(x: Tensor) -> Vector:
    return x.detach().double().cpu().numpy()
