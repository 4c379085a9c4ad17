"""What a run was begun with and how it was corrected on the way, as plan.json keeps it."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clearhead.errors import FolderError, shown

Count = Annotated[int, Field(ge=0, le=2**53)]


class Checked(BaseModel):
    """Values that are checked when they are read, and never changed: `model_copy(update=…)`."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @classmethod
    def parsed(cls, content: bytes | dict[str, Any], path: object) -> Self:
        """The values in JSON, or of a line; wrong ones are a FolderError that names the file."""
        try:
            if isinstance(content, dict):
                return cls.model_validate(content, strict=False)  # where a tuple is a list
            return cls.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "the whole"
            raise FolderError(
                f"{path} is damaged: {shown(place)}: {shown(first['msg'], 200)}.",
                "Take it from where it was whole.",
            ) from None


class Inheritance(Checked):
    """What a run took over from another when it was begun."""

    run: str
    """The other run, seen from where the command was given."""
    taken: tuple[str, ...]
    """Weights that were taken over."""
    left: tuple[str, ...]
    """Weights of the other run for which there was no place."""
    new: tuple[str, ...]
    """Weights that began at random."""
    known_tokens: float
    """The share of the tokens whose vectors were taken over."""


class RunPlan(Checked):
    """What was planned for a run, and why. The settings that were chosen stand in its config."""

    steps: Count
    """Updates that there were to be; `corrections` may have changed that."""
    seconds: float | None
    """The time there was to be; None: a number of updates was given, and time changes nothing."""
    reasons: tuple[str, ...]
    """Why the settings are what they are, for people."""
    n_examples: Count | None = None
    """Training examples, where they were counted."""
    examples: str = ""
    """The fingerprint of the training examples; empty, where it is not known."""
    inherited: Inheritance | None = None
    corrections: tuple[tuple[Count, float, Count], ...] = ()
    """Each: the step, the progress at that step (from 0 to 1), and the updates from then on."""


def plan_in_log(lines: Iterable[Mapping[str, Any]], steps: int, path: object) -> RunPlan:
    """The plan of a run that an earlier version began, from the lines of its log.

    It may have been killed before it wrote any: then it has no reasons, and `seconds` is 0.
    """
    values: dict[str, Any] = {"steps": steps, "seconds": 0.0, "reasons": (), "corrections": []}
    for line in lines:
        rest = {name: value for name, value in line.items() if name != "kind"}
        match line.get("kind"):
            case "plan":
                values |= rest
            case "inherited":
                rest.pop("step", None)
                values["inherited"] = rest
            case "correction":
                values["corrections"].append([rest.get(k) for k in ("step", "progress", "steps")])
    return RunPlan.parsed(values, path)
