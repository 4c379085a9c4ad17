"""What measuring a run answers with, whatever its task."""

from typing import Any, NamedTuple


class Evaluation(NamedTuple):
    """The same findings twice."""

    values: dict[str, Any]
    """For programs."""
    text: str
    """For people."""
