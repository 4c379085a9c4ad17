"""The runs that are served: what each can do, loaded when first asked for, within a memory budget."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path

import torch

from clearhead.config import Config
from clearhead.decode import Backend, WithBackend
from clearhead.errors import ClearheadError, ConfigError, RequestError, shown
from clearhead.folder import RunFolder
from clearhead.folder.run import WEIGHTS
from clearhead.machine import n_processors
from clearhead.serve.pool import BackendGroup, MicroBatcher, Pool, SharedBackend, Ticket
from clearhead.serve.settings import ServerSettings
from clearhead.tasks import (
    Chatbot,
    Classification,
    Classifier,
    Encoder,
    Filler,
    Translator,
    User,
    Writer,
    load,
)
from clearhead.tasks.runs import user_of
from clearhead.text.languages import languages_in

BackendFor = Callable[[Path, User], Backend | None]
"""Finds another decoder for a run, if there is a good one; else our own engine decodes all."""
ABILITIES: dict[str, type[User]] = {
    "translate": Translator,
    "chat": Chatbot,
    "write": Writer,
    "classify": Classifier,
    "fill": Filler,
    "alternatives": Translator,
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

    def __init__(self, path: Path, settings: ServerSettings, backend_for: BackendFor) -> None:
        self.folder, self.name = RunFolder.open(path), path.resolve().name
        self.settings, self.backend_for = settings, backend_for
        self.user: User | None = None
        self.pool: Pool | None = None
        self.backend: Backend | None = None
        self.backend_pool: Pool | None = None
        self.classify, self.embed = MicroBatcher(self._classify), MicroBatcher(self._embed)
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
        size, n_others = weights.stat().st_size, self.settings.n_decoders if has_others else 0
        return int(COPIES * size + n_others * (PROCESS + size))

    @property
    def kind(self) -> type[User] | None:
        """What it can be used as."""
        return user_of(self.config)

    def load(self) -> None:
        """Load the model; requests that come meanwhile wait."""
        self.user = load(self.folder.path)
        # A thread decodes on each processor that torch leaves free.
        n_threads = n_processors() // (self.settings.workers * torch.get_num_threads())
        self.pool = Pool(self.name, n_threads=max(1, n_threads))
        if isinstance(self.user, Translator):  # others are streamed, token by token
            self.backend = self.backend_for(self.folder.path, self.user)
        if self.backend:
            self.backend_pool = Pool(
                self.name, partial(BackendGroup, self.backend), n_threads=AHEAD
            )

    def unload(self) -> None:
        """Free the memory of the model; a backend ends with its last caller."""
        for pool in (self.pool, self.backend_pool):
            if pool:
                pool.close()
        self.user = self.pool = self.backend = self.backend_pool = None

    def lend(self, gone: threading.Event | None) -> tuple[User, Ticket]:
        """The user for one caller, whose outputs the pool decodes, and the caller's ticket."""
        assert self.user is not None, "it was loaded"
        assert self.pool is not None, "it was loaded"
        ticket = Ticket(self.pool, self.settings.limits.seconds, gone)
        if self.backend is None or self.backend_pool is None:
            return self.user.by(ticket), ticket
        handing = SharedBackend(self.backend_pool, self.backend, ticket)
        return self.user.by(WithBackend(handing, own=ticket)), ticket

    def _classify(self, texts: list[str]) -> list[Classification]:
        assert isinstance(self.user, Classifier), "it was loaded, and can classify"
        return self.user.classify(texts)

    def _embed(self, texts: list[str]) -> list[list[float]]:
        assert self.user is not None, "it was loaded"
        encoder = Encoder(self.user.model, self.user.tokenizers, self.user.config)
        vectors: list[list[float]] = encoder.embed(texts).tolist()
        return vectors

    def cannot(self, ability: str) -> str:
        """Why it cannot do this; empty if it can."""
        if self.user is None and not self.folder.has_weights():
            return "Its training has not ended."
        config = self.config
        kind = user_of(config)
        if kind is None:
            return (
                f"It was pre-trained for other runs to begin with (family {config.model.family})."
            )
        if ability == "embed":
            reason = "Its model has no encoder, which turns texts into vectors."
            return "" if Encoder.suits(config) else reason
        if ability == "look" or kind is ABILITIES[ability]:
            return ""
        return f"It was trained for {config.task}. Train one with: {ABILITIES[ability].remedy}"


class Shelf:
    """All served runs by name; the least recently used (LRU) is unloaded when memory is short."""

    def __init__(self, settings: ServerSettings, backend_for: BackendFor) -> None:
        self.memory, self.lock = settings.memory, threading.RLock()
        self.runs: dict[str, ServedRun] = {}
        for path in settings.runs:
            run = ServedRun(path, settings, backend_for)
            if run.name in self.runs:
                raise ConfigError(
                    f"Two runs have the name {run.name}.", "Rename one of the folders."
                )
            if self.memory and run.bytes > self.memory:
                raise ConfigError(
                    f"{run.folder.path} needs about {run.bytes / 1e6:,.0f} MB of memory, and the "
                    f"budget is {self.memory / 1e6:,.0f}.",
                    "Give a larger --memory, or none.",
                )
            self.runs[run.name] = run

    def named(self, name: str | None, ability: str) -> ServedRun:
        """The run of that name, if it can do this; without a name, the first that can."""
        if name is None:
            reasons = {run: run.cannot(ability) for run in self.runs.values()}
            able = [run for run, reason in reasons.items() if not reason]
            if not able:
                told = " ".join(f"{run.name}: {reason}" for run, reason in reasons.items())
                raise RequestError(f"No run here can {ability}.", told, 404, "no_run")
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
    def using(
        self, run: ServedRun, gone: threading.Event | None = None
    ) -> Iterator[tuple[User, Ticket]]:
        """The user of a run, which stays in memory meanwhile, and a ticket of its pool.

        `gone` is set when the client leaves.
        """
        with self.lock:
            if run.user is None:
                self.make_room(run.bytes)
                try:
                    run.load()
                except ClearheadError as error:
                    raise RequestError(str(error), error.advice, 503, "unloadable") from error
            run.n_using, run.used_at = run.n_using + 1, time.monotonic()
            user, ticket = run.lend(gone)
        try:
            yield user, ticket
        finally:
            ticket.leave()
            with self.lock:
                run.n_using -= 1

    def make_room(self, n_bytes: int) -> None:
        """Unload models that nobody uses until so many bytes are free in the budget."""
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
            idle.pop(0).unload()

    def load_all(self) -> None:
        """Load what fits into the budget, in the order given, so that nobody has to wait."""
        for run in self.runs.values():
            used = sum(other.bytes for other in self.runs.values() if other.user)
            fits = not self.memory or used + run.bytes <= self.memory
            if run.folder.has_weights() and run.kind and fits:
                with self.using(run):
                    pass
