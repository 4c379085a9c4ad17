"""A finished output and every tensor behind it, by name: what all questions about it begin with.

The output goes through the model once more, all at once (teacher forcing), and a tap records every
tensor. By causality row t of that pass is step t of decoding: the row whose input is token t - 1
and which predicts token t.
"""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.errors import ModelError, shown
from clearhead.look.film import Film
from clearhead.look.labelled import LabelledTensor, axes_of, patterns, without_head
from clearhead.look.search import SearchTree
from clearhead.look.words import Alignment, Spell, Token, best_alignment
from clearhead.model import Edit, Model

N_ALTERNATIVES = 20
SUBLAYERS = {"self": "self_attention", "cross": "cross_attention", "ff": "feed_forward"}


@dataclass(frozen=True, repr=False)
class Guess:
    """A token or a class that the model could have said, and how likely that was."""

    id: int
    text: str
    logit: float
    prob: float

    @property
    def log_prob(self) -> float:
        return math.log(self.prob) if self.prob else -math.inf

    def __str__(self) -> str:
        return f"{self.text} {self.prob:.1%}"

    __repr__ = __str__  # rows of them are read by people


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One row of logits: what was said, and what else could have been."""

    chosen: Guess
    top: tuple[Guess, ...]
    max_logit: float
    log_sum_exp: float

    @property
    def rest(self) -> float:
        """The probability of everything that is not among the top."""
        return max(0.0, 1 - sum(guess.prob for guess in self.top))


def guesses(logits: Float[Tensor, " V"], ids: Sequence[int], spell: Spell) -> tuple[Guess, ...]:
    probs = logits.softmax(dim=0)
    return tuple(
        Guess(token, text, float(logits[token]), float(probs[token]))
        for token, text in zip(ids, spell(ids), strict=True)
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Replay:
    """One output and all that happened on its way; `["decoder.1.cross.pattern"]` is any of it."""

    model: Model
    task: str
    input: str
    output: str
    source: tuple[Token, ...] = ()
    """What the encoder read."""
    target: tuple[Token, ...] = ()
    """What the decoder read: each row of the decoder is one of these."""
    predicted: tuple[Token, ...] = ()
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
    beam: SearchTree | None = None
    edits: tuple[str, ...] = ()
    """What was changed inside, in words."""
    taps: Mapping[str, Edit] = field(default_factory=dict)
    before: Self | None = None
    """The same without the edits."""
    notes: tuple[str, ...] = ()
    film: Film | None = None

    @property
    def family(self) -> str:
        return self.model.config.family

    @property
    def rows(self) -> Literal["source", "target"]:
        """The side whose rows predict the output."""
        return "source" if self.family == "encoder" else "target"

    # Tensors by name

    @property
    def paths(self) -> tuple[str, ...]:
        """The name of every tensor, in the order in which they came to be."""
        return tuple(self.seen)

    def __getitem__(self, path: str) -> LabelledTensor:
        """A tensor by its path; `decoder.1.cross.3.pattern` is that of head 3 alone."""
        path, head = without_head(path)
        known = path.removesuffix("probs") + "logits" if path.endswith(".probs") else path
        if known not in self.seen:
            alike = difflib.get_close_matches(path, self.paths, n=4, cutoff=0)
            raise ModelError(
                f"There is no {shown(path)} inside this model.",
                f"Did you mean one of these? {', '.join(alike)}",
            )
        values = self.seen[path] if known == path else self.probs
        axes = axes_of(path)
        labels = [self.labels(*axis) for axis in zip(axes, values.shape, strict=True)]
        if axes[1:] == ("target", "target"):
            # what is looked at is there to be read, and predicts nothing
            labels[-1] = tuple(token.text for token in self.target)
        found = LabelledTensor(path, values.numpy(), axes, tuple(labels))
        return found if head is None else found.at("head", head)

    def labels(self, axis: str, size: int) -> tuple[str, ...]:
        if axis == "token":
            return tuple(self.spell(range(size)))
        pairs = zip(self.target, self.predicted, strict=True)
        named = {
            "source": tuple(token.text for token in self.source),
            "target": tuple(f"{token.text} → {following.text}" for token, following in pairs),
            "class": self.classes,
        }
        return named.get(axis, tuple(map(str, range(size))))

    def part(self, path: str) -> Any:
        """The module behind a path: `decoder.1.cross`, `encoder.0.ff`, `encoder.0.norm_ff`.

        A recurrent decoder has one attention, above its layers: `decoder.cross`.
        """
        stack, *layer, name = path.split(".")
        module = getattr(self.model, stack)
        return (
            getattr(module.layers[int(layer[0])], SUBLAYERS.get(name, name))
            if layer
            else module.cross
        )

    def norm_of(self, path: str) -> Any:
        block, _, name = path.rpartition(".")
        return self.part(f"{block}.norm_{name}")

    # Attention

    @property
    def attentions(self) -> tuple[str, ...]:
        """The path of every attention, in the order of the forward pass."""
        return tuple(patterns(self.seen))

    def attention(self, path: str, head: int | None = None) -> LabelledTensor:
        """How much each position looks at each other: of one head, or the mean of all heads."""
        path, head = without_head(path, head)
        found = self[f"{path}.pattern"]
        if head is not None:
            return found.at("head", head)
        title, mean = f"{path}.pattern, mean of all heads", found.values.mean(axis=0)
        return LabelledTensor(title, mean, found.axes[1:], found.labels[1:])

    def head_outputs(self, path: str, name: Literal["z", "v"] = "z") -> Float[Tensor, "H T D"]:
        """What each head adds to the stream: its z, or its values, through its slice of W_O."""
        x, weight = self.seen[f"{path}.{name}"], self.part(path).of_z.detach().float().cpu()
        # (H, T, K) @ (H, K, D)
        added: Tensor = x @ weight.unflatten(1, (len(x), -1)).permute(1, 2, 0)
        return added

    def alignment(self) -> Alignment:
        """Which source word each output word was made from, as the head tells that aligns best."""
        crossing = patterns(self.seen, "cross")
        if not crossing:
            raise ModelError(
                f"A model of family {self.family} has no cross-attention, "
                "so there is nothing to align.",
                "Look at .attention(path, head) instead.",
            )
        return best_alignment(crossing, self.source, self.predicted)

    # What it said, and what it might have

    @cached_property
    def logits(self) -> Float[Tensor, "T V"]:
        """The scores of all tokens in every row."""
        if self.classes:
            raise ModelError(
                "A classifier says no tokens: there are none to choose from.",
                "See .verdict for its classes.",
            )
        if self.model.config.vectors:
            raise ModelError(
                "An encoder without a head says nothing: it gives vectors.",
                "Look at its attention, or compare texts with clearhead embed.",
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
        """The log-probability of the whole output: a text, or the name of a class."""
        if self.classes:
            return next(each.log_prob for each in self.verdict if each.text == self.output)
        return sum(self.log_probs[self.n_given :])

    def step(self, number: int, n: int = N_ALTERNATIVES) -> Prediction:
        """One row of the output in full."""
        logits = self.logits[number].double()
        chosen = self.predicted[number].id if self.predicted else int(logits.argmax())
        ids = logits.topk(min(n, len(logits))).indices.tolist()
        first, *others = guesses(logits, [chosen, *ids], self.spell)
        return Prediction(
            chosen=first,
            top=tuple(others),
            max_logit=float(logits.max()),
            log_sum_exp=float(logits.logsumexp(0)),
        )

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
        """The rows of the masks that an encoder fills in."""
        masks = (row for row, token in enumerate(self.source) if token.text == "<mask>")
        return () if self.model.config.vectors else tuple(masks)

    @torch.inference_mode()
    def lens(self, n: int = 3) -> tuple[tuple[tuple[Guess, ...], ...], ...]:
        """What each layer would say if it were the last (logit lens): the n best for each row.

        The states of a recurrent layer are no words yet; only its last vectors are.
        """
        if self.model.config.recurs:
            return ((),) * len(self.logits)
        name = "encoder" if self.family == "encoder" else "decoder"
        stack, n = getattr(self.model, name), min(n, self.logits.size(-1))
        streams = [self.seen[f"{name}.{index}.resid_post"] for index in range(len(stack.layers))]
        logits = [self.model.logits(stack.norm(x.to(self.model.device))[None])[0] for x in streams]
        best = [
            [guesses(row, row.topk(n).indices.tolist(), self.spell) for row in rows.cpu().double()]
            for rows in logits
        ]
        return tuple(zip(*best, strict=True))
