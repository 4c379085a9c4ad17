"""How each kind of number inside a recurrent model is made: gates, cells, states, attention.

Of the columns of an encoder's layer, the first half belongs to the direction that reads forwards
and the second to the one that reads backwards, for which the word before is the next one.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from clearhead.look.cell import RULES, Cell, Lines, Vector, double, softmax
from clearhead.model.recurrent import GATES


class RecurrentCell(Cell):
    """One place in one part of a recurrent model."""

    # Where things are

    @property
    def config(self) -> Any:
        return self.look.model.config

    @property
    def layer(self) -> int:
        return int(self.kind)

    @property
    def cells(self) -> Any:
        """torch's LSTM or GRU, which holds the weights."""
        return self.modules.layers[self.layer].cells

    @property
    def way(self) -> int:
        """0 where it reads forwards, 1 backwards."""
        return self.col // int(self.cells.hidden_size)

    @property
    def last(self) -> str:
        """The path of the last layer's states."""
        return f"{self.stack}.{len(self.modules.layers) - 1}.state"

    def read(self) -> tuple[str, Vector]:
        """What comes into a layer at this word; with input feeding, the last answer beside it."""
        if self.layer:
            return self.told(f"{self.part.rpartition('.')[0]}.{self.layer - 1}.state")
        name, word = self.told(f"{self.stack}.tokens")
        if self.stack == "encoder" or not self.modules.feeds:
            return name, word
        answers = double(self.look.seen["decoder.cross.out"])
        before = answers[self.row - 1] if self.row else np.zeros_like(word)
        return f"[{name} ; decoder.cross.out[{self.row - 1}]]", np.concatenate([word, before])

    def earlier(self, name: str) -> Vector:
        """The states, or the cells, of this direction one word before."""
        n_units, found = int(self.cells.hidden_size), self.seen(name)
        row = self.row + (1 if self.way else -1)
        if 0 <= row < len(found):
            return found[row, self.way * n_units : (self.way + 1) * n_units]
        if name == "state" and "decoder.start" in self.look.seen and self.stack == "decoder":
            return double(self.look.seen["decoder.start"][self.layer])
        return np.zeros(n_units)

    # Gates

    def side(self, name: str, side: str, gate: int, vector: tuple[str, Vector]) -> Lines:
        """A gate's row of a matrix times what is read, or the state before, and its bias."""
        end, unit = ("", "_reverse")[self.way], self.col % self.cells.hidden_size
        place = gate * self.cells.hidden_size + unit
        row = double(getattr(self.cells, f"weight_{side}_l0{end}"))[place]
        bias = getattr(self.cells, f"bias_{side}_l0{end}", None)
        return self.dot(vector, (f"{name} row", row), bias, place)

    def gate(self, name: str) -> Lines:
        """σ or tanh of W x + b + U h + b'; a GRU's reset gate stands before U h + b'."""
        number = GATES[self.config.architecture].index(name)
        letter = name[0].upper()
        x = self.side(f"W_{letter}", "ih", number, self.read())
        state = self.earlier("state")
        h = self.side(f"U_{letter}", "hh", number, ("state before", state))
        lines, total = [*x, *h], h[-1][1]
        if self.config.architecture == "gru" and name == "candidate":
            reset = float(self.seen("reset")[self.row, self.col])
            total *= reset
            lines.append((f"× reset {reset:.4f}", total))
        lines.append(("both together", x[-1][1] + total))
        if name == "candidate":
            return [*lines, ("tanh(x)", math.tanh(lines[-1][1]))]
        return [*lines, ("σ(x) = 1 ÷ (1 + exp(−x))", 1 / (1 + math.exp(-lines[-1][1])))]

    def here(self, name: str) -> float:
        return float(self.seen(name)[self.row, self.col])

    def before(self, name: str) -> float:
        return float(self.earlier(name)[self.col % self.cells.hidden_size])

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
        """What a decoder's layer, which is the row here, begins with."""
        known = double(self.look.seen["encoder.out"])[0, self.config.d_model // 2 :]
        begin, place = self.modules.start, self.row * self.config.d_model + self.col
        lines = self.linear(("encoder.out[0], backwards", known), "W_start", begin, place)
        return [*lines, ("tanh(x)", math.tanh(lines[-1][1]))]

    # Attention

    def query(self) -> Lines:
        return self.linear(self.told(self.last), "W_Q", self.modules.cross.query, self.col)

    def key(self) -> Lines:
        if self.config.attention == "dot":
            return self.copied("encoder.out")
        return self.linear(self.told("encoder.out"), "W_K", self.modules.cross.key, self.col)

    def weight(self) -> Lines:
        """How much a word looks at the source: a dot product, or w · tanh(q + k)."""
        if self.config.attention == "dot":
            return super().weight()
        query, keys = self.seen("q")[0, self.row], self.seen("k")[0]
        energy = double(self.modules.cross.energy.weight)[0]
        lines = self.dot(("w", energy), ("tanh(q + k)", np.tanh(query + keys[self.col])))
        row = np.tanh(query + keys) @ energy
        return [*lines, ("mask: may look", lines[-1][1]), *softmax(row, self.col)]

    def out(self) -> Lines:
        """An answer, tanh(W [z ; h]), or what leaves a stack."""
        if self.kind != "cross":
            asks = self.stack == "decoder" and "decoder.cross.out" in self.look.seen
            return self.copied("decoder.cross.out" if asks else self.last)
        both = np.concatenate([self.seen("z")[0, self.row], self.vector(self.last)])
        named = f"[z ; {self.last}[{self.row}]]", both
        lines = self.linear(named, "W_C", self.modules.cross.combine, self.col)
        return [*lines, ("tanh(x)", math.tanh(lines[-1][1]))]


def gate_rule(name: str) -> Callable[[RecurrentCell], Lines]:
    return lambda cell: cell.gate(name)


RECURRENT_RULES: dict[str, Callable[[Any], Lines]] = {
    **{name: gate_rule(name) for names in GATES.values() for name in names},
    "tokens": Cell.tokens,
    "cell": RecurrentCell.remembered,
    "state": RecurrentCell.state,
    "start": RecurrentCell.start,
    "q": RecurrentCell.query,
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
