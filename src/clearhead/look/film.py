"""Heads forming: the attention of every head on the same few sentences, again and again during training."""

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8

from clearhead.errors import FolderError
from clearhead.look.look import replayed
from clearhead.model import Transformer

LONGEST = 12
"""Tokens of a probe: short enough that a frame of all heads is some kilobytes."""

Patterns = dict[str, UInt8[np.ndarray, "H T S"]]
"""Attention of all heads by path, from 0 to 255."""


@dataclass(frozen=True)
class Probe:
    """What is read again and again."""

    source: tuple[int, ...]
    target: tuple[int, ...]


def frame(model: Transformer, probes: Sequence[Probe], step: int, loss: float) -> dict[str, Any]:
    """The attention of all heads on all probes as it is now, as a line for a log."""
    was_training = model.training
    model.eval()
    shots = []
    for probe in probes:
        seen = replayed(model, probe.source, probe.target)
        patterns = {path: tensor for path, tensor in seen.items() if path.endswith(".pattern")}
        content = b"".join(
            (255 * pattern).round().to(torch.uint8).numpy().tobytes()
            for pattern in patterns.values()
        )
        shots.append(
            {
                "source": probe.source,
                "target": probe.target,
                "shapes": {
                    path.removesuffix(".pattern"): list(pattern.shape)
                    for path, pattern in patterns.items()
                },
                "patterns": base64.b64encode(zlib.compress(content)).decode(),
            }
        )
    model.train(was_training)
    return {"kind": "frame", "step": step, "loss": loss, "probes": shots}


@dataclass(frozen=True, eq=False)
class Film:
    """One probe through all of training."""

    probe: Probe
    steps: tuple[int, ...]
    losses: tuple[float, ...]
    patterns: Mapping[str, Float[np.ndarray, "F H T S"]]
    """Attention by path: frames × heads × rows × columns."""

    def turning_point(self, path: str, head: int) -> int:
        """The frame before which a head's pattern changed most."""
        changes = np.abs(np.diff(self.patterns[path][:, head], axis=0)).sum(axis=(1, 2))
        return int(changes.argmax()) + 1 if len(changes) else 0


def film_of(lines: Iterable[Mapping[str, Any]], number: int = 0) -> Film:
    """The film of one probe, from the lines of a log."""
    found = [line for line in lines if line["kind"] == "frame" and len(line["probes"]) > number]
    if not found:
        raise FolderError(
            "No film was made of this run: it has no probes.", "Train with train.film = true."
        )
    shots = [line["probes"][number] for line in found]
    frames = [unpacked(shot) for shot in shots]
    patterns = {
        path: np.stack([frame[path] for frame in frames]).astype(np.float32) / 255
        for path in frames[0]
    }
    probe = Probe(tuple(shots[0]["source"]), tuple(shots[0]["target"]))
    return Film(
        probe,
        tuple(line["step"] for line in found),
        tuple(line["loss"] for line in found),
        patterns,
    )


def unpacked(shot: Mapping[str, Any]) -> Patterns:
    """The patterns in a line, which must be as large as it says."""
    sizes = {path: int(np.prod(shape)) for path, shape in shot["shapes"].items()}
    total = sum(sizes.values())
    content = zlib.decompressobj().decompress(base64.b64decode(shot["patterns"]), total + 1)
    if len(content) != total:
        raise FolderError(
            "A frame of the film is damaged.", "Delete film.jsonl; the model does not need it."
        )
    parts = np.split(np.frombuffer(content, np.uint8), np.cumsum(list(sizes.values()))[:-1])
    return {
        path: part.reshape(shape)
        for (path, shape), part in zip(shot["shapes"].items(), parts, strict=True)
    }
