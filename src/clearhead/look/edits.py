"""Ablations: edits by name, each of which takes away one idea of the Transformer.

Some edits put a tensor in the place of a later one, such as the scores before the mask in the place
of those after it. They keep that tensor in between, so a set of edits is for one thread.
"""

import difflib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from clearhead.config import ModelConfig, whole_number
from clearhead.errors import ConfigError, shown
from clearhead.look.labelled import replayed, stream_of, with_edit, without_head
from clearhead.look.replay import Replay
from clearhead.model import Edit

ATTENTIONS = ("self", "cross")
SUBLAYERS = (*ATTENTIONS, "ff")
Changes = Mapping[str, Edit | str]
"""By the path of a tensor: a function that changes it, or the path of an earlier tensor that takes
its place."""


@dataclass(frozen=True)
class Edits:
    """What to change inside, and in the text that is read."""

    names: tuple[str, ...] = ()
    taps: Mapping[str, Edit] = field(default_factory=dict)
    words: Mapping[int, str] = field(default_factory=dict)
    """Words of the input by number, and what stands there instead."""

    def swapped(self, text: str) -> str:
        found = text.split(" ")
        for number, word in self.words.items():
            if not 0 <= number < len(found):
                raise ConfigError(
                    f"swap: there is no word {number} in a text of {len(found)}, counted from 0.",
                    HELP,
                )
            found[number] = word
        return " ".join(found)


@dataclass(frozen=True)
class Scope:
    """Which parts of a model an edit is meant for."""

    config: ModelConfig
    at: str = ""
    """A path, or the beginning of one; empty: everywhere."""
    head: int | None = None

    @property
    def stacks(self) -> dict[str, int]:
        sizes = {"encoder": self.config.n_encoder_layers, "decoder": self.config.n_decoder_layers}
        return {stack: n for stack, n in sizes.items() if stack in self.config.family}

    def parts(self, *names: str) -> list[str]:
        found = [
            f"{stack}.{layer}.{name}"
            for stack, n in self.stacks.items()
            for layer in range(n)
            for name in names
            if name != "cross" or (stack == "decoder" and "encoder" in self.stacks)
        ]
        if self.config.recurs:  # one attention, above all layers
            found = ["decoder.cross"] if any(part.endswith("cross") for part in found) else []
        return [part for part in found if f"{part}.".startswith(f"{self.at}." if self.at else "")]


def no_scale(scope: Scope) -> Changes:
    """Scores go into the softmax without being divided by √d_k."""
    if scope.config.recurs and scope.config.attention == "additive":
        return {}
    root = math.sqrt(scope.config.d_model // scope.config.n_heads)
    return {f"{part}.scaled": lambda x: x * root for part in scope.parts(*ATTENTIONS)}


def no_mask(scope: Scope) -> Changes:
    """The decoder may look at tokens that come later."""
    own = [part for part in scope.parts("self") if part.startswith("decoder")]
    return {f"{part}.masked": f"{part}.scaled" for part in own}


def no_positions(scope: Scope) -> Changes:
    """Tokens have no positions: the model reads a set, not a sequence."""
    stacks = [stack for stack in scope.stacks if stack.startswith(scope.at)]
    return {f"{stack}.positions": torch.zeros_like for stack in stacks}


def no_residual(scope: Scope) -> Changes:
    """The output of a sub-layer replaces the residual stream instead of being added to it."""
    return {f"{part}.add": f"{part}.out" for part in scope.parts(*SUBLAYERS)}


def no_norm(scope: Scope) -> Changes:
    """Vectors are never normalised."""
    pre, parts = scope.config.norm == "pre", scope.parts(*SUBLAYERS)
    before = {f"{part}.norm": stream_of(part, "add") if pre else f"{part}.add" for part in parts}
    ends = {f"{stack}.out": f"{stack}.{n - 1}.resid_post" for stack, n in scope.stacks.items()}
    return before | ends if pre and not scope.at else before


def one_head(scope: Scope) -> Changes:
    """All heads but one add nothing."""
    others = [head for head in range(scope.config.n_heads) if head != scope.head]
    return {f"{part}.z": muted(others) for part in scope.parts(*ATTENTIONS)}


def silence(scope: Scope) -> Changes:
    """A head or a sub-layer adds nothing; a layer is left out."""
    if scope.head is not None or scope.config.recurs:
        return {f"{part}.z": muted([scope.head or 0]) for part in scope.parts(*ATTENTIONS)}
    if scope.at.count(".") == 1 and scope.parts("ff"):
        return {f"{scope.at}.resid_post": f"{scope.at}.resid_pre"}
    return {f"{part}.out": torch.zeros_like for part in scope.parts(*SUBLAYERS)}


NAMES: dict[str, Callable[[Scope], Changes]] = {
    "no-scale": no_scale,
    "no-mask": no_mask,
    "no-positions": no_positions,
    "no-residual": no_residual,
    "no-norm": no_norm,
    "one-head": one_head,
    "silence": silence,
}
IN_RECURRENT = ("no-scale", "silence", "paint")
"""Edits of what a recurrent model has as well: attention to the source."""
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
        for path, made in named_changes(name, config).items():
            for place, edit in moved(made, path) if isinstance(made, str) else [(path, made)]:
                taps = with_edit(taps, place, edit)
    return Edits(tuple(names), taps, words)


def named_changes(name: str, config: ModelConfig) -> Changes:
    """The changes of one named edit, which must find something to change."""
    kind, _, rest = name.partition(":")
    at, *cell = rest.split(":")
    number = whole_number(at)
    path, head = without_head(at) if number is None else ("", number)
    scope = Scope(config, path, head)
    has_place = {"one-head": head is not None, "silence": bool(at)}
    if kind == "paint" and head is not None and len(cell) == 2:
        paint = painted(head, *(numeral(each, name) for each in cell))
        found: Changes = {f"{part}.pattern": paint for part in scope.parts(*ATTENTIONS)}
    elif kind in NAMES and not cell and has_place.get(kind, True):
        found = NAMES[kind](scope)
    else:
        raise ConfigError(f"There is no edit {shown(name)}.", HELP)
    is_known = kind in IN_RECURRENT or not config.recurs
    if not found or not is_known or (head is not None and head >= config.n_heads):
        raise ConfigError(f"The edit {shown(name)} finds nothing to change in this model.", HELP)
    return found


def painted(head: int, row: int, column: int) -> Edit:
    """One row of a head's pattern looks at one column alone."""

    def paint(pattern: Tensor) -> Tensor:
        if row >= pattern.size(2) or column >= pattern.size(3):
            return pattern  # not written yet
        pattern = pattern.clone()
        pattern[:, head, row] = 0
        pattern[:, head, row, column] = 1
        return pattern

    return paint


def moved(earlier: str, later: str) -> list[tuple[str, Edit]]:
    """Two edits: one keeps the tensor at an earlier path, the other puts it at a later one."""
    held: list[Tensor] = []

    def hold(x: Tensor) -> Tensor:
        held[:] = [x]
        return x

    return [(earlier, hold), (later, lambda _: held[0])]


def muted(heads: list[int]) -> Edit:
    """Sets the output of these heads to zero."""
    return lambda z: z.index_fill(1, torch.tensor(heads, dtype=torch.long, device=z.device), 0)


def numeral(text: str, name: str) -> int:
    if (number := whole_number(text)) is not None:
        return number
    raise ConfigError(f"The edit {shown(name)} needs a number where it has {shown(text)}.", HELP)


@dataclass(frozen=True, kw_only=True)
class Change:
    """What edits did to an output; `str()` marks what [-went-] and what {+came+} (a word diff)."""

    before: str
    after: str
    log_prob_before: float
    """Of the old output, without the edits."""
    log_prob_after: float
    """Of the same output, with them."""

    @property
    def words(self) -> tuple[tuple[str, str], ...]:
        """The words of both outputs in order, each with "=", "-" or "+"."""
        return tuple(word_diff(self.before, self.after))

    def __str__(self) -> str:
        marks = {"=": "{}", "-": "[-{}-]", "+": "{{+{}+}}"}
        text = " ".join(marks[mark].format(word) for mark, word in self.words)
        old, new = self.log_prob_before, self.log_prob_after
        numbers = f"{old:.3f} → {new:.3f} ({new - old:+.3f})"
        return f"{text}\nlog-probability of the old output: {numbers}"


def word_diff(before: str, after: str) -> Iterator[tuple[str, str]]:
    """The words of two texts in order: "=" both have, "-" only the first, "+" only the second."""
    old, new = before.split(), after.split()
    for _, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        same = old[a:b] == new[c:d]
        yield from (("=" if same else "-", word) for word in old[a:b])
        yield from () if same else (("+", word) for word in new[c:d])


def change(look: Replay) -> Change:
    """What the edits did to the output, and how likely the old one still is."""
    old = look.before or look
    source, target = ([token.id for token in side] for side in (look.source, old.target))
    again = replace(old, seen=replayed(look.model, source, target, look.taps))
    return Change(
        before=old.output,
        after=look.output,
        log_prob_before=old.log_prob,
        log_prob_after=again.log_prob,
    )
