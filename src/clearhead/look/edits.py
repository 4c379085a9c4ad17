"""Break it: edits by name, each of which takes away one idea of the Transformer, and what that does to the output.

Some edits put a tensor in the place of a later one: the scores before the mask for those behind it, say. They hold on
to what passed, so a set of edits is for one thread.
"""

import difflib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from clearhead.config import ModelConfig
from clearhead.errors import ConfigError, shown
from clearhead.look.look import Look, replayed, without_head
from clearhead.model import Edit

Taps = Iterator[tuple[str, Edit]]
"""What to do at which path."""


@dataclass(frozen=True)
class Edits:
    """What to change inside, and in the text that is read."""

    names: tuple[str, ...] = ()
    taps: Mapping[str, Edit] = field(default_factory=dict)
    words: Mapping[int, str] = field(default_factory=dict)
    """Words of the input by number, and what stands there instead."""

    def __bool__(self) -> bool:
        return bool(self.names)

    def swapped(self, text: str) -> str:
        """The text with some of its words replaced."""
        found = text.split(" ")
        for number, word in self.words.items():
            if not 0 <= number < len(found):
                raise ConfigError(
                    f"swap: there is no word {number} in a text of {len(found)}, counted from 0.",
                    f"{HELP}",
                )
            found[number] = word
        return " ".join(found)


@dataclass(frozen=True)
class Place:
    """Which parts of a model an edit is meant for."""

    config: ModelConfig
    at: str = ""
    """A path, or the beginning of one; empty: everywhere."""
    head: int | None = None

    @property
    def stacks(self) -> dict[str, int]:
        """The stacks and how many layers each has."""
        sizes = {"encoder": self.config.n_encoder_layers, "decoder": self.config.n_decoder_layers}
        return {stack: n for stack, n in sizes.items() if stack in self.config.family}

    def parts(self, *names: str) -> list[str]:
        """The sub-layers of these names within the place."""
        cross = self.config.family == "encoder-decoder"
        found = [
            f"{stack}.{layer}.{name}"
            for stack, n in self.stacks.items()
            for layer in range(n)
            for name in names
            if name != "cross" or (cross and stack == "decoder")
        ]
        return [part for part in found if f"{part}.".startswith(f"{self.at}." if self.at else "")]


def no_scale(place: Place) -> Taps:
    """Scores go into the softmax without being divided by √d_k."""
    root = math.sqrt(place.config.d_model // place.config.n_heads)
    for part in place.parts("self", "cross"):
        yield f"{part}.scaled", lambda x: x * root


def no_mask(place: Place) -> Taps:
    """The decoder may look at tokens that come later."""
    for part in place.parts("self"):
        if part.startswith("decoder"):
            yield from instead(f"{part}.masked", f"{part}.scaled")


def no_positions(place: Place) -> Taps:
    """Tokens stand nowhere: the model reads a set, not a sequence."""
    for stack in place.stacks:
        if stack.startswith(place.at):
            yield f"{stack}.positions", torch.zeros_like


def no_residual(place: Place) -> Taps:
    """What a sub-layer makes replaces the stream instead of being added to it."""
    for part in place.parts("self", "cross", "ff"):
        yield from instead(f"{part}.add", f"{part}.out")


def no_norm(place: Place) -> Taps:
    """Vectors keep whatever length they have."""
    pre = place.config.norm == "pre"
    entries = {"self": "resid_pre", "cross": "self.add", "ff": "resid_mid"}
    for part in place.parts("self", "cross", "ff"):
        block, _, name = part.rpartition(".")
        yield from instead(f"{part}.norm", f"{block}.{entries[name]}" if pre else f"{part}.add")
    for stack, n_layers in place.stacks.items() if pre and not place.at else ():
        yield from instead(f"{stack}.out", f"{stack}.{n_layers - 1}.resid_post")


def one_head(place: Place) -> Taps:
    """All heads but one say nothing."""
    head = needed(place.head)
    for part in place.parts("self", "cross"):
        yield (
            f"{part}.z",
            lambda z: torch.zeros_like(z).index_copy(1, index(head, z), z[:, head : head + 1]),
        )


def silence(place: Place) -> Taps:
    """A head or a sub-layer says nothing; a layer is left out."""
    if place.head is not None:
        head = place.head
        for part in place.parts("self", "cross"):
            yield f"{part}.z", lambda z: z.index_fill(1, index(head, z), 0)
    elif place.at.count(".") == 1 and place.parts("ff"):
        yield from instead(f"{place.at}.resid_post", f"{place.at}.resid_pre")
    else:
        for part in place.parts("self", "cross", "ff"):
            yield f"{part}.out", torch.zeros_like


NAMES: dict[str, Callable[[Place], Taps]] = {
    "no-scale": no_scale, "no-mask": no_mask, "no-positions": no_positions, "no-residual": no_residual,
    "no-norm": no_norm, "one-head": one_head, "silence": silence,
}  # fmt: skip
HELP = (
    f"Edits: {', '.join(NAMES)}, each also with a place, as in silence:decoder.1.cross.3; "
    f"paint:decoder.1.cross.3:ROW:COLUMN; swap:NUMBER:WORD."
)


def edits_of(asked: str | Sequence[str] | Mapping[str, Edit] | None, config: ModelConfig) -> Edits:
    """Edits by name, or functions by the path of the tensor that they change."""
    if isinstance(asked, Mapping):
        return Edits(tuple(f"a function at {path}" for path in asked), dict(asked))
    names = [asked] if isinstance(asked, str) else list(asked or ())
    taps: dict[str, Edit] = {}
    words: dict[int, str] = {}
    for name in names:
        kind, _, rest = name.partition(":")
        if kind == "swap":
            number, _, word = rest.partition(":")
            words[numeral(number, name)] = word
            continue
        for path, edit in made(kind, rest, name, config):
            taps[path] = both(taps[path], edit) if path in taps else edit
    return Edits(tuple(names), taps, words)


def made(kind: str, rest: str, name: str, config: ModelConfig) -> list[tuple[str, Edit]]:
    """The taps of one named edit, which must reach something."""
    at, *cell = rest.split(":")
    path, head = ("", int(at)) if at.isdigit() else without_head(at)
    place = Place(config, path, head)
    if kind == "paint" and head is not None and len(cell) == 2:
        row, column = (numeral(each, name) for each in cell)
        found = [
            (f"{part}.pattern", painted(head, row, column)) for part in place.parts("self", "cross")
        ]
    elif (
        kind in NAMES
        and not cell
        and (head is not None or kind != "one-head")
        and (rest or kind != "silence")
    ):
        found = list(NAMES[kind](place))
    else:
        raise ConfigError(f"There is no edit {shown(name)}.", f"{HELP}")
    if not found or (head is not None and head >= config.n_heads):
        raise ConfigError(
            f"The edit {shown(name)} finds nothing to change in this model.", f"{HELP}"
        )
    return found


def painted(head: int, row: int, column: int) -> Edit:
    """One position of one head looks at one other alone."""

    def paint(pattern: Tensor) -> Tensor:
        if row >= pattern.size(2) or column >= pattern.size(3):
            return pattern  # not written yet
        pattern = pattern.clone()
        pattern[:, head, row] = 0
        pattern[:, head, row, column] = 1
        return pattern

    return paint


def instead(path: str, earlier: str) -> Taps:
    """What passed earlier takes the place of what comes here."""
    held: list[Tensor] = []

    def hold(x: Tensor) -> Tensor:
        held[:] = [x]
        return x

    yield earlier, hold
    yield path, lambda _: held[0]


def both(first: Edit, second: Edit) -> Edit:
    return lambda x: second(first(x))


def index(head: int, z: Tensor) -> Tensor:
    return torch.tensor([head], device=z.device)


def needed(head: int | None) -> int:
    assert head is not None, "checked before"
    return head


def numeral(text: str, name: str) -> int:
    if not text.isdigit():
        raise ConfigError(
            f"The edit {shown(name)} needs a number where it has {shown(text)}.", f"{HELP}"
        )
    return int(text)


@dataclass(frozen=True)
class Change:
    """What edits did to an output; `str()` marks what [-went-] and what {+came+}."""

    before: str
    after: str
    log_prob_before: float
    """Of the old output, without the edits."""
    log_prob_after: float
    """Of the same output, with them."""

    @property
    def words(self) -> tuple[tuple[str, str], ...]:
        """The words of both outputs in order, each with "=", "-" or "+"."""
        old, new = self.before.split(), self.after.split()
        found: list[tuple[str, str]] = []
        for _, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            same = old[a:b] == new[c:d]
            found += [("=" if same else "-", word) for word in old[a:b]]
            found += [] if same else [("+", word) for word in new[c:d]]
        return tuple(found)

    def __str__(self) -> str:
        marks = {"=": "{}", "-": "[-{}-]", "+": "{{+{}+}}"}
        text = " ".join(marks[mark].format(word) for mark, word in self.words)
        old, new = self.log_prob_before, self.log_prob_after
        return (
            f"{text}\nlog-probability of the old output: {old:.3f} → {new:.3f} ({new - old:+.3f})"
        )


def change(look: Look) -> Change:
    """The edited output beside the old one, and how likely the old one still is."""
    if look.before is None:
        return Change(look.output, look.output, log_prob(look), log_prob(look))
    old = look.before
    source = [token.id for token in look.source]
    seen = replayed(look.model, source, [token.id for token in old.target], look.taps)
    again = Look(
        look.model,
        look.task,
        look.input,
        old.output,
        look.source,
        old.target,
        old.predicted,
        seen,
        look.spell,
        look.classes,
        look.several,
        look.temperature,
        old.n_given,
    )
    return Change(old.output, look.output, log_prob(old), log_prob(again, old.output))


def log_prob(look: Look, output: str | None = None) -> float:
    """Of the output, or of a class by its name."""
    if look.classes:
        return next(
            guess.log_prob for guess in look.verdict if guess.text == (output or look.output)
        )
    return look.log_prob
