"""The server: sockets, processes and signals; it stops without losing what it has begun."""

import asyncio
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from multiprocessing.context import SpawnProcess

import torch
import uvicorn

from clearhead.errors import ConfigError
from clearhead.machine import keep_freed_memory, n_processors
from clearhead.serve.app import create_app
from clearhead.serve.door import Door
from clearhead.serve.models import BackendFor
from clearhead.serve.settings import ServerSettings

LARGE = 30_000_000
"""Parameters from which on a step is worth sharing among threads; below, they wait for each other
longer than they compute, and the other processors have requests to read.
"""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Server(uvicorn.Server):
    """Hears signals itself: first it finishes what it has, then uvicorn may end."""

    def __init__(self, door: Door) -> None:
        config = uvicorn.Config(
            door,
            http="h11",
            ws="none",
            lifespan="off",
            h11_max_incomplete_event_size=door.settings.limits.headers,
            timeout_keep_alive=15,
            access_log=False,
            log_config=None,
            server_header=False,
        )
        super().__init__(config)
        self.door = door

    def stop(self) -> None:
        """Drain; told a second time, end at once."""
        if self.door.work.draining:
            self.should_exit = self.force_exit = True
            return
        self.door.work.draining = True
        self.draining = asyncio.get_running_loop().create_task(self.drain())

    async def drain(self) -> None:
        """Wait until the requests that were begun are answered, but not for ever."""
        end = time.monotonic() + self.door.settings.limits.drain
        while self.door.work.in_flight and time.monotonic() < end:
            await asyncio.sleep(0.02)
        self.force_exit |= self.door.work.in_flight > 0
        self.should_exit = True

    async def serve_on(self, listening: socket.socket) -> None:
        if threading.current_thread() is threading.main_thread():  # others hear no signals
            loop = asyncio.get_running_loop()
            for number in SIGNALS:
                loop.add_signal_handler(number, self.stop)
        await self._serve(sockets=[listening])


def listening_socket(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Only where the protocol is named does asyncio send small packets at once (TCP_NODELAY):
    # else the body of an answer waits 40 ms for the client to confirm its head.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((settings.host, settings.port))
    except OSError as error:
        raise ConfigError(
            f"The server cannot listen at {settings.host}:{settings.port}: {error.strerror}.",
            "Give another --port, or stop who uses it.",
        ) from None
    found.listen(2048)
    return found


def run_worker(settings: ServerSettings, listening: socket.socket, backend_for: BackendFor) -> None:
    """Serve on a socket until told to stop."""
    keep_freed_memory()
    door = create_app(settings, backend_for)
    runs = door.work.shelf.runs.values()
    is_large = any(run.n_parameters > LARGE for run in runs)
    torch.set_num_threads(max(1, n_processors() // settings.workers) if is_large else 1)
    if not settings.lazy:
        door.work.shelf.load_all()
    asyncio.run(Server(door).serve_on(listening))


def run_server(settings: ServerSettings, listening: socket.socket, backend_for: BackendFor) -> None:
    """Serve until told to stop, in this process or in several that share the address."""
    run = run_worker if settings.workers == 1 else run_workers
    run(settings, listening, backend_for)


def run_workers(
    settings: ServerSettings, listening: socket.socket, backend_for: BackendFor
) -> None:
    """Processes that accept from one socket; signals go on to all, and one that dies comes back."""
    spawn = multiprocessing.get_context("spawn")

    def begun() -> SpawnProcess:
        worker = spawn.Process(target=run_worker, args=(settings, listening, backend_for))
        worker.start()
        return worker

    workers = [begun() for _ in range(settings.workers)]
    is_stopping = False

    def stop(number: int, _: object) -> None:
        nonlocal is_stopping
        is_stopping = True
        for worker in workers:
            if worker.pid is not None and worker.is_alive():
                os.kill(worker.pid, number)

    for number in SIGNALS:
        signal.signal(number, stop)
    while any(worker.is_alive() for worker in workers):
        for place, worker in enumerate(workers):
            worker.join(0.2)
            if not worker.is_alive() and not is_stopping:
                sys.stderr.write("a worker has died; another takes its place\n")
                workers[place] = begun()
