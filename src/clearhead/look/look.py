"""A look inside: every number the model used for one finished output, and the questions that people ask about them.

The output goes through the model once more, all at once and with a tap that listens. By causality row t of that pass
is step t of the decode: the row whose input is token t - 1 and which predicts token t.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.errors import ModelError, shown
from clearhead.look.alignment import Alignment, best_alignment
from clearhead.look.guesses import Guess, Step, guesses
from clearhead.look.labelled import Labelled
from clearhead.look.search import Search
from clearhead.look.tokens import Spell, Token
from clearhead.model import Edit, Trace, Transformer

if TYPE_CHECKING:
    from clearhead.look.by_hand import ByHand
    from clearhead.look.edits import Change
    from clearhead.look.film import Film
    from clearhead.look.picture import Picture
    from clearhead.look.reasons import Reasons

N_ALTERNATIVES = 20
PER_HEAD = ("q", "k", "v", "scores", "scaled", "masked", "pattern", "z")


@dataclass(frozen=True, eq=False, repr=False)
class Look:
    """One output and all that happened on its way; `look["decoder.1.cross.pattern"]` is any of it."""

    model: Transformer
    task: str
    input: str
    output: str
    source: tuple[Token, ...]
    """What the encoder read."""
    target: tuple[Token, ...]
    """What the decoder read: each row of the decoder is one of these."""
    predicted: tuple[Token, ...]
    """What follows each of them: the token that the row predicts."""
    seen: Mapping[str, Tensor]
    """Every tensor by its path, without a batch dimension."""
    spell: Spell
    classes: tuple[str, ...] = ()
    several: bool = False
    """Each class is a yes or no of its own."""
    temperature: float = 1.0
    """What the scores of classes are divided by before they become probabilities."""
    n_given: int = 0
    """Decoder rows at the beginning whose next token was given and not chosen."""
    beam: Search | None = None
    edits: tuple[str, ...] = ()
    """What was changed inside, in words."""
    taps: Mapping[str, Edit] = field(default_factory=dict)
    """The changes themselves."""
    before: "Look | None" = None
    """The same without the edits."""
    notes: tuple[str, ...] = ()
    film: "Film | None" = None
    """The heads as they formed during training."""

    @property
    def family(self) -> str:
        return self.model.config.family

    @property
    def rows(self) -> Literal["source", "target"]:
        """Whose rows the output is read off."""
        return "source" if self.family == "encoder" else "target"

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The name of every tensor, in the order in which they came to be."""
        return tuple(self.seen)

    def __getitem__(self, path: str) -> Labelled:
        """A tensor by its path; `decoder.1.cross.3.pattern` is head 3 of `decoder.1.cross.pattern`."""
        path, head = without_head(path)
        if path not in self.seen and not (
            path.endswith(".probs") and path[:-5] + "logits" in self.seen
        ):
            raise ModelError(
                f"There is no {shown(path)} inside this model.", f"{self.nearest(path)}"
            )
        values = self.probs if path.endswith(".probs") else self.seen[path]
        axes = self.axes(path)
        labels = [self.labels(*axis) for axis in zip(axes, values.shape, strict=True)]
        if axes[1:] == (
            "target",
            "target",
        ):  # what is looked at is there to be read, and predicts nothing
            labels[-1] = tuple(token.text for token in self.target)
        found = Labelled(path, values.numpy(), axes, tuple(labels))
        return found if head is None else found.at("head", self.checked_head(head))

    def nearest(self, path: str) -> str:
        alike = difflib.get_close_matches(path, self.paths, n=4, cutoff=0)
        return f"Did you mean one of these? {', '.join(alike)}"

    def axes(self, path: str) -> tuple[str, ...]:
        """What the dimensions of a tensor count."""
        stack, *middle, name = path.split(".")
        own = "source" if stack == "encoder" else "target"
        keys = "source" if middle[-1:] == ["cross"] else own
        attention = middle[-1:] in (["self"], ["cross"])
        if name in ("scores", "scaled", "masked", "pattern"):
            return "head", own, keys
        if attention and name in PER_HEAD:
            return "head", keys if name in "kv" else own, "d_k"
        ends = {"logits": (own, "token"), "probs": (own, "token"), "classes": ("class",)}
        return ends.get(
            name,
            (own, "d_ff" if middle[-1:] == ["ff"] and name in ("pre", "hidden") else "d_model"),
        )

    def labels(self, axis: str, size: int) -> tuple[str, ...]:
        """The names of all indices of a dimension."""
        if axis == "source":
            return tuple(token.text for token in self.source)
        if axis == "target":
            return tuple(
                f"{a.text} → {b.text}" for a, b in zip(self.target, self.predicted, strict=True)
            )
        if axis == "token":
            return tuple(self.spell(range(size)))
        return self.classes if axis == "class" else tuple(map(str, range(size)))

    def checked_head(self, head: int) -> int:
        n_heads = self.model.config.n_heads
        if not 0 <= head < n_heads:
            raise ModelError(
                f"There is no head {head}: the model has {n_heads}.", f"Use 0 to {n_heads - 1}."
            )
        return head

    # Attention

    @property
    def attentions(self) -> tuple[str, ...]:
        """The path of every attention, in the order of the forward pass."""
        return tuple(
            path.removesuffix(".pattern") for path in self.paths if path.endswith(".pattern")
        )

    def attention(self, path: str, head: int | None = None) -> Labelled:
        """How much each position looks at each other: of one head, or the mean of all heads."""
        path, own = without_head(path)
        head = own if head is None else head
        found = self[f"{path}.pattern"]
        if head is not None:
            return found.at("head", self.checked_head(head))
        mean = found.values.mean(axis=0)
        return Labelled(
            f"{path}.pattern, mean of all heads", mean, found.axes[1:], found.labels[1:]
        )

    def head_outputs(self, path: str) -> Float[Tensor, "H T D"]:
        """What each head adds to the stream: its z through its own slice of W_O."""
        z, weight = self.seen[f"{path}.z"], self.part(path).out.weight.detach().float().cpu()
        added: Tensor = z @ weight.unflatten(1, (len(z), -1)).permute(
            1, 2, 0
        )  # (H, T, K) @ (H, K, D)
        return added

    def part(self, path: str) -> Any:
        """The module behind a path: `decoder.1.cross`, `encoder.0.ff`."""
        block, name = self.block(path)
        return getattr(
            block,
            {"self": "self_attention", "cross": "cross_attention", "ff": "feed_forward"}[name],
        )

    def norm_of(self, path: str) -> Any:
        """The norm around a sub-layer."""
        block, name = self.block(path)
        return getattr(block, f"norm_{name}")

    def block(self, path: str) -> tuple[Any, str]:
        stack, layer, name = path.split(".")
        return getattr(self.model, stack).layers[int(layer)], name

    def alignment(self) -> Alignment:
        """Which source word each output word was made from, as the head tells that aligns best."""
        patterns = {
            path: self.seen[f"{path}.pattern"]
            for path in self.attentions
            if path.endswith(".cross")
        }
        if not patterns:
            raise ModelError(
                f"A model of family {self.family} has no cross-attention, so there is nothing to align.",
                "Look at .attention(path, head) instead.",
            )
        return best_alignment(patterns, self.source, self.predicted)

    # What it said, and what it might have

    @cached_property
    def logits(self) -> Float[Tensor, "T V"]:
        """The scores of all tokens in every row."""
        if self.classes:
            raise ModelError(
                "A classifier says no tokens: there are none to choose from.",
                "See .verdict for its classes.",
            )
        return self.seen["encoder.logits" if self.family == "encoder" else "decoder.logits"]

    @cached_property
    def probs(self) -> Float[Tensor, "T V"]:
        return self.logits.softmax(dim=-1)

    @cached_property
    def log_probs(self) -> tuple[float, ...]:
        """The log-probability of each token that was predicted, the given ones too."""
        ids = torch.tensor([token.id for token in self.predicted])
        return tuple(self.logits.log_softmax(dim=-1).gather(1, ids[:, None])[:, 0].tolist())

    @property
    def log_prob(self) -> float:
        """The log-probability of the whole output."""
        return sum(self.log_probs[self.n_given :])

    def step(self, number: int, n: int = N_ALTERNATIVES) -> Step:
        """One row of the output in full."""
        logits = self.logits[number].double()
        chosen = self.predicted[number].id if self.predicted else int(logits.argmax())
        ids = logits.topk(min(n, len(logits))).indices.tolist()
        first, *others = guesses(logits, [chosen, *ids], self.spell([chosen, *ids]))
        return Step(first, tuple(others), float(logits.max()), float(logits.logsumexp(0)))

    def alternatives(self, step: int, n: int = N_ALTERNATIVES) -> tuple[Guess, ...]:
        """The likeliest tokens of a step, best first."""
        return self.step(step, n).top

    @cached_property
    def verdict(self) -> tuple[Guess, ...]:
        """The classes of a classifier, likeliest first."""
        logits = self.seen["encoder.classes"].double()
        scaled = logits / self.temperature
        probs = (scaled.sigmoid() if self.several else scaled.softmax(dim=0)).tolist()
        found = map(Guess, range(len(logits)), self.classes, logits.tolist(), probs)
        return tuple(sorted(found, key=lambda each: -each.prob))

    @property
    def gaps(self) -> tuple[int, ...]:
        """The rows of an encoder that fills in what is masked."""
        return tuple(
            n for n, token in enumerate(self.source) if self.spell([token.id]) == ["<mask>"]
        )

    @torch.inference_mode()
    def lens(self, n: int = 3) -> tuple[tuple[tuple[Guess, ...], ...], ...]:
        """What each layer would say if it were the last: for every row and layer, the n likeliest tokens."""
        stack_name = "encoder" if self.family == "encoder" else "decoder"
        stack, n = getattr(self.model, stack_name), min(n, self.logits.size(-1))
        layers = []
        for index in range(len(stack.layers)):
            x = self.seen[f"{stack_name}.{index}.resid_post"].to(self.model.device)
            logits = self.model.logits(stack.norm(x)[None])[0].float().cpu()
            best = logits.topk(n).indices.tolist()
            layers.append(
                [
                    guesses(row.double(), ids, self.spell(ids))
                    for row, ids in zip(logits, best, strict=True)
                ]
            )
        return tuple(zip(*layers, strict=True))

    # Other ways to ask

    def by_hand(self, path: str, row: int, col: int = 0, head: int | None = None) -> "ByHand":
        """How one number came about: its operands and the arithmetic, recomputed."""
        from clearhead.look.by_hand import by_hand

        return by_hand(self, path, row, col, head)

    def reasons(self) -> "Reasons":
        """Attention beside three other measures of what each output word owes to each word that was read."""
        from clearhead.look.reasons import reasons

        return reasons(self)

    def change(self) -> "Change":
        """What the edits did to the output."""
        from clearhead.look.edits import change

        return change(self)

    def meta(self) -> dict[str, Any]:
        """All that is not tensors, as JSON can hold it."""
        from clearhead.look.export import meta

        return meta(self)

    def tensors(self, whole: bool = False) -> dict[str, np.ndarray]:
        """The tensors for a page, or all."""
        from clearhead.look.export import tensors

        return tensors(self, whole)

    def save(self, folder: str | Path) -> None:
        """Everything, as `meta.json` and `look.safetensors`."""
        from clearhead.look.export import save

        save(self, Path(folder))

    def picture(self, path: str, head: int | None = None) -> "Picture":
        """A matrix as an image: `.svg()`, `.png()`, `.save("file.svg")`."""
        from clearhead.look.picture import Picture

        found = self[path]
        return Picture(found if head is None else found.at("head", self.checked_head(head)))

    def html(self) -> str:
        """The interactive page, whole in one file."""
        from clearhead.look.html import page

        return page(self.meta(), self.tensors())

    def _repr_html_(self) -> str:
        from clearhead.look.export import frame

        return frame(self)

    def __repr__(self) -> str:
        return f"<a look at {self.input!r} → {self.output!r}: {len(self.seen)} tensors>"

    def __str__(self) -> str:
        lines = [f"{self.input} → {self.output}", *(f"edited: {edit}" for edit in self.edits)]
        if self.source:
            lines.append("read: " + " ".join(token.text for token in self.source))
        if self.classes:
            lines += [f"  {guess.prob:6.1%}  {guess.text}" for guess in self.verdict]
        for number in range(self.n_given, len(self.target)):
            step = self.step(number, 4)
            others = ", ".join(f"{g.text} {g.prob:.1%}" for g in step.top if g.id != step.chosen.id)
            lines.append(f"  {step.chosen.prob:6.1%}  {step.chosen.text}   (or {others})")
        for number in self.gaps if not self.classes else ():
            lines.append(
                f"  {number}: "
                + ", ".join(f"{g.text} {g.prob:.1%}" for g in self.alternatives(number, 5))
            )
        return "\n".join(lines)


def without_head(path: str) -> tuple[str, int | None]:
    """A path and the head in it, if there is one behind `self` or `cross`."""
    parts = path.split(".")
    for place in range(3, len(parts)):
        if parts[place - 1] in ("self", "cross") and parts[place].isdigit():
            return ".".join(parts[:place] + parts[place + 1 :]), int(parts[place])
    return path, None


@torch.inference_mode()
def replayed(
    model: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    edits: Mapping[str, Edit] | None = None,
) -> dict[str, Tensor]:
    """Every tensor of one pass over a finished output, on the CPU and without a batch dimension."""
    trace, device = Trace(edits), model.device
    sides = [torch.tensor([side], device=device) if side else None for side in (source, target)]
    model(*sides, tap=trace)
    return {path: tensor[0].float().cpu() for path, tensor in trace.seen.items()}
