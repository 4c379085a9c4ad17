"""How each kind of number inside a recurrent model is made: gates, cells, states, attention.

Of the columns of an encoder's layer, the first half belongs to the direction that reads forwards
and the second to the one that reads backwards, for which the word before is the next one.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from clearhead.look.by_hand import RULES, Cell, Lines, Named, Vector, double, softmax
from clearhead.model.recurrent import GATES


class RecurrentCell(Cell):
    """One place in one part of a recurrent model."""

    # Where things are

    @property
    def layer(self) -> int:
        return int(self.kind)

    @property
    def cells(self) -> Any:
        """torch's LSTM or GRU, which holds the weights."""
        return self.modules.layers[self.layer].cells

    @property
    def n_units(self) -> int:
        return int(self.cells.hidden_size)

    @property
    def way(self) -> int:
        """0 where it reads forwards, 1 backwards."""
        return self.col // self.n_units

    def read(self) -> Named:
        """The input of a layer at this word; with input feeding, the last output of attention beside it."""
        if self.layer:
            return self.told(f"{self.stack}.{self.layer - 1}.state")
        name, word = self.told(f"{self.stack}.tokens")
        if self.stack == "encoder" or not self.modules.feeds:
            return name, word
        answers = double(self.look.seen["decoder.cross.out"])
        before = answers[self.row - 1] if self.row else np.zeros_like(word)
        return f"[{name} ; decoder.cross.out[{self.row - 1}]]", np.concatenate([word, before])

    def earlier(self, name: str) -> Vector:
        """The states, or the cells, of this direction one word before."""
        found, row = self.seen(name), self.row + (1 if self.way else -1)
        if 0 <= row < len(found):
            return found[row, self.way * self.n_units :][: self.n_units]
        if name == "state" and "decoder.start" in self.look.seen and self.stack == "decoder":
            return double(self.look.seen["decoder.start"][self.layer])
        return np.zeros(self.n_units)

    def before(self, name: str) -> float:
        return float(self.earlier(name)[self.col % self.n_units])

    # Gates

    def side(self, name: str, side: str, gate: int, vector: Named) -> Lines:
        """A gate's row of a matrix times what is read, or the state before, and its bias."""
        end, place = ("", "_reverse")[self.way], gate * self.n_units + self.col % self.n_units
        row = double(getattr(self.cells, f"weight_{side}_l0{end}"))[place]
        bias = getattr(self.cells, f"bias_{side}_l0{end}", None)
        return self.dot(vector, (f"{name} row", row), bias, place)

    def gate(self, name: str) -> Lines:
        """σ or tanh of W x + b + U h + b'; a GRU's reset gate stands before U h + b'."""
        number, letter = GATES[self.config.architecture].index(name), name[0].upper()
        x = self.side(f"W_{letter}", "ih", number, self.read())
        h = self.side(f"U_{letter}", "hh", number, ("state before", self.earlier("state")))
        if self.config.architecture == "gru" and name == "candidate":
            reset = self.here("reset")
            h.append((f"× reset {reset:.4f}", h[-1][1] * reset))
        lines = [*x, *h, ("both together", x[-1][1] + h[-1][1])]
        if name == "candidate":
            return with_tanh(lines)
        return [*lines, ("σ(x) = 1 ÷ (1 + exp(−x))", 1 / (1 + math.exp(-lines[-1][1])))]

    def remembered(self) -> Lines:
        """c' = f ⊙ c + i ⊙ g."""
        old, new = self.before("cell"), self.here("candidate")
        f, i = self.here("forget"), self.here("input")
        return [
            (f"forget {f:.4f} × cell before {old:.4f}", f * old),
            (f"+ input {i:.4f} × candidate {new:.4f}", f * old + i * new),
        ]

    def state(self) -> Lines:
        """h' = o ⊙ tanh(c'), or (1 − z) ⊙ n + z ⊙ h."""
        if self.config.architecture == "lstm":
            squashed, o = math.tanh(self.here("cell")), self.here("output")
            return [("tanh(cell)", squashed), (f"× output {o:.4f}", o * squashed)]
        z, old, new = self.here("update"), self.before("state"), self.here("candidate")
        return [
            (f"(1 − update {z:.4f}) × candidate {new:.4f}", (1 - z) * new),
            (f"+ update {z:.4f} × state before {old:.4f}", (1 - z) * new + z * old),
        ]

    def start(self) -> Lines:
        """The first state of a decoder's layer; the row is the number of the layer."""
        known = double(self.look.seen["encoder.out"])[0, self.config.d_model // 2 :]
        place, layer = self.row * self.config.d_model + self.col, self.modules.start
        return with_tanh(self.linear(("encoder.out[0], backwards", known), "W_start", layer, place))

    # Attention

    def key(self) -> Lines:
        if self.config.attention == "dot":
            return self.copied("encoder.out")
        return self.linear(self.told("encoder.out"), "W_K", self.modules.cross.key, self.col)

    def weight(self) -> Lines:
        """The attention of a word to the source: by dot product, or by w · tanh(q + k) (additive)."""
        if self.config.attention == "dot":
            return super().weight()
        energy = double(self.modules.cross.energy.weight)[0]
        together = np.tanh(self.seen("q")[0, self.row] + self.seen("k")[0])
        lines = self.dot(("w", energy), ("tanh(q + k)", together[self.col]))
        return [*lines, ("mask: may look", lines[-1][1]), *softmax(together @ energy, self.col)]

    def out(self) -> Lines:
        """The output of attention, tanh(W [z ; h]), or that of a stack."""
        if self.kind != "cross":
            asks = self.stack == "decoder" and "decoder.cross.out" in self.look.seen
            return self.copied("decoder.cross.out" if asks else self.last)
        both = np.concatenate([self.seen("z")[0, self.row], self.vector(self.last)])
        named = f"[z ; {self.last}[{self.row}]]", both
        return with_tanh(self.linear(named, "W_C", self.modules.cross.combine, self.col))


def with_tanh(lines: Lines) -> Lines:
    return [*lines, ("tanh(x)", math.tanh(lines[-1][1]))]


RECURRENT_RULES: dict[str, Callable[[Any], Lines]] = {
    **{gate: partial(RecurrentCell.gate, name=gate) for gates in GATES.values() for gate in gates},
    "tokens": Cell.tokens,
    "cell": RecurrentCell.remembered,
    "state": RecurrentCell.state,
    "start": RecurrentCell.start,
    "q": lambda cell: cell.linear(cell.told(cell.last), "W_Q", cell.modules.cross.query, cell.col),
    "k": RecurrentCell.key,
    "v": lambda cell: cell.copied("encoder.out"),
    "scores": lambda cell: cell.weight()[:1],
    "scaled": lambda cell: cell.weight()[:2],
    "masked": lambda cell: cell.weight()[: 3 if cell.config.attention == "dot" else 2],
    "pattern": RecurrentCell.weight,
    "z": Cell.z,
    "out": RecurrentCell.out,
    **{name: RULES[name] for name in ("logits", "probs", "classes")},
}
"""How each tensor's numbers are made, by the last part of its path."""
