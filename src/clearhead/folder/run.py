"""A run folder: everything that a model needs, in files that can be moved and never run."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Self

from torch import Tensor

from clearhead.config import Config, config_from_toml, to_toml
from clearhead.disk import (
    STRAY,
    atomic_file,
    disk_errors,
    make_folder,
    open_inside,
    read_inside,
    require_space,
    size_inside,
    sweep,
)
from clearhead.errors import ClearheadError, ConfigError, FolderError, TokenizerError
from clearhead.folder.checkpoints import Checkpoints
from clearhead.folder.lock import locked
from clearhead.folder.log import Log
from clearhead.folder.plan import RunPlan, plan_in_log
from clearhead.folder.weights import read_model, write_model
from clearhead.model import Transformer
from clearhead.text import Tokenizer

CONFIG, PLAN, CARD = "config.toml", "plan.json", "card.md"
METRICS, FILM = "metrics.jsonl", "film.jsonl"
CHECKPOINTS, LOCK = "checkpoints", "lock"
TOKENIZER, SOURCE_TOKENIZER = "tokenizer.json", "source-tokenizer.json"
WEIGHTS = "weights.safetensors"
"""The weights to use; a checkpoint has its own under the same name."""
FORMER_WEIGHTS = "former-weights.safetensors"
"""The weights that were to be used before others took their place."""
BEFORE_CONFIG = {LOCK, TOKENIZER, SOURCE_TOKENIZER, PLAN}
"""What a folder may hold before it is a run: creating one may have been cut short."""

MAX_CONFIG, MAX_PLAN, MAX_CARD, MAX_TOKENIZER = 2**16, 2**22, 2**20, 32 * 2**20
MAX_DOTS = 4_000
"""Dots in config.toml: reading a dotted key takes time that grows with the square of its parts."""
MAX_NEIGHBOURS = 5


class RunFolder:
    """The files of a run, by what they mean."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = Checkpoints(self.path, CHECKPOINTS)
        self.log = Log(self.path, METRICS)
        self.film = Log(self.path, FILM)

    @classmethod
    def create(
        cls,
        path: str | Path,
        config: Config,
        tokenizer: Tokenizer,
        source_tokenizer: Tokenizer | None = None,
        plan: RunPlan | None = None,
    ) -> Self:
        """A new run; its config is written last, for it makes a folder a run."""
        run = cls(path)
        run.refuse_occupied()
        tokenizers = {TOKENIZER: tokenizer}
        if source_tokenizer:
            tokenizers[SOURCE_TOKENIZER] = source_tokenizer
        with disk_errors(run.path):
            make_folder(run.path)
        for name, learned in tokenizers.items():
            run.write(name, learned.json)
        if plan:
            run.write_plan(plan)
        fingerprint = ",".join(learned.fingerprint for learned in tokenizers.values())
        run.write_config(config.but(tokenizer=config.tokenizer.but(fingerprint=fingerprint)))
        return run

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """A run that is there."""
        run = cls(path)
        if missing := [name for name in (CONFIG, TOKENIZER) if not (run.path / name).exists()]:
            raise FolderError(
                f"{run.path} is not a clearhead run: {' and '.join(missing)} missing.\n"
                f"Runs found next to it: {', '.join(run.neighbours()) or 'none'}.",
                f"Train one with: clearhead train SOURCE TARGET --into {run.path}",
            )
        return run

    def exists(self) -> bool:
        """Whether the folder is a run."""
        return (self.path / CONFIG).exists()

    def refuse_occupied(self) -> None:
        """A new run destroys nothing: neither another run nor a folder of something else."""
        if self.exists():
            raise FolderError(
                f"{self.path} is a run already.",
                f"Go on with: clearhead train {self.path}, or choose another --into.",
            )
        names = sorted(path.name for path in self.path.iterdir()) if self.path.is_dir() else []
        for name in names:
            if name not in BEFORE_CONFIG and not STRAY.fullmatch(name):
                raise FolderError(
                    f"{self.path} is no run, and not empty: it holds {name!a}.",
                    "Choose another --into.",
                )

    def neighbours(self) -> list[str]:
        """Runs in the same place, or in the folder itself, for someone who mistook a name."""
        found: list[str] = []
        for place in (self.path, self.path.parent):
            with suppress(OSError, ValueError):
                found += sorted(str(path) for path in place.iterdir() if (path / CONFIG).is_file())
        return found[:MAX_NEIGHBOURS]

    def config(self) -> Config:
        return config_of(read_inside(self.path, CONFIG, MAX_CONFIG), str(self.path / CONFIG))

    def write_config(self, config: Config) -> None:
        self.write(CONFIG, to_toml(config))

    def plan(self) -> RunPlan:
        """What the run was begun with, and how it was corrected; earlier versions logged it."""
        if os.path.lexists(self.path / PLAN):
            return RunPlan.parsed(read_inside(self.path, PLAN, MAX_PLAN), self.path / PLAN)
        return plan_in_log(self.log.lines(), self.config().train.max_steps or 0, self.log.path)

    def write_plan(self, plan: RunPlan) -> None:
        """Put a plan in the place of the one that may be there, atomically."""
        self.write(PLAN, plan.model_dump_json(indent=1) + "\n")

    def card(self) -> str:
        """What the model was trained on and how well it does, for people."""
        return read_inside(self.path, CARD, MAX_CARD).decode(errors="replace")

    def write_card(self, text: str) -> None:
        self.write(CARD, text)

    def write(self, name: str, text: str) -> None:
        content = text.encode()
        with atomic_file(self.path / name, len(content)) as file:
            file.write(content)

    def tokenizer(self) -> Tokenizer:
        """The tokenizer of what the model writes, and of what it reads unless that has its own."""
        return self.read_tokenizer(TOKENIZER, self.config().tokenizer.fingerprint.split(",")[0])

    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Those of what the model reads and of what it writes, which mostly are one."""
        target, own = self.tokenizer(), self.config().tokenizer.fingerprint.partition(",")[2]
        return self.read_tokenizer(SOURCE_TOKENIZER, own) if own else target, target

    def read_tokenizer(self, name: str, fingerprint: str) -> Tokenizer:
        """A tokenizer, if the model was trained with it: with any other it would write nonsense."""
        try:
            tokenizer = Tokenizer.from_json(read_inside(self.path, name, MAX_TOKENIZER))
        except TokenizerError as error:
            raise error.at(self.path / name) from None
        if tokenizer.fingerprint != fingerprint:
            raise TokenizerError(
                f"{self.path / name} is not the tokenizer that trained the model: its fingerprint "
                f"is {tokenizer.fingerprint}, {CONFIG} has {fingerprint or 'none'}.",
                f"Take the {name} that was written with the model.",
            )
        return tokenizer

    def model(self, device: str = "cpu", step: int | None = None) -> Transformer:
        """The model with the weights to use, or with those of a checkpoint, ready to be used."""
        name, sha256 = (WEIGHTS, None) if step is None else self.checkpoint_weights(step)
        return read_model(self.path, name, self.config().model, sha256).to(device).eval()

    def checkpoint_weights(self, step: int) -> tuple[str, str]:
        checkpoint = self.checkpoints.at(step)
        if checkpoint is None or WEIGHTS not in checkpoint.files:
            steps = ", ".join(map(str, self.checkpoints.steps())) or "none"
            raise FolderError(
                f"{self.path} has no checkpoint with weights at step {step}.",
                f"There are: {steps}.",
            )
        return f"{checkpoint.name}/{WEIGHTS}", checkpoint.files[WEIGHTS][1]

    def has_weights(self) -> bool:
        """Whether training has ended with weights to use."""
        return os.path.lexists(self.path / WEIGHTS)

    def size(self) -> int:
        """Bytes of all files in the folder."""
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())

    def write_weights(self, tensors: Mapping[str, Tensor]) -> None:
        """Replace the weights to use; a process that has loaded the old ones keeps them."""
        write_model(self.path / WEIGHTS, self.config().model, tensors)

    def keep_former_weights(self) -> Path:
        """Copy the weights to use to a name of their own, before others take their place."""
        former, n_bytes = self.path / FORMER_WEIGHTS, size_inside(self.path, WEIGHTS)
        require_space(self.path, n_bytes)
        with open_inside(self.path, WEIGHTS) as weights, atomic_file(former, n_bytes) as file:
            shutil.copyfileobj(weights, file)
        return former

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the one process that writes here, and remove what dead ones left.

        Of the processes that train together, the first locks.
        """
        with disk_errors(self.path):
            make_folder(self.path)
        with locked(self.path / LOCK):
            with disk_errors(self.path):
                sweep(self.path)
                self.checkpoints.sweep()
            yield

    def problems(self) -> list[str]:
        """Everything that is wrong with the folder; nothing, if it can be used and trained on."""
        found: list[str] = []
        readers: tuple[Callable[[], object], ...] = (
            self.config,
            self.tokenizers,
            self.plan,
            # before its end, a run has no weights
            lambda: (self.has_weights() or not self.checkpoints.steps()) and self.model(),
            lambda: sum(1 for _ in self.log.lines()),
            lambda: sum(1 for _ in self.film.lines()),
        )
        for read in readers:
            try:
                read()
            except ClearheadError as error:
                found.append(error.whole)
        return list(dict.fromkeys(found + self.checkpoints.problems()))


@lru_cache(maxsize=16)
def config_of(content: bytes, name: str) -> Config:
    """The settings in a config.toml; the same bytes are parsed once."""
    if content.count(b".") > MAX_DOTS:
        raise ConfigError(
            f"{name} has more than {MAX_DOTS:,} dots, which no settings need.", "Write it anew."
        )
    try:
        return config_from_toml(content.decode(), name)
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{name} is not UTF-8: {error.reason} at byte {error.start}.", "Write it anew."
        ) from None
