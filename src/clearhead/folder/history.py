"""What a run keeps about itself: its log of reports, the plan it was begun with, saved counters.

Each file has a schema (pydantic), whose bounds are checked before any of it is believed. The plan,
plan.json, also says what was taken over from another run, and how it was corrected.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AllowInfNan, BaseModel, ConfigDict, Field, ValidationError

from clearhead.disk import UNTRUSTED, disk_errors, open_inside, write_atomically
from clearhead.errors import FolderError, shown

MAX_LINE = 2**20
Count = Annotated[int, Field(ge=0, le=2**53)]
Step = Annotated[int, Field(ge=0, le=2_000_000_000)]
Seconds = Annotated[float, Field(ge=0, le=1e10)]
Name = Annotated[str, Field(max_length=1_000)]
Measured = Annotated[float | None, Field(ge=-1e300, le=1e300)]
"""A number that may not have been finite: then the log has null."""


class Log:
    """An append-only file of reports (JSON lines); `cut` drops what a run will report again."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name, self.path = root, name, root / name

    def write(self, report: Mapping[str, Any]) -> None:
        line = json.dumps(report, ensure_ascii=False).encode() + b"\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | UNTRUSTED
        with (
            disk_errors(self.path, len(line)),
            os.fdopen(os.open(self.path, flags, 0o666), "ab") as file,
        ):
            file.write(line)

    def lines(self) -> Iterator[dict[str, Any]]:
        """All reports so far; a last line without an end was never finished, and is none."""
        if not os.path.lexists(self.path):
            return
        with open_inside(self.root, self.name) as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), start=1):
                if len(line) < MAX_LINE and not line.endswith(b"\n"):
                    return
                try:
                    report = json.loads(line)
                    if not isinstance(report, dict):
                        raise ValueError
                    LINES.get(report.get("kind", ""), Line).model_validate_json(line)
                except (ValueError, TypeError, RecursionError) as error:
                    raise FolderError(
                        f"{self.path}:{number} is not a report{complaint(error)}.",
                        "Remove the line.",
                    ) from None
                yield report

    def cut(self, step: int) -> None:
        """Drop the reports beyond a step, all at once.

        One without a step belongs to the step of the one before it.
        """
        kept, current = [], 0
        for report in self.lines():
            current = report.get("step", current)
            if current <= step:
                kept.append(json.dumps(report, ensure_ascii=False))
        write_atomically(self.path, "".join(f"{line}\n" for line in kept).encode())


class Checked(BaseModel):
    """Values that are checked when they are read, and never changed: `model_copy(update=…)`."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @classmethod
    def parsed(cls, content: bytes | str, path: object) -> Self:
        """The values in JSON; wrong ones are a FolderError that names the file."""
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            raise FolderError(
                f"{path} is damaged{complaint(error)}.",
                "Copy it again from where it is undamaged.",
            ) from None


def complaint(error: Exception) -> str:
    """Pydantic's first complaint, after a colon: where it is, and what is wrong."""
    if not isinstance(error, ValidationError):
        return ""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"])) or "the whole"
    return f": {shown(place)}: {shown(first['msg'], 200)}"


class Line(Checked):
    """A line of a log; each kind of report asks for more."""

    model_config = ConfigDict(extra="allow")

    kind: Name = ""
    step: Step = 0


class NoteLine(Line):
    step: Step
    text: Annotated[str, Field(max_length=100_000)]


class StepLine(Line):
    step: Step
    epoch: Annotated[float, Field(ge=0, le=1e12)]
    loss: Measured
    seconds: Seconds


class ValidationLine(Line):
    step: Step
    loss: Measured
    perplexity: Measured


class ChosenLine(Line):
    step: Step
    weights: Name
    scores: Annotated[dict[Name, Measured], Field(min_length=1, max_length=100)]
    name: Name = "loss"


LINES: dict[str, type[Line]] = {
    "note": NoteLine,
    "step": StepLine,
    "validation": ValidationLine,
    "chosen": ChosenLine,
}
"""What is read again of each kind of report, and must be there."""


class SavedCorrection(Checked):
    step: Step
    progress: Annotated[float, Field(ge=0, le=1)]
    steps: Step


class SavedCounters(Checked):
    """What the loop had counted when a checkpoint was saved."""

    step: Step
    tokens: Count
    batches: Count
    seconds: Seconds
    best: Annotated[float, AllowInfNan()] | None
    best_step: Step | None
    waited: Step
    validated: Step
    splits: Annotated[int, Field(ge=1, le=1_024)]
    skipped: Step


class Circumstances(Checked):
    """What else the last bits of the weights depended on."""

    torch: Name
    threads: Count
    processes: Count


class SavedState(Checked):
    """All of a checkpoint that is not a tensor: its state.json."""

    counters: SavedCounters
    steps: Step
    corrections: Annotated[tuple[SavedCorrection, ...], Field(max_length=100_000)]
    average_updates: Count
    circumstances: Circumstances


class Inheritance(Checked):
    """What a run took over from another when it was begun."""

    run: str
    """The other run, seen from where the command was given."""
    taken: tuple[str, ...]
    left: tuple[str, ...]
    """Weights of the other run for which there was no place."""
    new: tuple[str, ...]
    """Weights that began at random."""
    known_tokens: float
    """The share of the tokens whose vectors were taken over."""


class RunPlan(Checked):
    """What was planned for a run, and why. The settings that were chosen stand in its config."""

    steps: Step
    """Updates that there were to be; `corrections` may have changed that."""
    seconds: Seconds | None
    """The time there was to be; None: a number of updates was given, and time changes nothing."""
    reasons: tuple[str, ...]
    """Why the settings are what they are, for people."""
    n_examples: Count | None = None
    examples: str = ""
    """The fingerprint of the training examples; empty, where it is not known."""
    baseline: str = ""
    """What a model without a network reaches on the validation examples, where it was measured."""
    inherited: Inheritance | None = None
    corrections: tuple[tuple[Step, Annotated[float, Field(ge=0, le=1)], Step], ...] = ()
    """Each: the step, the progress at that step (from 0 to 1), and the updates from then on.

    With no progress, a run that had ended began another course from its last weights."""

    threads: tuple[tuple[Count, Annotated[int, Field(ge=1, le=4_096)]], ...] = ()
    """Each: the step, and the threads that compute from then on."""

    @property
    def total(self) -> int:
        return self.corrections[-1][2] if self.corrections else self.steps

    @property
    def course(self) -> int:
        """Updates that the last course was to have."""
        begun = [(steps, step) for step, progress, steps in self.corrections if progress == 0]
        return begun[-1][0] - begun[-1][1] if begun else self.steps


def plan_in_log(lines: Iterable[Mapping[str, Any]], steps: int, path: object) -> RunPlan:
    """The plan of a run that an earlier version began, from the lines of its log.

    It may have been killed before it wrote any: then it has no reasons, and `seconds` is 0.
    """
    values: dict[str, Any] = {"steps": steps, "seconds": 0.0, "reasons": (), "corrections": []}
    for line in lines:
        rest = {name: value for name, value in line.items() if name not in ("kind", "step")}
        match line.get("kind"):
            case "plan":
                values |= rest
            case "inherited":
                values["inherited"] = rest
            case "correction":
                values["corrections"].append([line.get(k) for k in ("step", "progress", "steps")])
    return RunPlan.parsed(json.dumps(values), path)
