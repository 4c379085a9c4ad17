"""The certificate of an exchange: the same sample through both models, and how far they agree.

Each import and export measures itself and writes `certificate.md` for people and `certificate.json`
for programs. Beyond tolerance the command fails, and names the first thing that differs.
"""

import json
import math
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from itertools import islice, zip_longest
from pathlib import Path

import torch
from torch import Tensor

from clearhead import __version__
from clearhead.config import DecodeConfig, ModelConfig
from clearhead.decode import decode
from clearhead.disk import write_atomically
from clearhead.errors import ExchangeError
from clearhead.folder import RunFolder
from clearhead.model import Model
from clearhead.tasks import TASKS
from clearhead.tasks.translation import source_row
from clearhead.text import END, START, Tokenizer

CERTIFICATE = "certificate"
LOGITS = 1e-4
"""The largest difference of two logits that float32 arithmetic in another order may leave."""
SAMPLE = (
    "A man rides a bike through the rain.",
    "The committee, which met on Tuesday, could not agree on the 3 proposals.",
    "How far is it to the next village?",
    "Two dogs sleep under the old wooden table.",
    "In 1969 people walked on the moon for the first time!",
)
"""What is run both ways where nobody gives a sample."""
N_TEXTS, N_WRITTEN = 64, 16
"""Texts of a run's own files that are run both ways, and tokens that are written for each."""
Forward = Callable[[list[int], list[int]], Tensor]
"""A forward pass of a model: from the ids that it reads and those that it has written to logits."""


@dataclass(frozen=True, kw_only=True)
class Beside:
    """A figure of our model and of the other, in that order."""

    ours: float
    theirs: float


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """How far a model here and the same model elsewhere agree; `str()` is the page for people."""

    title: str
    """What was exchanged: "runs/x as CTranslate2 int8"."""
    other: str
    """What ran the other model: "transformers 5.1", "CTranslate2 4.6"."""
    n_texts: int
    logit_difference: float | None = None
    """The largest between two logits (or entries of sentence vectors); None: not comparable."""
    max_logit_difference: float = LOGITS
    tokens_same: float | None = None
    """Share of the tokens of greedy output that are identical; None: nothing is written."""
    min_tokens_same: float = 1.0
    first_difference: str = ""
    """The first tensor, text or step that differs, in words."""
    scores: Mapping[str, Beside] = field(default_factory=dict)
    """By name and unit: "BLEU", "accuracy", "sentences per second", "bytes on disk", "MB of memory"."""
    max_loss: Mapping[str, float] = field(default_factory=dict)
    """How much of a score the other model may lose, by its name."""
    tensors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Every tensor of the other model by what became of it: "used", "tied", "left out"."""
    notes: Sequence[str] = ()
    packages: Sequence[str] = ()
    """Packages whose versions belong on the page, besides clearhead and torch."""

    @property
    def faults(self) -> list[str]:
        """What is beyond tolerance, in words; none: the certificate is good."""
        found = []
        difference, same = self.logit_difference, self.tokens_same
        if difference is not None and not difference <= self.max_logit_difference:
            found.append(
                f"logits differ by {difference:.2g}, allowed {self.max_logit_difference:g}"
            )
        if same is not None and same < self.min_tokens_same:
            found.append(
                f"{same:.2%} of the tokens are the same, needed {self.min_tokens_same:.2%}"
            )
        for name, most in self.max_loss.items():
            loss = self.scores[name].ours - self.scores[name].theirs
            if loss > most:
                found.append(f"{name} falls by {loss:.2f}, allowed {most:g}")
        return found

    @property
    def is_good(self) -> bool:
        return not self.faults

    def require(self) -> None:
        """Refuse an exchange whose result is another model."""
        if self.faults:
            first = f" First difference: {self.first_difference}." if self.first_difference else ""
            raise ExchangeError(
                f"{self.title} is not the same model: {'; '.join(self.faults)}.{first}",
                "Nothing was written. Take the source from where it was whole.",
            )

    @property
    def versions(self) -> dict[str, str]:
        own = {"clearhead": __version__, "python": platform.python_version()}
        return own | {name: metadata.version(name) for name in ("torch", *self.packages)}

    def __str__(self) -> str:
        rows = [
            ("compared with", self.other),
            ("texts", f"{self.n_texts:,}"),
            ("largest logit difference", shown_figure(self.logit_difference, ".2g")),
            ("tokens identical", shown_figure(self.tokens_same, ".2%")),
            *(
                (name, f"{figure_of(each.ours)} here, {figure_of(each.theirs)} there")
                for name, each in self.scores.items()
            ),
            *((f"tensors {fate}", few_names(names)) for fate, names in self.tensors.items()),
            *self.versions.items(),
        ]
        agreed = "The two agree." if self.n_texts else "No sample was run."
        verdict = agreed if self.is_good else f"They differ: {'; '.join(self.faults)}."
        first = [f"- first difference: {self.first_difference}"] if self.first_difference else []
        lines = [f"# {self.title}", "", verdict, "", "| | |", "|---|---|"]
        lines += [f"| {name} | {value} |" for name, value in rows]
        return (
            "\n".join([*lines, "", *first, *(f"- {note}" for note in self.notes)]).rstrip() + "\n"
        )

    def as_json(self) -> str:
        found = {**asdict(self), "good": self.is_good, "faults": self.faults}
        return json.dumps({**found, "versions": self.versions}, ensure_ascii=False, indent=1) + "\n"

    def write(self, folder: Path) -> None:
        for ending, text in (("md", str(self)), ("json", self.as_json())):
            write_atomically(folder / f"{CERTIFICATE}.{ending}", text.encode())


def shown_figure(figure: float | None, how: str) -> str:
    return "–" if figure is None else format(figure, how)


def figure_of(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 1_000 else f"{figure:.4g}"


def few_names(names: Sequence[str]) -> str:
    """A count, and the names where they are few."""
    return f"{len(names)}{': ' + ', '.join(names) if 0 < len(names) <= 8 else ''}"


def sample(folder: RunFolder) -> list[str]:
    """The first texts that the run was validated or trained on, where they still are."""
    config = folder.config()
    files = [folder.path / name for name in config.data.validation_files or config.data.files]
    if not files or not all(file.is_file() for file in files):
        return list(SAMPLE)
    task = TASKS[config.task]
    examples = islice(iter(task.read(*files, columns=config.data.columns)), N_TEXTS)
    return [text for text in map(task.read_text, examples) if text.strip()]


def read_and_written(
    model: Model, source: Tokenizer, text: str, end: int = END
) -> tuple[list[int], list[int]]:
    """The ids that our model reads of a text, and those that it then writes, greedily."""
    config = model.config
    # what is written needs positions as well, and learned ones come to an end
    n_written = min(N_WRITTEN, config.max_positions // 2) if config.writes else 0
    ids = source.encode(text)[: max(1, config.max_positions - n_written - 2)]
    if not config.writes:
        return source.reading(ids), []
    read = source_row(ids, config) if config.reads else [END, *ids]
    greedy = DecodeConfig(beam=1, max_length=max(1, n_written), guard=False)
    return read, list(decode(model, [read], greedy, end=end)[0][0].ids)


def teacher_forced(
    config: ModelConfig, read: list[int], written: list[int]
) -> tuple[list[int], list[int]]:
    """What encoder and decoder read in one pass; nothing, where there is none."""
    if not config.reads:
        return [], [*read, *written]
    return read, [START, *written] if config.writes else []


@torch.inference_mode()
def our_forward(model: Model, read: list[int], written: list[int]) -> Tensor:
    """The forward pass of our model: logits of tokens or classes, or the encoder's vectors."""
    both = teacher_forced(model.config, read, written)
    found: Tensor = model(*(torch.tensor([side]) if side else None for side in both))
    return found


def forward_both(
    asked: Sequence[tuple[list[int], list[int]]], ours: Forward, theirs: Forward
) -> tuple[dict[str, Tensor], dict[str, Tensor], Beside]:
    """The forward passes of both models over the same texts, by name, and the seconds they take."""
    answers, seconds = list[dict[str, Tensor]](), list[float]()
    for model in (ours, theirs):
        begin = time.perf_counter()
        answers.append({f"text {n}": model(*each) for n, each in enumerate(asked, start=1)})
        seconds.append(time.perf_counter() - begin)
    return answers[0], answers[1], Beside(ours=seconds[0], theirs=seconds[1])


def largest_difference(
    ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]
) -> tuple[float, str]:
    """The largest difference of any two numbers of one name, and the first name beyond tolerance.

    Tensors are taken in the order of `ours`, which should be that of the computation.
    """
    most, first = 0.0, ""
    for name, mine in ours.items():
        found = float((mine.double() - theirs[name].double()).abs().max())
        most = found if math.isnan(found) else max(most, found)
        if not first and not found <= LOGITS:
            first = f"{name}, by {found:.2g}"
    return most, first


def same_tokens(
    ours: Iterable[Sequence[int | str]], theirs: Iterable[Sequence[int | str]]
) -> tuple[float, str]:
    """The share of tokens that are the same at the same place, and the first difference in words."""
    n_same, n_all, first = 0, 0, ""
    for text, (mine, other) in enumerate(zip(ours, theirs, strict=True), start=1):
        same = [a == b for a, b in zip_longest(mine, other)]
        n_same, n_all = n_same + sum(same), n_all + len(same)
        if not first and not all(same):
            first = f"text {text}, token {same.index(False) + 1}"
    return (n_same / n_all if n_all else 1.0), first
