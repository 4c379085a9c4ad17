"""A server in a thread of the test's own process, with small models of every kind behind it."""

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from clearhead.serve.app import create_app
from clearhead.serve.door import Door
from clearhead.serve.server import Server, listening_socket
from clearhead.serve.settings import Limits, ServerSettings
from tests.tasks.conftest import random_run
from tests.tasks.random_runs import random_folder
from tests.tasks.small import small_config, trained, write_reviews

SOURCE = Path(__file__).parent.parent.parent / "src"


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each kind; that of the translator is called as its languages are."""
    place = tmp_path_factory.mktemp("served")
    trained(
        "classification",
        small_config(write_reviews(place / "reviews.tsv"), steps=20),
        place / "mood",
    )
    return {
        "en-de": random_run(place / "en-de"),
        "chat": random_folder(place / "chat", "chat", "decoder", method="bytes"),
        "bard": random_folder(place / "bard", "writing", "decoder", method="bytes", window=64),
        "mood": place / "mood",
        "gaps": random_folder(place / "gaps", "pretraining", "encoder", method="words"),
    }


@dataclass
class Served:
    """A running server, and a client of it."""

    url: str
    door: Door
    server: Server
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.client.post(path, json=body)

    @property
    def work(self) -> Any:
        return self.door.work

    def pool(self, run: str) -> Any:
        return self.work.shelf.runs[run].pool


def no_backend(_path: Path, _user: Any) -> None:
    """Our own engine decodes all."""


@contextlib.contextmanager
def serving(*paths: Path, backend_for: Any = no_backend, **settings: Any) -> Iterator[Served]:
    told = ServerSettings(runs=paths, port=0, **settings)
    listening = listening_socket(told)
    door = create_app(told, backend_for)
    server = Server(door)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve_on(listening)), daemon=True)
    thread.start()
    served = Served(f"http://127.0.0.1:{listening.getsockname()[1]}", door, server)
    try:
        yield served
    finally:
        served.client.close()
        door.work.draining = True  # streams that follow a training end
        server.should_exit = server.force_exit = True  # how it ends is tried in test_drain.py
        thread.join(10)


@pytest.fixture(scope="session")
def served(runs: dict[str, Path]) -> Iterator[Served]:
    with serving(*runs.values()) as found:
        yield found


@pytest.fixture
def process(runs: dict[str, Path]) -> Iterator[Callable[..., Any]]:
    """Starts `clearhead serve` as a process of its own; answers with it and its address."""
    begun: list[subprocess.Popen[str]] = []

    def start(*arguments: str, names: tuple[str, ...] = ("chat",)) -> tuple[Any, str]:
        command = [sys.executable, "-m", "clearhead", "serve", *(str(runs[name]) for name in names)]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
        found = subprocess.Popen(
            [*command, "--port", "0", *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        begun.append(found)
        first = found.stderr.readline() if found.stderr else ""
        match = re.search(r"http://\S+", first)
        assert match, first
        url = match[0].replace("0.0.0.0", "127.0.0.1")
        for _ in range(200):
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{url}/healthz").status_code == 200:
                    break
        return found, url

    yield start
    for each in begun:
        each.kill()
        each.communicate()


EVERY_LIMIT = Limits()
