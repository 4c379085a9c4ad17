"""A way to look at every tensor on its way through the model, and to put another in its place.

The model hands each step to its tap and goes on with what comes back: `x = tap("resid_mid", x)`.
Paths are made of the parts walked through (`decoder.1.cross.pattern`); they are public names,
listed in `tests/model/test_tap.py`.
"""

from collections.abc import Callable, Mapping
from typing import Self

from torch import Tensor

Edit = Callable[[Tensor], Tensor]


class Tap:
    """Lets every tensor pass; nobody listens."""

    listening = False

    def __call__(self, name: str, x: Tensor) -> Tensor:  # noqa: ARG002
        return x

    def into(self, name: str) -> Self:  # noqa: ARG002
        """The tap for a part of the model."""
        return self


SILENT = Tap()


class Trace(Tap):
    """Remembers every tensor that passes under its path, and may replace it on the way."""

    listening = True

    def __init__(self, edits: Mapping[str, Edit] | None = None) -> None:
        self.edits = edits or {}
        self.seen: dict[str, Tensor] = {}
        self.path = ""

    def __call__(self, name: str, x: Tensor) -> Tensor:
        path = self.path + name
        if path in self.edits:
            x = self.edits[path](x)
        self.seen[path] = x.detach()
        return x

    def into(self, name: str) -> Self:
        part = type(self)(self.edits)
        part.seen, part.path = self.seen, f"{self.path}{name}."
        return part

    def __getitem__(self, path: str) -> Tensor:
        return self.seen[path]
