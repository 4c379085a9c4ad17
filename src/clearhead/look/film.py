"""Heads forming: the attention of every head on the same few sentences, all through training."""

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from clearhead.errors import FolderError
from clearhead.look.labelled import patterns, replayed
from clearhead.model import Model

LONGEST = 12
"""Tokens of a probe: short enough that a frame of all heads is some kilobytes."""


@dataclass(frozen=True)
class Probe:
    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Film:
    """One probe through all of training."""

    probe: Probe
    steps: tuple[int, ...]
    losses: tuple[float, ...]
    patterns: Mapping[str, Float[np.ndarray, "F H T S"]]

    def turning_point(self, path: str, head: int) -> int:
        """The frame before which a head's pattern changed most."""
        changes = np.abs(np.diff(self.patterns[path][:, head], axis=0)).sum(axis=(1, 2))
        return int(changes.argmax()) + 1 if len(changes) else 0


def frame(model: Model, probes: Sequence[Probe], step: int, loss: float) -> dict[str, Any]:
    """The attention of all heads on all probes as it is now, as a line for a log."""
    was_training = model.training
    model.eval()
    shots = [shot(model, probe) for probe in probes]
    model.train(was_training)
    return {"kind": "frame", "step": step, "loss": loss, "probes": shots}


def shot(model: Model, probe: Probe) -> dict[str, Any]:
    packed = {
        path: (255 * pattern).round().byte().numpy()
        for path, pattern in patterns(replayed(model, probe.source, probe.target)).items()
    }
    content = b"".join(pattern.tobytes() for pattern in packed.values())
    return {
        "source": probe.source,
        "target": probe.target,
        "shapes": {path: list(pattern.shape) for path, pattern in packed.items()},
        "patterns": base64.b64encode(zlib.compress(content)).decode(),
    }


def film_of(lines: Iterable[Mapping[str, Any]], number: int = 0) -> Film:
    found = [line for line in lines if line["kind"] == "frame" and len(line["probes"]) > number]
    if not found:
        raise FolderError(
            "No film was made of this run: it has no probes.", "Train with train.film = true."
        )
    shots = [line["probes"][number] for line in found]
    frames = [unpacked(shot) for shot in shots]
    return Film(
        probe=Probe(tuple(shots[0]["source"]), tuple(shots[0]["target"])),
        steps=tuple(line["step"] for line in found),
        losses=tuple(line["loss"] for line in found),
        patterns={
            path: np.stack([frame[path] for frame in frames]).astype(np.float32) / 255
            for path in frames[0]
        },
    )


def unpacked(shot: Mapping[str, Any]) -> dict[str, UInt8[np.ndarray, "H T S"]]:
    """The patterns in a line, from 0 to 255, which must be as large as it says."""
    sizes = [int(np.prod(shape)) for shape in shot["shapes"].values()]
    content = zlib.decompressobj().decompress(base64.b64decode(shot["patterns"]), sum(sizes) + 1)
    if len(content) != sum(sizes):
        raise FolderError(
            "A frame of the film is damaged.",
            "Delete the film's file in the run folder; the model does not need it.",
        )
    parts = iter(np.split(np.frombuffer(content, np.uint8), np.cumsum(sizes)[:-1]))
    return {path: next(parts).reshape(shape) for path, shape in shot["shapes"].items()}
