"""Promises 17, 18, 20: a full server says so at once, work stops when clients leave, nothing piles up."""

import asyncio
import json
import resource
import socket
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from clearhead.serve.server import listening_socket
from clearhead.serve.settings import Limits, ServerSettings
from tests.serve.conftest import no_backend, serving
from tests.serve.test_pool import wait_until

LONG = {"text": "the cat", "max_length": 2_000, "temperature": 1.0}
CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 200}


def raw(served, path, **body):
    """A request on a socket of its own, which can be cut."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    found = socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2])))
    found.sendall(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
    return found


@pytest.mark.promise(17, "429 with Retry-After, median under 50 ms")
def test_a_full_server_says_so_at_once_and_the_others_are_served(runs):
    with serving(runs["bard"], limits=Limits(requests=4)) as served:
        held = [raw(served, "/api/write", **LONG, seed=seed) for seed in range(4)]
        wait_until(lambda: served.work.n_taken == 4)
        times, health = [], []  # a busy machine is slow to answer anything
        for _ in range(20):
            begun = time.perf_counter()
            assert served.client.get("/healthz").status_code == 200
            health.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            answer = served.post("/api/write", text="x")
            times.append(time.perf_counter() - begun)
            assert answer.status_code == 429
            assert answer.headers["retry-after"] == "1"
            assert answer.json()["error"].startswith("Slowdown")
        assert statistics.median(times) < 0.05 + statistics.median(health)
        for each in held:
            each.close()
        wait_until(lambda: served.work.n_taken == 0)
        assert served.post("/api/write", text="x", max_length=3).status_code == 200


@pytest.mark.promise(18, "50 clients that leave")
@pytest.mark.parametrize("stream", [True, False])
def test_fifty_clients_that_leave_free_their_places(served, stream):
    served.post("/api/write", text="x", max_length=2)  # loads the run
    pool = served.pool("bard")
    for round_ in range(5):
        held = [raw(served, "/api/write", **LONG, seed=seed, stream=stream) for seed in range(10)]
        wait_until(lambda: pool.n_inside + len(pool.waiting) == 10)
        for each in held:
            each.close()
        n_steps = pool.n_steps
        wait_until(lambda: not pool.n_inside and not pool.waiting and served.work.n_taken == 0, 2)
        assert round_ or pool.n_steps - n_steps < 400  # and not the 20,000 of ten whole texts


def test_a_client_that_leaves_while_it_waits_is_forgotten(served):
    """Its place is free though its sentences never came into the batch."""
    pool = served.pool("bard")
    held = [
        raw(served, "/api/write", text="the cat " * 20, max_length=2_000, seed=i) for i in range(60)
    ]
    wait_until(lambda: len(pool.waiting) > 5 or pool.n_inside > 50)
    for each in held:
        each.close()
    wait_until(lambda: not pool.n_inside and not pool.waiting and served.work.n_taken == 0)


def test_a_request_ends_at_its_deadline(runs):
    with serving(runs["bard"], limits=Limits(seconds=0.2)) as served:
        served.post("/api/write", text="x", max_length=2)
        answer = served.post("/api/write", **LONG)
        assert (answer.status_code, answer.json()["code"]) == (504, "deadline")
        text = served.post("/api/write", **LONG, stream=True).text
        assert "event: error" in text
        assert '"code": "deadline"' in text


def test_what_is_too_large_is_refused_before_it_is_read(served):
    port = int(served.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as found:
        found.sendall(
            b"POST /api/write HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9000000\r\n\r\n"
        )
        assert b" 413 " in found.recv(1000)

    def chunks():
        for _ in range(30):
            yield b" " * 100_000

    answer = served.client.post("/translate", content=chunks())
    assert answer.status_code == 413
    with socket.create_connection(("127.0.0.1", port)) as found:
        found.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 40_000)
        assert b" 400 " in found.recv(1000)
    many = served.post("/api/translate", text=["a"] * 65)
    assert many.status_code == 400


def test_models_come_and_go_within_their_memory(runs):
    from clearhead.serve.models import Shelf

    def n_decoding():
        return sum(thread.name.startswith("decode") for thread in threading.enumerate())

    three = tuple(runs[name] for name in ("chat", "bard", "en-de"))
    sizes = [run.bytes for run in Shelf(ServerSettings(runs=three), no_backend).runs.values()]
    n_before = n_decoding()  # of servers in other tests
    with serving(*three, memory=max(sizes) + min(sizes)) as served:
        for _ in range(2):
            assert served.post("/api/chat", turns=["x"], max_length=3).status_code == 200
            assert served.post("/api/write", text="x", max_length=3).status_code == 200
            assert served.post("/api/translate", text="x").status_code == 200
            loaded = [run for run in served.work.shelf.runs.values() if run.user]
            assert 1 <= len(loaded) < 3
        n_own = sum(len(run.pool.threads) for run in loaded)
        deadline = time.monotonic() + 10
        while n_decoding() - n_before > n_own and time.monotonic() < deadline:
            time.sleep(0.01)
        assert n_decoding() - n_before <= n_own, "threads of a model that was put away go on"


def steady(served, n_requests, n_clients=8):
    """Many short requests; how long each took."""

    def ask(number):
        begun = time.perf_counter()
        answer = served.client.post(
            "/api/classify", json={"text": f"the film was good {number % 7}"}
        )
        assert answer.status_code == 200
        return time.perf_counter() - begun

    with ThreadPoolExecutor(n_clients) as clients:
        return list(clients.map(ask, range(n_requests)))


@pytest.mark.promise(20, "10,000 requests: memory within 5 %")
@pytest.mark.parametrize("n_requests", [600, pytest.param(10_000, marks=pytest.mark.slow)])
def test_memory_stays_flat(served, n_requests):
    steady(served, 600)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    steady(served, n_requests)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss <= 1.05 * before


@pytest.mark.promise(20, "50 requests a second for a minute: no failure")
@pytest.mark.slow
def test_fifty_requests_a_second_for_a_minute_all_succeed(served):
    async def run():
        async with httpx.AsyncClient(base_url=served.url, timeout=10) as client:
            begun, tasks = time.monotonic(), []
            for number in range(50 * 60):
                await asyncio.sleep(max(0, begun + number / 50 - time.monotonic()))
                tasks.append(
                    asyncio.create_task(client.post("/api/classify", json={"text": "good"}))
                )
            return [task.status_code for task in await asyncio.gather(*tasks)]

    assert set(asyncio.run(run())) == {200}


def test_small_answers_are_sent_at_once(runs):
    listening = listening_socket(ServerSettings(runs=(runs["en-de"],), port=0))
    with listening:
        assert listening.proto == socket.IPPROTO_TCP  # what asyncio asks before it sets TCP_NODELAY
