"""Fine-tuning: begin with another run's tokenizer and shape, and its weights that fit by name."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from clearhead.config import Given, Mark, mark
from clearhead.errors import ConfigError, FolderError, shown
from clearhead.folder import Inheritance, RunFolder
from clearhead.model import Transformer
from clearhead.text import Tokenizer
from clearhead.train import Report

PER_TOKEN = {"tokens.weight", "source_tokens.weight", "head.tokens.weight", "head.bias"}
"""Weights with a row for each token."""


@dataclass(frozen=True)
class Inherited(Report):
    """What a run begins with; `str()` is a sentence about it."""

    found: Inheritance

    def __str__(self) -> str:
        found = self.found
        parts = {"taken": found.taken, "left": found.left, "new": found.new}
        told = "; ".join(f"{len(names)} {what}{places(names)}" for what, names in parts.items())
        kept = f"; {found.known_tokens:.0%} of the tokens keep their vectors"
        return f"Weights from {found.run}: {told}{kept if found.known_tokens < 1 else ''}."


def places(names: Iterable[str]) -> str:
    """Which parts of the model the weights are in."""
    return f" ({', '.join(sorted({name.partition('.')[0] for name in names}))})" if names else ""


def started_from(start: str, into: Path) -> RunFolder | None:
    """The run that a new one begins with, if there is one."""
    return RunFolder.open(Path(os.path.relpath(into / start))) if start else None


def like(base: RunFolder, given: Given) -> Given:
    """The shape and the tokenizer of the other run; another tokenizer must be asked for."""
    theirs = base.config()
    model = {
        name: value
        for name, value in theirs.model.model_dump().items()
        if mark("model", name) in (Mark.SIZE, Mark.SHAPE)
    }
    if given.get("train", {}).get("new_vectors"):
        return {"model": model}
    tokenizer = theirs.tokenizer.model_dump(exclude={"dropout"})
    for name, value in given.get("tokenizer", {}).items():
        if name in tokenizer and value != tokenizer[name]:
            raise ConfigError(
                f"tokenizer.{name} = {shown(value)} makes another tokenizer than that of "
                f"{base.path}, and its token vectors would be lost.",
                "Leave the setting out, or keep the vectors of the tokens that both have: "
                "--set train.new_vectors=true",
            )
    return {"model": model, "tokenizer": tokenizer}


@torch.no_grad()
def inherit(
    model: Transformer, base: RunFolder, tokenizers: tuple[Tokenizer, Tokenizer]
) -> Inheritance:
    """Take over each weight of the same name and shape, and the vectors of known tokens."""
    if not base.has_weights():
        raise FolderError(
            f"{base.path} has no weights yet.",
            f"Train it to its end with: clearhead train {base.path}",
        )
    theirs, ours = base.model().state_dict(), model.state_dict()
    taken, known = [], 1.0
    for name, weight in ours.items():
        side = 0 if name.startswith("source") else 1
        own = tokenizers[side]
        other = base.tokenizers()[side] if name in PER_TOKEN else own
        if name not in theirs or theirs[name].shape[1:] != weight.shape[1:]:
            continue
        if own.fingerprint != other.fingerprint:
            ids = other.vocabulary.ids()
            both = [
                (here, ids[token])
                for here, token in enumerate(own.vocabulary.tokens)
                if token in ids
            ]
            here, there = zip(*both, strict=True)
            weight[list(here)] = theirs[name][list(there)].to(weight)
            known = min(known, len(both) / len(weight))
        elif theirs[name].shape == weight.shape:
            weight.copy_(theirs[name])
        else:
            continue
        taken.append(name)
    if not taken:
        raise ConfigError(
            f"Nothing in {base.path} fits this model.",
            "Leave out the settings that change its shape.",
        )
    return Inheritance(
        run=str(base.path),
        taken=tuple(taken),
        left=tuple(sorted(theirs.keys() - set(taken))),
        new=tuple(sorted(ours.keys() - set(taken))),
        known_tokens=known,
    )
