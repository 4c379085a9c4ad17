"""The older way: an LSTM or a GRU reads word by word, and attention asks what the encoder kept.

The encoder reads the source from both ends, half of the width each way. The decoder begins with
what the backward half knew at the first word (Bahdanau et al., 2015), and asks the source after its
last layer (Luong et al., 2015). With input feeding its answer goes into the next step.

torch's LSTM and GRU do the arithmetic where nobody listens. Where a tap does, it is spelled out
step by step, with the same result.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from clearhead.config import ModelConfig
from clearhead.model.attention import attend, merge_heads
from clearhead.model.dropout import Dropout
from clearhead.model.sequence import Model
from clearhead.model.tap import SILENT, Tap

State = tuple[Tensor, ...]
"""What a layer remembers between two words: the state h, and of an LSTM also the cell c."""
Gates = Sequence[Float[Tensor, "B T D"]]
"""What goes into each gate from one side, before its sigmoid or tanh."""


def lstm_step(x: Gates, h: Gates, state: State, tap: Tap = SILENT) -> State:
    """c' = f ⊙ c + i ⊙ g and h' = o ⊙ tanh(c'), where i, f, o = σ(W x + U h + b), g = tanh(…)."""
    i = tap("input", (x[0] + h[0]).sigmoid())
    f = tap("forget", (x[1] + h[1]).sigmoid())
    g = tap("candidate", (x[2] + h[2]).tanh())
    o = tap("output", (x[3] + h[3]).sigmoid())
    cell = tap("cell", f * state[1] + i * g)
    return tap("state", o * cell.tanh()), cell


def gru_step(x: Gates, h: Gates, state: State, tap: Tap = SILENT) -> State:
    """h' = (1 - z) ⊙ n + z ⊙ h, where r, z = σ(W x + U h + b) and n = tanh(W x + b + r ⊙ (U h + b'))."""
    r = tap("reset", (x[0] + h[0]).sigmoid())
    z = tap("update", (x[1] + h[1]).sigmoid())
    n = tap("candidate", (x[2] + r * h[2]).tanh())
    return (tap("state", (1 - z) * n + z * state[0]),)


STEPS: dict[str, Callable[[Gates, Gates, State, Tap], State]] = {"lstm": lstm_step, "gru": gru_step}
GATES = {
    "lstm": ("input", "forget", "candidate", "output"),
    "gru": ("reset", "update", "candidate"),
}
"""In the order in which torch lays their weights one above the other."""


class Rows(Tap):
    """Hands a tap whole sequences, while a recurrence makes them row by row.

    At each step the tap sees the rows that there are, the others being zero, and the step goes on
    with its own row of what comes back: an edit of a gate acts on all that follows in time. Two
    directions are at different rows, each with its half of the columns.
    """

    listening = True

    def __init__(self, tap: Tap, n_rows: int) -> None:
        self.tap, self.n_rows = tap, n_rows
        self.at: Sequence[int] = (0,)
        self.whole: dict[str, Tensor] = {}

    def __call__(self, name: str, x: Float[Tensor, "... 1 X"]) -> Float[Tensor, "... 1 X"]:
        n_halves, shape = len(self.at), (*x.shape[:-2], self.n_rows, x.size(-1))
        whole = self.whole.get(name, x.new_zeros(shape)).chunk(n_halves, dim=-1)
        parts = zip(whole, x.chunk(n_halves, dim=-1), self.at, strict=True)
        self.whole[name] = torch.cat(
            [rows.slice_scatter(new, -2, row, row + 1) for rows, new, row in parts], dim=-1
        )
        back = self.tap(name, self.whole[name]).chunk(n_halves, dim=-1)
        return torch.cat(
            [rows[..., row : row + 1, :] for rows, row in zip(back, self.at, strict=True)], dim=-1
        )


class RecurrentLayer(nn.Module):
    """One layer over a sequence: from left to right, or from both ends (bidirectional)."""

    def __init__(self, config: ModelConfig, d_in: int, both_ways: bool = False) -> None:
        super().__init__()
        self.kind = config.architecture
        self.cells = (nn.LSTM if self.kind == "lstm" else nn.GRU)(
            d_in,
            config.d_model // (2 if both_ways else 1),
            bias=config.bias,
            batch_first=True,
            bidirectional=both_ways,
        )
        self.ends = ("", "_reverse") if both_ways else ("",)

    def forward(
        self,
        x: Float[Tensor, "B T X"],
        real: Bool[Tensor, "B T"] | None = None,
        start: State | None = None,
        tap: Tap = SILENT,
    ) -> Float[Tensor, "B T D"]:
        """The states; those of padding are zero, and nothing is read there."""
        if tap.listening:
            return self.spelled_out(x, real, start or self.nothing(x), tap=tap)
        begin = tuple(each.transpose(0, 1) for each in start or ())
        hx = (begin if self.kind == "lstm" else begin[0]) if begin else None
        if real is None:
            states: Tensor = self.cells(x, hx)[0]
            return states
        packed = pack_padded_sequence(
            x, real.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(
            self.cells(packed, hx)[0], batch_first=True, total_length=x.size(1)
        )
        return states

    def nothing(self, x: Float[Tensor, "B T X"]) -> State:
        """The state before anything was read."""
        zero = x.new_zeros(len(x), 1, self.cells.hidden_size * len(self.ends))
        return (zero, zero) if self.kind == "lstm" else (zero,)

    def spelled_out(
        self, x: Float[Tensor, "B T X"], real: Bool[Tensor, "B T"] | None, state: State, *, tap: Tap
    ) -> Float[Tensor, "B T D"]:
        n_rows, n_units = x.size(1), self.cells.hidden_size
        rows, found = Rows(tap, n_rows), list[Tensor]()
        is_real = x.new_ones(x.shape[:2], dtype=torch.bool) if real is None else real
        for t in range(n_rows):
            rows.at = (t, n_rows - 1 - t)[: len(self.ends)]
            new = self.step([x[:, row : row + 1] for row in rows.at], state, rows)
            # Padding changes no state.
            halves = [is_real[:, row, None, None].expand(-1, 1, n_units) for row in rows.at]
            is_read = torch.cat(halves, dim=-1)
            state = tuple(torch.where(is_read, *each) for each in zip(new, state, strict=True))
            found.append(state[0] * is_read)
        ways = zip(*(each.chunk(len(self.ends), dim=-1) for each in found), strict=True)
        # The second direction comes from the end.
        ordered = zip(ways, (1, -1), strict=False)
        return torch.cat([torch.cat(way[::by], dim=1) for way, by in ordered], dim=-1)

    def step(self, x: Sequence[Float[Tensor, "B 1 X"]], state: State, tap: Tap = SILENT) -> State:
        """One word further; of two directions each has its own."""
        h = state[0].chunk(len(self.ends), dim=-1)
        return STEPS[self.kind](self.gates(x, "ih"), self.gates(h, "hh"), state, tap)

    def gates(self, vectors: Sequence[Float[Tensor, "B 1 X"]], side: str) -> Gates:
        """W v + b for each gate; the directions stand side by side."""
        each = [
            F.linear(
                vector,
                getattr(self.cells, f"weight_{side}_l0{end}"),
                getattr(self.cells, f"bias_{side}_l0{end}", None),
            ).chunk(len(GATES[self.kind]), dim=-1)
            for vector, end in zip(vectors, self.ends, strict=True)
        ]
        return [torch.cat(gate, dim=-1) for gate in zip(*each, strict=True)]


class SourceAttention(nn.Module):
    """One head that asks the source: by dot product (Luong), or by a small network (Bahdanau)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dropout = config.attention_dropout
        self.query = nn.Linear(config.d_model, config.d_model, bias=False)
        if config.attention == "additive":
            self.key = nn.Linear(config.d_model, config.d_model, bias=config.bias)
            self.energy = nn.Linear(config.d_model, 1, bias=False)
        self.combine = nn.Linear(2 * config.d_model, config.d_model, bias=config.bias)

    @property
    def of_z(self) -> Float[Tensor, "D D"]:
        """The part of a matrix that z goes through on its way out; the state goes through the rest."""
        return self.combine.weight[:, : self.combine.out_features]

    def keys_and_values(
        self, memory: Float[Tensor, "B S D"], tap: Tap = SILENT
    ) -> tuple[Float[Tensor, "B 1 S D"], Float[Tensor, "B 1 S D"]]:
        """What is compared with queries, and what is mixed: the encoder's vectors themselves."""
        k = self.key(memory) if hasattr(self, "key") else memory
        return tap("k", k[:, None]), tap("v", memory[:, None])

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        source: tuple[Float[Tensor, "B 1 S D"], Float[Tensor, "B 1 S D"]],
        mask: Bool[Tensor, "#B 1 1 S"] | None = None,
        tap: Tap = SILENT,
    ) -> Float[Tensor, "B T D"]:
        """tanh(W [z ; h]): the decoder's state together with what it found in the source."""
        q, dropout = tap("q", self.query(x)[:, None]), self.dropout if self.training else 0.0
        if hasattr(self, "energy"):
            pattern = self.additive_pattern(q, source[0], mask, tap=tap)
            z = F.dropout(pattern, dropout) @ source[1]
        else:
            z = attend(q, *source, mask, dropout, tap)
        found = torch.cat([merge_heads(tap("z", z)), x], dim=-1)
        return tap("out", self.combine(found).tanh())

    def additive_pattern(
        self,
        q: Float[Tensor, "B 1 T D"],
        k: Float[Tensor, "B 1 S D"],
        mask: Bool[Tensor, "#B 1 1 S"] | None,
        *,
        tap: Tap = SILENT,
    ) -> Float[Tensor, "B 1 T S"]:
        """softmax(w · tanh(q + k)), the score of every word against every other."""
        energies: Tensor = self.energy((q[:, :, :, None] + k[:, :, None]).tanh())
        scores = tap("scores", energies[..., 0])
        masked = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
        return tap("pattern", tap("masked", masked).softmax(dim=-1))


class RecurrentEncoder(nn.Module):
    """Layers that read the source from both ends."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(
            RecurrentLayer(config, config.d_model, both_ways=True)
            for _ in range(config.n_encoder_layers)
        )

    def forward(
        self, x: Float[Tensor, "B S D"], real: Bool[Tensor, "B S"] | None, tap: Tap = SILENT
    ) -> Float[Tensor, "B S D"]:
        x = tap("tokens", x)
        for index, layer in enumerate(self.layers):
            x = layer(self.dropout(x), real, tap=tap.into(str(index)))
        return tap("out", x)


class RecurrentDecoder(nn.Module):
    """Layers that read from left to right, and where there is a source, attention to it on top."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dropout = Dropout(config.dropout)
        self.feeds = config.input_feeding and config.reads
        widths = [
            config.d_model * (2 if self.feeds and not n else 1)
            for n in range(config.n_decoder_layers)
        ]
        self.layers = nn.ModuleList(RecurrentLayer(config, width) for width in widths)
        if config.reads:
            self.start = nn.Linear(config.d_model // 2, config.n_decoder_layers * config.d_model)
            self.cross = SourceAttention(config)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"] | None = None,
        mask: Bool[Tensor, "#B 1 1 S"] | None = None,
        tap: Tap = SILENT,
    ) -> Float[Tensor, "B T D"]:
        x = tap("tokens", x)
        states = self.states(x, memory, tap)
        source = None if memory is None else self.cross.keys_and_values(memory, tap.into("cross"))
        if self.feeds and source is not None:
            return tap("out", self.fed(x, states, source, mask=mask, tap=tap))
        for index, (layer, state) in enumerate(zip(self.layers, states, strict=True)):
            x = layer(self.dropout(x), start=state, tap=tap.into(str(index)))
        x = self.dropout(x)
        if source is not None:
            x = self.dropout(self.cross(x, source, mask, tap.into("cross")))
        return tap("out", x)

    @property
    def readers(self) -> list[RecurrentLayer]:
        return [each for each in self.layers if isinstance(each, RecurrentLayer)]

    def states(
        self, x: Float[Tensor, "B T D"], memory: Float[Tensor, "B S D"] | None, tap: Tap = SILENT
    ) -> list[State]:
        """Each layer's state before the first word: what the backward encoder knew at its end."""
        nothing = [layer.nothing(x) for layer in self.readers]
        if memory is None:
            return nothing
        known = self.start(memory[:, 0, memory.size(2) // 2 :]).tanh()
        starts = tap("start", known.unflatten(1, (len(nothing), -1)))  # (B, L, D)
        return [(starts[:, n : n + 1], *state[1:]) for n, state in enumerate(nothing)]

    def fed(
        self,
        x: Float[Tensor, "B T D"],
        states: list[State],
        source: tuple[Float[Tensor, "B 1 S D"], Float[Tensor, "B 1 S D"]],
        *,
        mask: Bool[Tensor, "#B 1 1 S"] | None,
        tap: Tap,
    ) -> Float[Tensor, "B T D"]:
        """Input feeding: what a step made of the source goes into the next one, beside its word."""
        names = (*map(str, range(len(self.layers))), "cross")
        taps = [Rows(tap.into(name), x.size(1)) if tap.listening else tap for name in names]
        answers = [torch.zeros_like(x[:, :1])]
        for t in range(x.size(1)):
            for each in taps:
                if isinstance(each, Rows):
                    each.at = (t,)
            row = torch.cat([self.dropout(x[:, t : t + 1]), answers[-1]], dim=-1)
            for n, layer in enumerate(self.readers):
                states[n] = layer.step([row], states[n], taps[n])
                row = self.dropout(states[n][0])
            answers.append(self.dropout(self.cross(row, source, mask, taps[-1])))
        return torch.cat(answers[1:], dim=1)


class Recurrent(Model):
    """An LSTM or a GRU: each word waits for the one before it."""

    encoder: RecurrentEncoder
    decoder: RecurrentDecoder

    def make_stacks(self, config: ModelConfig) -> None:
        if config.reads:
            self.encoder = RecurrentEncoder(config)
        if config.writes:
            self.decoder = RecurrentDecoder(config)

    def encode(
        self,
        source: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B 1 1 S"] | None = None,
        *,
        tap: Tap = SILENT,
    ) -> Float[Tensor, "B S D"]:
        real = None if mask is None else mask[:, 0, 0]
        memory: Tensor = self.encoder(self.source_vectors(source), real, tap.into("encoder"))
        return memory

    def decode(
        self,
        target: Int[Tensor, "B T"],
        memory: Float[Tensor, "B S D"] | None = None,
        mask: Bool[Tensor, "#B 1 1 S"] | None = None,
        tap: Tap = SILENT,
    ) -> Float[Tensor, "B T D"]:
        tokens = self.look_up(self.tokens, target)
        x: Tensor = self.decoder(tokens, memory, mask, tap.into("decoder"))
        return x
