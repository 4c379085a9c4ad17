"""How each kind of number in a Transformer is made, one cell at a time and in double precision."""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from clearhead.look.replay import Replay
from clearhead.model.block import ACTIVATIONS

Vector = NDArray[np.float64]
N_TERMS = 3
"""Products that are written out; the rest are counted."""
Lines = list[tuple[str, float]]
"""Each step of the arithmetic and what it comes to; the last is the number."""


@dataclass(frozen=True)
class Cell:
    """One place in one part of the model, and how each kind of number is made there."""

    look: Replay
    part: str
    """The path without the tensor's name: decoder.1.cross, decoder.1, decoder."""
    row: int
    col: int
    head: int
    operands: dict[str, Vector] = field(default_factory=dict)

    # Where things are

    def seen(self, name: str) -> Vector:
        """A tensor of this part."""
        return double(self.look.seen[f"{self.part}.{name}"])

    @property
    def stack(self) -> str:
        return self.part.partition(".")[0]

    @property
    def kind(self) -> str:
        return self.part.rpartition(".")[2]

    @property
    def pre(self) -> bool:
        return self.look.model.config.norm == "pre"

    @property
    def left(self) -> str:
        """What a sub-layer leaves in the stream."""
        return "add" if self.pre else "norm"

    def stream(self) -> tuple[str, Vector]:
        """What passes by a sub-layer and is added to its output (the residual stream)."""
        block, _, kind = self.part.rpartition(".")
        name = {"self": "resid_pre", "cross": f"self.{self.left}", "ff": "resid_mid"}[kind]
        return f"{block}.{name}", double(self.look.seen[f"{block}.{name}"])

    def entry(self) -> tuple[str, Vector]:
        """What a sub-layer reads."""
        return (f"{self.part}.norm", self.seen("norm")) if self.pre else self.stream()

    def copied(self, path: str) -> Lines:
        """The same number stands at another path."""
        return [(path, float(double(self.look.seen[path])[self.row, self.col]))]

    def dot(
        self,
        a: tuple[str, Vector],
        b: tuple[str, Vector],
        bias: Tensor | None = None,
        place: int = 0,
    ) -> Lines:
        """A sum of products, and the bias."""
        self.operands.update((a, b))
        products = [f"{x:.3f}·{y:.3f}" for x, y in zip(a[1], b[1], strict=True)]
        more = f" + … {len(products) - N_TERMS} more" if len(products) > N_TERMS else ""
        total = float(a[1] @ b[1])
        lines = [(f"{a[0]} · {b[0]} = {' + '.join(products[:N_TERMS])}{more}", total)]
        if bias is not None:
            lines.append((f"+ bias {bias[place]:.4f}", total + float(double(bias)[place])))
        return lines

    def linear(self, x: tuple[str, Vector], matrix: str, layer: nn.Linear, place: int) -> Lines:
        """What comes in, times a column of a layer's matrix, and its bias."""
        return self.dot(x, (f"{matrix} column", double(layer.weight)[place]), layer.bias, place)

    # Attention

    def projected(self, name: Literal["q", "k", "v"]) -> Lines:
        """A query, key or value of what the sub-layer reads, or of the encoder's output."""
        path, x = self.entry()
        if self.kind == "cross" and name != "q":
            path, x = "encoder.out", double(self.look.seen["encoder.out"])
        qkv, config = self.look.part(self.part).qkv, self.look.model.config
        # queries, keys and values stand one above the other, and in each of them the heads
        first = "qkv".index(name) * config.d_model + self.head * (config.d_model // config.n_heads)
        came = f"{path}[{self.row}]", x[self.row]
        return self.linear(came, f"W_{name.upper()}", qkv, first + self.col)

    def scores(self) -> Lines:
        q, k = self.seen("q")[self.head, self.row], self.seen("k")[self.head, self.col]
        return self.dot(("q", q), ("k", k))

    def scaled(self) -> Lines:
        lines, d_k = self.scores(), self.seen("q").shape[-1]
        return [*lines, (f"÷ √{d_k}", lines[-1][1] / math.sqrt(d_k))]

    def masked(self) -> Lines:
        lines = self.scaled()
        may = self.may_look()[self.col]
        last = ("mask: may look", lines[-1][1]) if may else ("mask: a later token", -math.inf)
        return [*lines, last]

    def may_look(self) -> NDArray[np.bool_]:
        """Which keys the row may look at: in a decoder, none that come later."""
        n_keys = self.seen("k").shape[1]
        causal = self.stack == "decoder" and self.kind == "self"
        return np.arange(n_keys) <= self.row if causal else np.ones(n_keys, dtype=bool)

    def pattern(self) -> Lines:
        lines = self.masked()
        keys, query = self.seen("k")[self.head], self.seen("q")[self.head, self.row]
        row = np.where(self.may_look(), keys @ query / math.sqrt(len(query)), -math.inf)
        return [*lines, *softmax(row, self.col)]

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
        stack = getattr(self.look.model, self.stack)
        last = f"{self.stack}.{len(stack.layers) - 1}.resid_post"
        through_norm = self.pre and self.normed(last, double(self.look.seen[last]), stack.norm)
        return through_norm or self.copied(last)

    # Add & norm

    def add(self) -> Lines:
        name, x = self.stream()
        before, new = float(x[self.row, self.col]), float(self.seen("out")[self.row, self.col])
        return [(name, before), (f"+ {self.part}.out {new:.4f}", before + new)]

    def norm(self) -> Lines:
        x = self.stream() if self.pre else (f"{self.part}.add", self.seen("add"))
        return self.normed(*x, self.look.norm_of(self.part))

    def normed(self, name: str, x: Float[np.ndarray, "T D"], norm: nn.Module) -> Lines:
        """(x − mean) ÷ deviation, times a gain, plus a bias."""
        row = x[self.row]
        self.operands[name] = row
        mean, deviation = float(row.mean()), math.sqrt(row.var() + self.look.model.config.norm_eps)
        weights = {key: float(double(weight)[self.col]) for key, weight in norm.named_parameters()}
        value = (float(row[self.col]) - mean) / deviation
        lines = [
            (f"{name}[{self.row}, {self.col}]", float(row[self.col])),
            ("mean of the row", mean),
            ("deviation of the row, √(variance + ε)", deviation),
            ("(x − mean) ÷ deviation", value),
        ]
        if "weight" in weights:
            lines.append((f"× gain {weights['weight']:.4f}", value := value * weights["weight"]))
        if "bias" in weights:
            lines.append((f"+ bias {weights['bias']:.4f}", value + weights["bias"]))
        return lines

    # Feed-forward

    def hidden_in(self) -> Lines:
        name, x = self.entry()
        came, inner = (f"{name}[{self.row}]", x[self.row]), self.look.part(self.part).inner
        return self.linear(came, "W₁", inner, self.col)

    def hidden(self) -> Lines:
        name = self.look.model.config.activation
        before = torch.tensor(self.seen("pre")[self.row, self.col])
        text = "max(0, x)" if name == "relu" else name
        return [("pre", float(before)), (text, float(ACTIVATIONS[name](before)))]

    # Into the stacks and out of them

    def tokens(self) -> Lines:
        model, config = self.look.model, self.look.model.config
        encodes = self.stack == "encoder"
        table = model.source_tokens if encodes and hasattr(model, "source_tokens") else model.tokens
        token = (self.look.source if encodes else self.look.target)[self.row]
        number = float(double(table.weight)[token.id, self.col])
        scaled = (f"× √{config.d_model}", number * math.sqrt(config.d_model))
        lines = [(f"embedding of {token.text} (row {token.id})", number), scaled]
        return lines if config.scale_embeddings else lines[:1]

    def positions(self) -> Lines:
        config = self.look.model.config
        if config.positions == "learned":
            table = double(getattr(self.look.model, self.stack).positions.table)
            return [(f"learned vector of position {self.row}", float(table[self.row, self.col]))]
        i, name = self.col // 2, "cos" if self.col % 2 else "sin"
        angle = self.row / 10_000 ** (2 * i / config.d_model)
        lines = [(f"{self.row} ÷ 10000^({2 * i}/{config.d_model})", angle)]
        return [*lines, (f"{name} of it", math.cos(angle) if self.col % 2 else math.sin(angle))]

    def types(self) -> Lines:
        table = double(getattr(self.look.model, self.stack).types.weight)
        return [("vector of segment 0", float(table[0, self.col]))]

    def embedded(self) -> Lines:
        parts = ("tokens", "positions", "types")
        names = [name for name in parts if f"{self.part}.{name}" in self.look.seen]
        rows = [self.seen(name) for name in names]
        if self.look.model.config.embedding_norm:
            norm = getattr(self.look.model, self.stack).norm_embedding
            return self.normed(" + ".join(names), np.sum(rows, axis=0), norm)
        numbers = [float(row[self.row, self.col]) for row in rows]
        return [*zip(names, numbers, strict=True), ("sum", sum(numbers))]

    def resid_pre(self) -> Lines:
        before = int(self.kind) - 1
        first = f"{self.stack}.embedded"
        return self.copied(f"{self.stack}.{before}.resid_post" if before >= 0 else first)

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

    def probs(self) -> Lines:
        return [*self.logits(), *softmax(double(self.look.logits)[self.row], self.col)]

    def classes(self) -> Lines:
        """A class's score, from the one vector that stands for the whole text."""
        head, out = self.look.model.classifier, self.look.seen["encoder.out"].double()
        pooled = out[0] if head.pooling == "first" else out.mean(dim=0)
        x = np.tanh(double(head.dense.weight) @ double(pooled) + double(head.dense.bias))
        name = f"tanh of the {head.pooling} vector through a layer"
        weights = "weights of the class", double(head.out.weight)[self.row]
        return self.dot((name, x), weights, head.out.bias, self.row)


RULES: dict[str, Callable[[Cell], Lines]] = {
    "tokens": Cell.tokens,
    "positions": Cell.positions,
    "types": Cell.types,
    "embedded": Cell.embedded,
    "q": lambda cell: cell.projected("q"),
    "k": lambda cell: cell.projected("k"),
    "v": lambda cell: cell.projected("v"),
    "scores": Cell.scores,
    "scaled": Cell.scaled,
    "masked": Cell.masked,
    "pattern": Cell.pattern,
    "z": Cell.z,
    "concat": Cell.concat,
    "out": Cell.out,
    "add": Cell.add,
    "norm": Cell.norm,
    "pre": Cell.hidden_in,
    "hidden": Cell.hidden,
    "resid_pre": Cell.resid_pre,
    "resid_mid": Cell.resid_mid,
    "resid_post": lambda cell: cell.copied(f"{cell.part}.ff.{cell.left}"),
    "logits": Cell.logits,
    "probs": Cell.probs,
    "classes": Cell.classes,
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
