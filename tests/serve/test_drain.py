"""Promise 19: stopping in the middle of everything loses nothing."""

import re
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hello"}], "temperature": 1.0}


@pytest.mark.promise(19, "20 requests, half of them streams: all end whole, exit 0")
def test_sigterm_finishes_what_was_begun(process):
    server, url = process("--quiet")

    def ask(number):
        body = {**CHAT, "seed": number, "max_tokens": 250, "stream": number % 2 == 0}
        answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
        return answer.status_code, answer.text, body["stream"]

    with ThreadPoolExecutor(20) as threads:
        asked = [threads.submit(ask, number) for number in range(20)]
        n_inside = wait_for_requests(url, 20)
        server.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        states = [status(f"{url}/readyz"), status(f"{url}/v1/models")]
        found = [each.result() for each in asked]
    assert server.wait(30) == 0
    whole = [(text, is_stream) for code, text, is_stream in found if code == 200]
    assert len(whole) >= n_inside >= 10
    assert all(text.endswith("data: [DONE]\n\n") for text, is_stream in whole if is_stream)
    assert {code for code, _, _ in found} <= {200, 503}
    assert set(states) <= {503, None}  # None: it has ended already


def wait_for_requests(url, n_requests):
    """How many requests are inside: all, or as many as there ever were together."""
    most, end = 0, time.monotonic() + 10
    while most < n_requests and time.monotonic() < end:
        metrics = httpx.get(f"{url}/metrics").text
        most = int(float(re.search(r"^clearhead_in_flight (\S+)", metrics, re.MULTILINE)[1])) - 1
        if most >= 10:
            return most
    return most


def status(url):
    """What a server says of itself; nothing where it does not listen any more."""
    try:
        return httpx.get(url).status_code
    except httpx.TransportError:
        return None


def test_a_second_signal_ends_at_once(process):
    server, url = process("--quiet", names=("bard",))
    body = {"text": "the cat", "max_length": 2_000, "stream": True}
    with httpx.stream("POST", f"{url}/api/write", json=body, timeout=30) as answer:
        next(answer.iter_text())
        server.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        begun = time.monotonic()
        server.send_signal(signal.SIGTERM)
        server.wait(10)
    assert time.monotonic() - begun < 5


@pytest.mark.skipif(sys.platform != "linux", reason="counts processes as Linux shows them")
def test_workers_share_one_address_and_stop_together(process):
    server, url = process("--quiet", "--workers", "2")
    wait = time.monotonic() + 60
    while status(f"{url}/readyz") != 200:
        assert time.monotonic() < wait
        time.sleep(0.2)
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    assert len(children) >= 2
    assert httpx.post(f"{url}/api/chat", json={"turns": ["x"], "max_length": 3}).status_code == 200
    server.send_signal(signal.SIGTERM)
    assert server.wait(30) == 0
