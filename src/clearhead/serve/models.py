"""The runs that are served: what each can do, loaded when first asked for, within a memory budget."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from clearhead.config import Config
from clearhead.decode import Backend, Searching, WithBackend
from clearhead.errors import ClearheadError, ConfigError, RequestError, shown
from clearhead.folder import RunFolder
from clearhead.folder.run import WEIGHTS
from clearhead.machine import n_processors
from clearhead.serve.pool import Handed, Handing, Pool, Ticket, Together
from clearhead.tasks import Chatbot, Classifier, Encoder, Filler, Translator, User, Writer, load
from clearhead.tasks.runs import user_of
from clearhead.text.languages import languages_in

Load = Callable[[Path], User]
BackendFor = Callable[[Path, User], Backend | None]
"""Finds another decoder for a run, if there is a good one."""


def no_backend(_path: Path, _user: User) -> None:
    """Our own engine decodes all."""


ABILITIES: dict[str, tuple[type[User], ...]] = {
    "translate": (Translator,),
    "chat": (Chatbot,),
    "write": (Writer,),
    "classify": (Classifier,),
    "fill": (Filler,),
    "alternatives": (Translator,),
}
"""What users can do; everyone can be looked into, and an encoder turns texts into vectors."""
AHEAD = 2
"""Batches for a backend: while one is decoded, the answers of the other are written."""
COPIES = 2.2
"""Memory of a loaded model over its weights: they are laid out once more for decoding."""
PROCESS = 100_000_000
"""Memory of a process of another engine, besides the weights."""


class ServedRun:
    """A run folder, and its model while it is loaded."""

    def __init__(
        self,
        path: Path,
        name: str,
        load: Load,
        backend_for: BackendFor = no_backend,
        n_servers: int = 1,
        n_decoders: int = 0,
    ) -> None:
        self.folder, self.name, self.load = RunFolder.open(path), name, load
        self.backend_for, self.n_servers, self.n_decoders = backend_for, n_servers, n_decoders
        self.user: User | None = None
        self.pool: Pool | None = None
        self.backend: Backend | None = None
        self.backend_pool: Pool | None = None
        self.classify: Together[str, Any] | None = None
        self.embed: Together[str, Any] | None = None
        self.n_using, self.used_at = 0, 0.0

    @property
    def config(self) -> Config:
        """Its settings: those of the model in memory, else of the folder."""
        return user.config if (user := self.user) else self.folder.config()

    @property
    def languages(self) -> tuple[str, str]:
        """The codes of what it reads and writes, from its settings or names; else empty."""
        data = self.config.data
        if data.source_language and data.target_language:
            return data.source_language, data.target_language
        return languages_in([self.name]) if self.kind is Translator else ("", "")

    @cached_property
    def n_parameters(self) -> int:
        return self.folder.n_parameters()

    @property
    def bytes(self) -> int:
        """Memory that it needs, with the processes that another engine has, or would have."""
        weights = self.folder.path / WEIGHTS
        if not weights.exists():
            return 0
        has_others = self.backend if self.user else self.kind is Translator
        size, n_others = weights.stat().st_size, self.n_decoders if has_others else 0
        return int(COPIES * size + n_others * (PROCESS + size))

    @property
    def kind(self) -> type[User] | None:
        """What it can be used as."""
        return user_of(self.config)

    def open(self) -> None:
        """Load the model; requests that come meanwhile wait."""
        self.user = self.load(self.folder.path)
        # A thread decodes on each processor that torch leaves free.
        n_threads = n_processors() // (self.n_servers * torch.get_num_threads())
        self.pool = Pool(self.name, n_threads=max(1, n_threads))
        if isinstance(self.user, Translator):  # others are streamed, token by token
            self.backend = self.backend_for(self.folder.path, self.user)
        if self.backend:
            self.backend_pool = Pool(self.name, partial(Handed, self.backend), n_threads=AHEAD)
        if isinstance(self.user, Classifier):
            self.classify = Together(self.user.classify)
        if Encoder.suits(self.user.config):
            encoder = Encoder(self.user.model, self.user.tokenizers, self.user.config)
            self.embed = Together(lambda texts: list(encoder.embed(texts)))

    def put_away(self) -> None:
        """Free the memory of the model; a backend ends with its last caller."""
        for pool in (self.pool, self.backend_pool):
            if pool:
                pool.close()
        self.user = self.pool = self.classify = self.embed = None
        self.backend = self.backend_pool = None

    def searching(self, ticket: Ticket) -> Searching:
        """Who decodes for the holder of a ticket."""
        if self.backend is None or self.backend_pool is None:
            return ticket
        return WithBackend(Handing(self.backend_pool, self.backend, ticket), own=ticket)

    def cannot(self, ability: str) -> str:
        """Why it cannot do this; empty if it can."""
        if self.user is None and not self.folder.has_weights():
            return "Its training has not ended."
        kind = self.kind
        if kind is None:
            return f"It was pre-trained for other runs to begin with (family {self.config.model.family})."
        if ability == "embed":
            has_encoder = Encoder.suits(self.config)
            return (
                "" if has_encoder else "Its model has no encoder, which turns texts into vectors."
            )
        if ability == "look" or kind in ABILITIES[ability]:
            return ""
        remedy = ABILITIES[ability][0].remedy
        return f"It was trained for {self.config.task}. Train one with: {remedy}"


class Shelf:
    """All served runs by name; the least recently used are put away when memory is short."""

    def __init__(
        self,
        paths: Sequence[Path],
        load: Load = load,
        memory: int = 0,
        seconds: float = 60.0,
        backend_for: BackendFor = no_backend,
        n_servers: int = 1,
        n_decoders: int = 0,
    ) -> None:
        names = [Path(path).resolve().name for path in paths]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigError(
                f"Two runs have the name {', '.join(sorted(twice))}.", "Rename one of the folders."
            )
        self.memory, self.seconds, self.lock = memory, seconds, threading.RLock()
        self.runs = {
            name: ServedRun(
                Path(path), name, load, backend_for, n_servers=n_servers, n_decoders=n_decoders
            )
            for name, path in zip(names, paths, strict=True)
        }
        for run in self.runs.values():
            if memory and run.bytes > memory:
                raise ConfigError(
                    f"{run.folder.path} needs about {run.bytes / 1e6:,.0f} MB of memory, and the "
                    f"budget is {memory / 1e6:,.0f}.",
                    "Give a larger --memory, or none.",
                )

    def named(self, name: str | None, ability: str) -> ServedRun:
        """The run of that name, if it can do this; without a name, the first that can."""
        if name is None:
            able = [run for run in self.runs.values() if not run.cannot(ability)]
            if not able:
                raise RequestError(
                    f"No run here can {ability}.",
                    why_not(self.runs.values(), ability),
                    404,
                    "no_run",
                )
            return able[0]
        if name not in self.runs:
            raise RequestError(
                f"There is no run {shown(name, 40)}.",
                f"There are: {', '.join(self.runs)}.",
                404,
                "model_not_found",
            )
        if reason := self.runs[name].cannot(ability):
            raise RequestError(f"{name} cannot {ability}.", reason, 400, "cannot")
        return self.runs[name]

    @contextmanager
    def using(self, run: ServedRun) -> Iterator[tuple[User, Ticket]]:
        """The user of a run, which stays in memory meanwhile, and a ticket of its pool."""
        with self.lock:
            if run.user is None:
                self.make_room(run.bytes)
                try:
                    run.open()
                except ClearheadError as error:
                    raise RequestError(str(error), error.advice, 503, "unloadable") from error
            run.n_using, run.used_at = run.n_using + 1, time.monotonic()
            user, pool = run.user, run.pool
            assert pool is not None, "it was loaded"
            ticket = Ticket(pool, self.seconds)
            searching = run.searching(ticket)
        assert user is not None, "it was loaded"
        try:
            yield user.by(searching), ticket
        finally:
            ticket.leave()
            with self.lock:
                run.n_using -= 1

    def make_room(self, n_bytes: int) -> None:
        loaded = [run for run in self.runs.values() if run.user is not None]
        idle = sorted((run for run in loaded if not run.n_using), key=lambda run: run.used_at)
        while self.memory and sum(run.bytes for run in loaded) + n_bytes > self.memory:
            if not idle:
                raise RequestError(
                    "The models in use leave no memory for this one.",
                    "Ask again.",
                    503,
                    "no_memory",
                )
            loaded.remove(idle[0])
            idle.pop(0).put_away()

    def open_all(self) -> None:
        """Load what fits into the budget, in the order given, so that nobody has to wait."""
        for run in self.runs.values():
            used = sum(other.bytes for other in self.runs.values() if other.user)
            if (
                run.folder.has_weights()
                and run.kind
                and not (self.memory and used + run.bytes > self.memory)
            ):
                with self.using(run):
                    pass


def why_not(runs: Any, ability: str) -> str:
    return " ".join(f"{run.name}: {run.cannot(ability)}" for run in runs)
