"""A run folder: everything that a model needs, in files that can be moved and never run."""

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from clearhead.config import Config, ModelConfig, config_from_toml, to_toml, whole_number
from clearhead.disk import (
    STRAY,
    atomic_file,
    discard,
    disk_errors,
    locked,
    make_folder,
    open_inside,
    read_inside,
    sweep,
    write_atomically,
)
from clearhead.errors import (
    ClearheadError,
    ConfigError,
    FolderError,
    ModelFileError,
    TokenizerError,
    shown,
)
from clearhead.folder.checkpoints import Checkpoint, Checkpoints
from clearhead.folder.history import Log, RunPlan, plan_in_log
from clearhead.model import Model, build
from clearhead.tensors import check_same, read_tensors, tensor_specs, write_tensors
from clearhead.text import Tokenizer
from clearhead.text.words import Words

CONFIG, PLAN, CARD = "config.toml", "plan.json", "card.md"
METRICS, FILM = "metrics.jsonl", "film.jsonl"
CHECKPOINTS, LOCK = "checkpoints", "lock"
TOKENIZER, SOURCE_TOKENIZER = "tokenizer.json", "source-tokenizer.json"
WORDS = "words.safetensors"
WEIGHTS = "weights.safetensors"
"""The weights to use; a checkpoint has its own under the same name."""
ORIGIN = "origin"
"""Files of the model that a run was imported from, so that an export can give it back as it came."""
FORMER_WEIGHTS = "former-weights.safetensors"
CACHE = "cache"
"""The weights in use as other programs read them; all of it can be made again."""
BEFORE_CONFIG = {LOCK, TOKENIZER, SOURCE_TOKENIZER, PLAN, WORDS, ORIGIN}
"""What a folder may hold before it is a run: creating one may have been cut short."""

MAX_CONFIG, MAX_PLAN, MAX_CARD, MAX_TOKENIZER, MAX_ORIGIN = 2**16, 2**22, 2**20, 2**25, 2**28
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
        words: Words | None = None,
        origin: Mapping[str, bytes] | None = None,
    ) -> Self:
        """A new run, which destroys nothing, neither another run nor a folder of something else.

        Its config is written last, for it makes a folder a run.
        """
        run = cls(path)
        run.refuse_occupied()
        own = {SOURCE_TOKENIZER: source_tokenizer} if source_tokenizer else {}
        tokenizers = {TOKENIZER: tokenizer, **own}
        make_folder(run.path)
        for name, learned in tokenizers.items():
            run.write(name, learned.json)
        if plan:
            run.write_plan(plan)
        if words is not None:
            run.write_words(words)
        for file, content in (origin or {}).items():
            make_folder((run.path / ORIGIN / file).parent)
            write_atomically(run.path / ORIGIN / file, content)
        fingerprint = ",".join(learned.fingerprint for learned in tokenizers.values())
        run.write_config(config.but(tokenizer=config.tokenizer.but(fingerprint=fingerprint)))
        return run

    def refuse_occupied(self) -> None:
        """Refuse to begin in a run, or in a folder of something else."""
        if self.exists():
            raise FolderError(
                f"{self.path} is a run already.",
                f"Resume with: clearhead train {self.path}, or choose another --into.",
            )
        names = [path.name for path in self.path.iterdir()] if self.path.is_dir() else []
        strangers = {name for name in names if not STRAY.fullmatch(name)} - BEFORE_CONFIG
        if strangers:
            raise FolderError(
                f"{self.path} is no run, and not empty: it holds {min(strangers)!a}.",
                "Choose another --into.",
            )

    @classmethod
    def open(cls, path: str | Path) -> Self:
        run = cls(path)
        if missing := [name for name in (CONFIG, TOKENIZER) if not (run.path / name).exists()]:
            found: list[str] = []
            for place in (run.path, run.path.parent):  # for someone who mistook a name
                with suppress(OSError, ValueError):
                    found += sorted(
                        str(near) for near in place.iterdir() if (near / CONFIG).is_file()
                    )
            raise FolderError(
                f"{run.path} is not a clearhead run: {' and '.join(missing)} missing.\n"
                f"Runs found next to it: {', '.join(found[:MAX_NEIGHBOURS]) or 'none'}.",
                f"Train one with: clearhead train SOURCE TARGET --into {run.path}",
            )
        return run

    def exists(self) -> bool:
        return (self.path / CONFIG).exists()

    def config(self) -> Config:
        return checked_config(read_inside(self.path, CONFIG, MAX_CONFIG), str(self.path / CONFIG))

    def write_config(self, config: Config) -> None:
        self.write(CONFIG, to_toml(config))

    def plan(self) -> RunPlan:
        """What the run was begun with, and how it was corrected; earlier versions logged it."""
        if os.path.lexists(self.path / PLAN):
            return RunPlan.parsed(read_inside(self.path, PLAN, MAX_PLAN), self.path / PLAN)
        found = plan_in_log(self.log.lines(), self.config().train.max_steps or 0, self.log.path)
        if not found.examples and self.checkpoints.path.is_dir():
            raise FolderError(
                f"{self.path / PLAN} is missing, and with it what the run was begun with.",
                "Take it from where the run was whole.",
            )
        return found

    def write_plan(self, plan: RunPlan) -> None:
        self.write(PLAN, plan.model_dump_json(indent=1) + "\n")

    def card(self) -> str:
        """What the model was trained on and how well it does, for people."""
        return read_inside(self.path, CARD, MAX_CARD).decode(errors="replace")

    def write_card(self, text: str) -> None:
        self.write(CARD, text)

    def write(self, name: str, text: str) -> None:
        write_atomically(self.path / name, text.encode())

    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """The source's tokenizer and the target's, which mostly are the same."""
        fingerprint, _, own = self.config().tokenizer.fingerprint.partition(",")
        target = self.read_tokenizer(TOKENIZER, fingerprint)
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

    def words(self) -> Words | None:
        """The words of the training text; earlier versions did not keep them."""
        if not os.path.lexists(self.path / WORDS):
            return None
        found = read_tensors(self.path, WORDS).get("words")
        if found is None or found.dtype != torch.int32 or found.dim() != 1:
            raise ModelFileError(
                f"{self.path / WORDS} holds no list of words.", "Remove it: it is only for notes."
            )
        return found.numpy()

    def write_words(self, words: Words) -> None:
        with atomic_file(self.path / WORDS, words.nbytes) as file:
            write_tensors(file, {"words": torch.from_numpy(words)}, seal=True)

    def model(self, device: str = "cpu", checkpoint: str = "") -> Model:
        """The model with the weights to use, or with those of a checkpoint: "last", or a step."""
        config = self.config().model
        if checkpoint:
            found = self.checkpoint_of(checkpoint)
            model = empty_model(config, found.files[WEIGHTS][0], found.path / WEIGHTS)
            tensors = found.tensors(Path(WEIGHTS).stem, expected=model.state_dict())
        else:
            self.refuse_unended()
            model = empty_model(config, self.weights_size(), self.path / WEIGHTS)
            tensors = read_tensors(self.path, WEIGHTS, expected=model.state_dict())
        model.load_state_dict(tensors, assign=True)
        return model.to(device).eval()

    def digest(self, checkpoint: str = "") -> str:
        """SHA-256 of all that decides what the run answers: settings, tokenizers, weights."""
        if checkpoint:
            weights = self.checkpoint_of(checkpoint).files[WEIGHTS][1]
        else:
            self.refuse_unended()
            weights = self.weights_sha256()
        config = self.config()
        deciding = {"task", "model", "tokenizer", "labels"}
        text = f"{config.model_dump_json(include=deciding)} {config.data.max_length} {weights}"
        return hashlib.sha256(text.encode()).hexdigest()

    def weights_sha256(self) -> str:
        with open_inside(self.path, WEIGHTS) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def refuse_unended(self) -> None:
        if self.has_weights() or not (self.checkpoints.path.exists() or self.log.path.exists()):
            return  # in a run that was never trained, weights are missing like any other file
        use = ", or use what there is with: --checkpoint last" if self.checkpoints.newest() else ""
        raise FolderError(
            f"{self.path} has not ended: {self.told_progress()}.",
            f"Train it to its end with: clearhead train {self.path}{use}",
        )

    def told_progress(self) -> str:
        """How much of a run that has not ended is saved."""
        newest = self.checkpoints.newest()
        saved = f"{newest.step:,} of {self.plan().total:,} steps are" if newest else "no step is"
        return f"{saved} saved"

    def checkpoint_of(self, name: str) -> Checkpoint:
        """The whole checkpoint of a step, or the newest one for "last"."""
        steps = self.checkpoints.steps()
        if name == "last" and steps:
            return self.checkpoints.open(steps[-1])
        if (step := whole_number(name)) in steps:
            return self.checkpoints.open(step)
        raise FolderError(
            f"{self.path} has no checkpoint {shown(name)}.",
            f"There are: {', '.join(['last', *map(str, steps)]) if steps else 'none'}.",
        )

    def n_parameters(self) -> int:
        model = empty_model(self.config().model, sys.maxsize, self.path / WEIGHTS)
        return sum(weight.numel() for weight in model.parameters())

    def has_weights(self) -> bool:
        """Whether training has ended with weights to use."""
        return os.path.lexists(self.path / WEIGHTS)

    def size(self) -> int:
        return bytes_in(self.path)

    def make_small(self) -> int:
        """Remove all that is there to train on, and not to use the model; the bytes this frees."""
        with self.lock():
            before = self.size()
            with disk_errors(self.path):
                discard(self.checkpoints.path)
                discard(self.path / CACHE)
                for name in (FORMER_WEIGHTS, FILM):
                    (self.path / name).unlink(missing_ok=True)
            return before - self.size()

    def remove(self) -> None:
        """Remove the whole run, if no process is writing to it."""
        with self.lock(), disk_errors(self.path):
            discard(self.path)

    def write_weights(self, tensors: Mapping[str, Tensor]) -> None:
        """Replace the weights to use; a process that has loaded the old ones keeps them."""
        path, needed = self.path / WEIGHTS, sum(tensor.nbytes for tensor in tensors.values())
        model = empty_model(self.config().model, needed, path)
        check_same(tensor_specs(tensors), tensor_specs(model.state_dict()))
        with atomic_file(path, needed) as file:
            write_tensors(file, tensors, seal=True)

    def origin(self) -> Path | None:
        """Where the files of the model lie that the run was imported from."""
        return self.path / ORIGIN if (self.path / ORIGIN).is_dir() else None

    def origin_files(self) -> dict[str, bytes]:
        """The files of the model that the run was imported from; none, if it was not."""
        place = self.path / ORIGIN
        names = (
            str(file.relative_to(place)) for file in sorted(place.rglob("*")) if file.is_file()
        )
        return {name: read_inside(place, name, MAX_ORIGIN) for name in names}

    def weights_size(self) -> int:
        """The bytes of the weights to use."""
        with open_inside(self.path, WEIGHTS) as file:
            return os.fstat(file.fileno()).st_size

    def cached(self, kind: str) -> Path:
        """Where the weights in use are kept in another form; other weights have another place."""
        return self.path / CACHE / f"{kind}-{self.weights_sha256()[:16]}"

    def keep_former_weights(self) -> Path:
        """Copy the weights to use to a name of their own, before others take their place."""
        former, needed = self.path / FORMER_WEIGHTS, self.weights_size()
        with open_inside(self.path, WEIGHTS) as weights, atomic_file(former, needed) as file:
            shutil.copyfileobj(weights, file)
        return former

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder, so that one process writes, and remove what dead ones left.

        Of the processes that train together, the first locks. A folder that was made for it and
        is empty in the end, because nothing could be begun, goes.
        """
        is_new = not self.path.exists()
        make_folder(self.path)
        try:
            with locked(self.path / LOCK):
                with disk_errors(self.path):
                    sweep(self.path)
                    if not self.checkpoints.path.is_symlink():
                        sweep(self.checkpoints.path)
                yield
        finally:
            if is_new:
                with suppress(OSError):  # it is not empty
                    self.path.rmdir()

    def problems(self) -> list[str]:
        """Everything that is wrong with the folder; nothing, if it can be used and trained on."""
        found: list[str] = []
        for read in (
            self.config,
            self.tokenizers,
            self.plan,
            self.words,
            # before its end, a run has no weights
            lambda: (self.has_weights() or not self.checkpoints.steps()) and self.model(),
            lambda: sum(1 for _ in self.log.lines()),
            lambda: sum(1 for _ in self.film.lines()),
        ):
            try:
                read()
            except ClearheadError as error:
                found.append(error.whole)
        return list(dict.fromkeys(found + self.checkpoints.problems()))


def bytes_in(path: Path) -> int:
    """The size of all files in a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


@lru_cache(maxsize=16)
def checked_config(content: bytes, name: str) -> Config:
    """The settings in a config.toml; the same bytes are parsed once."""
    if content.count(b".") > MAX_DOTS:
        raise ConfigError(
            f"{name} has more than {MAX_DOTS:,} dots, which no settings need.", "Write it again."
        )
    try:
        return config_from_toml(content.decode(), name)
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{name} is not UTF-8: {error.reason} at byte {error.start}.", "Write it again."
        ) from None


def empty_model(config: ModelConfig, n_bytes: int, path: Path) -> Model:
    """The model of a config on the meta device, if its weights can be in so many bytes."""
    if least_bytes(config) > n_bytes:
        raise ModelFileError(
            f"{path}: config.toml asks for weights of at least {least_bytes(config):,} bytes, "
            f"found {n_bytes:,}.",
            "Take config.toml and the weights from the same run.",
        )
    with torch.device("meta"), Undrawn():
        return build(config)


class Undrawn(TorchFunctionMode):
    """Skips the random initialisation of weights, for others take their place.

    Without memory (on the meta device) a draw would cost little, but the first one makes torch
    import its compiler, which takes seconds.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func.__name__ in ("normal_", "uniform_"):
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)


def least_bytes(config: ModelConfig) -> int:
    """A lower bound of what the weights take, which costs nothing."""
    return torch.float32.itemsize * config.least_weights
