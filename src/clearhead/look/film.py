"""Heads forming: the attention of every head on the same few sentences, all through training."""

import base64
import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from jaxtyping import Float, UInt8
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from clearhead.errors import FolderError, shown
from clearhead.look.labelled import axes_of, patterns, replayed
from clearhead.model import Model

Id = Annotated[int, Field(ge=0, le=2_000_000)]
Size = Annotated[int, Field(ge=1, le=1_024)]
AttentionPath = Annotated[str, Field(pattern=r"^(encoder|decoder)(\.\d{1,3})?\.(self|cross)$")]
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
    losses: tuple[float | None, ...]
    """Those of validation; the untrained model of step 0 has not been validated."""
    patterns: Mapping[str, Float[np.ndarray, "F H T S"]]

    def turning_point(self, path: str, head: int) -> int:
        """The frame before which a head's pattern changed most."""
        changes = np.abs(np.diff(self.patterns[path][:, head], axis=0)).sum(axis=(1, 2))
        return int(changes.argmax()) + 1 if len(changes) else 0


def frame(
    model: Model, probes: Sequence[Probe], step: int, loss: float | None = None
) -> dict[str, Any]:
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


class StoredShot(BaseModel):
    """One probe in a line of film.jsonl; its shapes are those that its ids have."""

    model_config = ConfigDict(strict=True)

    source: tuple[Id, ...]
    target: tuple[Id, ...]
    shapes: Annotated[dict[AttentionPath, tuple[Size, Size, Size]], Field(min_length=1)]
    patterns: str

    @model_validator(mode="after")
    def check_shapes(self) -> Self:
        for path, (_, *asking_and_seen) in self.shapes.items():
            _, *axes = axes_of(f"{path}.pattern")
            if asking_and_seen != [len(getattr(self, axis)) for axis in axes]:
                raise ValueError(f"{path} has not the shape of its tokens")
        return self


class StoredFrame(BaseModel):
    """A line of film.jsonl."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    kind: Literal["frame"]
    step: Annotated[int, Field(ge=0, le=2**53)]
    loss: float | None
    probes: Annotated[tuple[StoredShot, ...], Field(max_length=100)]


def film_of(lines: Iterable[Mapping[str, Any]], name: object = "the film") -> Film:
    """The film of the first probe, from the lines of a log that errors call `name`."""
    frames = [stored_frame(line, f"{name}:{place}") for place, line in enumerate(lines, 1)]
    found = [frame for frame in frames if frame.probes]
    if not found:
        raise FolderError(
            "No film was made of this run: it has no probes.", "Train with train.film = true."
        )
    shots = [frame.probes[0] for frame in found]
    if any(shot.shapes != shots[0].shapes for shot in shots):
        raise damaged(name, "its frames have different shapes")
    unpacked_shots = [unpacked(shot, name) for shot in shots]
    return Film(
        probe=Probe(shots[0].source, shots[0].target),
        steps=tuple(frame.step for frame in found),
        losses=tuple(frame.loss for frame in found),
        patterns={
            path: np.stack([each[path] for each in unpacked_shots]).astype(np.float32) / 255
            for path in unpacked_shots[0]
        },
    )


def stored_frame(line: Mapping[str, Any], place: str) -> StoredFrame:
    try:
        return StoredFrame.model_validate_json(json.dumps(line))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise damaged(place, f"{shown(where)}: {shown(first['msg'], 200)}") from None


def damaged(place: object, reason: str) -> FolderError:
    return FolderError(
        f"{place}: a frame of the film is damaged: {reason}.",
        "Delete the film's file in the run folder; the model does not need it.",
    )


def unpacked(shot: StoredShot, name: object) -> dict[str, UInt8[np.ndarray, "H T S"]]:
    """The patterns in a line, from 0 to 255, which must be as large as it says."""
    sizes = [math.prod(shape) for shape in shot.shapes.values()]
    try:
        packed = base64.b64decode(shot.patterns, validate=True)
        content = zlib.decompressobj().decompress(packed, sum(sizes) + 1)
    except (ValueError, zlib.error) as error:
        raise damaged(name, shown(str(error))) from None
    if len(content) != sum(sizes):
        raise damaged(name, "it has not as many numbers as it says")
    parts = iter(np.split(np.frombuffer(content, np.uint8), np.cumsum(sizes)[:-1]))
    return {path: next(parts).reshape(shape) for path, shape in shot.shapes.items()}
