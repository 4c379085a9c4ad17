"""The server on this machine: what it adds to the engine, what 32 clients get, and whether memory stays flat.

    script/bench serve --run RUN [--input FILE] [--sentences 200] [--clients 32] [--rounds 3]
        [--requests 10000] [--engine own] [--int8] [--workers 1] [--libretranslate PORT]

RUN is a translator; FILE holds sentences, one a line (else those of Multi30k's test set). Engine and server are timed
in turn, sentence by sentence, so that a busy machine slows both; processor time tells what a busy machine hides. PORT
is where a LibreTranslate with the same model listens on this machine; it is asked in turn with our server. Prints a
Markdown table.
"""

import argparse
import gzip
import itertools
import json
import os
import re
import selectors
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conditions import conditions

from clearhead.cli.serve import decoders
from clearhead.decode import WithBackend
from clearhead.exchange.engine import ctranslate2_for
from clearhead.folder import RunFolder
from clearhead.machine import n_processors
from clearhead.tasks import Translator

ROOT = Path(__file__).resolve().parents[1]
SENTENCES = ROOT.parent / "shared" / "data" / "multi30k" / "test2016.en.gz"


@contextmanager
def server(asked: argparse.Namespace) -> Iterator[tuple[int, int]]:
    """A server process: its port and its id."""
    command = [sys.executable, "-m", "clearhead", "serve", asked.run, "--port=0", "--quiet"]
    command += [f"--engine={asked.engine}", f"--workers={asked.workers}"]
    command += ["--int8"] * asked.int8
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None, "it is a pipe"
        port = int(process.stderr.readline().split("http://")[1].split()[0].rpartition(":")[2])
        yield port, process.pid
    finally:
        process.terminate()
        process.communicate(timeout=40)


def posted(path: str, **asked: object) -> bytes:
    """A whole request, made before the clock starts."""
    body = json.dumps(asked).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json"
    return f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def prepared(text: str) -> bytes:
    """A request of our own API; a file has no scores either."""
    return posted("/api/translate", text=text, scores=False)


@dataclass(frozen=True)
class Asked:
    """What clients were answered, and what it took."""

    answers: list[bytes]
    """The bodies, in the order of the requests."""
    seconds: float
    client: float
    """Processor time of the clients themselves: it is missing from the server."""

    @property
    def rate(self) -> float:
        return len(self.answers) / self.seconds


def ask(port: int, requests: Sequence[bytes], n_clients: int) -> Asked:
    """Clients on connections that stay open, each asking for the next when it has an answer.

    One thread and plain sockets, so that they take as little as can be from the server.
    """
    waiting, answers = iter(enumerate(requests)), [b""] * len(requests)
    parts: dict[socket.socket, tuple[int, bytes]] = {}
    begun, own = time.perf_counter(), time.process_time()
    with selectors.DefaultSelector() as ready:
        for number, request in itertools.islice(waiting, n_clients):
            client = socket.create_connection(("127.0.0.1", port))
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ready.register(client, selectors.EVENT_READ)
            client.sendall(request)
            parts[client] = number, b""
        while parts:
            for key, _ in ready.select():
                assert isinstance(key.fileobj, socket.socket), "it was registered above"
                client = key.fileobj
                number, before = parts[client]
                read = before + client.recv(65_536)
                head, _, body = read.partition(b"\r\n\r\n")
                n_bytes = re.search(rb"(?i)content-length: (\d+)", head)
                if n_bytes is None or len(body) < int(n_bytes[1]):
                    parts[client] = number, read
                    continue
                assert b" 200 " in head[:20], read
                answers[number] = body
                following = next(waiting, None)
                if following is None:
                    del parts[client]
                    ready.unregister(client)
                    client.close()
                else:
                    client.sendall(following[1])
                    parts[client] = following[0], b""
    return Asked(answers, time.perf_counter() - begun, time.process_time() - own)


def latencies(
    port: int, translator: Translator, sentences: list[str]
) -> tuple[list[float], list[float]]:
    """Seconds of the engine alone and of the server, for each sentence."""
    alone, served = [], []
    ask(port, [prepared(text) for text in sentences[:10]], 1)  # warm up
    translator.translate(sentences[:10])
    for text in sentences:
        request, begun = prepared(text), time.perf_counter()
        expected = translator.translate(text, scored=False).text
        alone.append(time.perf_counter() - begun)
        found = ask(port, [request], 1)
        served.append(found.seconds)
        assert json.loads(found.answers[0])["text"] == expected, text
    return alone, served


def family(pid: int) -> list[int]:
    """A process and those that it has started."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(int(child) for file in children for child in file.read_text().split())]


def resident(pid: int) -> float:
    """Megabytes of memory that a process and its children have."""
    pages = sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in family(pid))
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def processor_seconds(pid: int) -> float:
    """Processor time that a process and its children have used, in themselves and in the kernel."""
    rows = [Path(f"/proc/{each}/stat").read_text().rpartition(") ")[2] for each in family(pid)]
    ticks = sum(int(field) for row in rows for field in row.split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def measured(port: int, pid: int, requests: Sequence[bytes], n_clients: int) -> tuple[Asked, float]:
    """What a crowd is answered, and the server's processor time for it."""
    begun = processor_seconds(pid)
    return ask(port, requests, n_clients), processor_seconds(pid) - begun


def file_reader(run: str, engine: str, int8: bool) -> Translator:
    """What `translate --input` decodes with: the same engine as the server's."""
    found = Translator.load(run)
    if decoders(engine, n_servers=1, int8=int8):
        precision = "int8" if int8 else "float32"
        backend = ctranslate2_for(run, found.model, n_workers=n_processors(), precision=precision)
        found.searching = WithBackend(backend)
    list(found.stream(["A dog."] * 20, scored=False))  # its processes have begun
    return found


def beside_libretranslate(port: int, lines: list[str], asked: argparse.Namespace) -> None:
    """Rows of a table: both servers through LibreTranslate's API, one client and many, in turn."""
    theirs, data = asked.libretranslate, RunFolder.open(asked.run).config().data
    spoken = {"source": data.source_language, "target": data.target_language}
    requests = [posted("/translate", q=text, **spoken) for text in lines]
    few = requests[: asked.sentences]
    for each in (port, theirs):
        ask(each, requests[:10], 1)  # warm up
    rounds = [
        [ask(each, some, n) for some, n in ((few, 1), (requests, asked.clients)) for each in (port, theirs)]
        for _ in range(asked.rounds)
    ]  # fmt: skip
    for place, n_clients in ((0, 1), (2, asked.clients)):
        ours, their = (statistics.median(each[place + i].rate for each in rounds) for i in (0, 1))
        ratio = statistics.median(each[place].rate / each[place + 1].rate for each in rounds)
        told = f"{ours:.1f} sentences/s, LibreTranslate {their:.1f}, **{ratio:.2f} ×**"
        print(f"| `/translate`, clients: {n_clients} | {told} |")
    texts = [
        [json.loads(body)["translatedText"] for body in each.answers] for each in rounds[0][2:]
    ]
    n_same = sum(a == b for a, b in zip(*texts, strict=True))
    print(f"| the same translation as LibreTranslate's | {n_same} of {len(lines)} |")


def file_rate_of(reader: Translator, lines: list[str]) -> float:
    begun = time.perf_counter()
    list(reader.stream(lines, scored=False))
    return len(lines) / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", required=True, help="a translator")
    parser.add_argument("--input", type=Path, default=SENTENCES)
    parser.add_argument("--engine", default="auto", help="of the server: auto, own or ctranslate2")
    parser.add_argument("--int8", action="store_true", help="8-bit weights in CTranslate2")
    parser.add_argument("--workers", type=int, default=1, help="processes of the server")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3, help="each of one client, many, a file")
    parser.add_argument("--requests", type=int, default=10_000, help="over which memory is watched")
    parser.add_argument(
        "--libretranslate", type=int, metavar="PORT", help="one with the same model"
    )
    asked = parser.parse_args()
    opened = gzip.open if asked.input.suffix == ".gz" else open
    with opened(asked.input, "rt", encoding="utf-8") as file:
        lines = [
            line.strip() for line in itertools.islice(file, 5 * asked.sentences) if line.strip()
        ]
    few = lines[: asked.sentences]
    print(f"{conditions()}\n")
    print("| what | value |\n|---|---|")
    reader = file_reader(asked.run, asked.engine, asked.int8)
    with server(asked) as (port, pid):
        alone, served = latencies(port, reader, few)
        added = statistics.median(s - a for s, a in zip(served, alone, strict=True))
        print(f"| the engine alone, p50 | {1e3 * statistics.median(alone):.1f} ms |")
        print(f"| one client, p50 | {1e3 * statistics.median(served):.1f} ms |")
        print(f"| the server adds, p50 | {1e3 * added:.1f} ms |")
        all_requests = [prepared(text) for text in lines]
        rounds = [
            (ask(port, all_requests[: len(few)], 1), measured(port, pid, all_requests, asked.clients),
             file_rate_of(reader, lines))
            for _ in range(asked.rounds)
        ]  # fmt: skip
        one = statistics.median(each.rate for each, *_ in rounds)
        many = statistics.median(found.rate for _, (found, _), _ in rounds)
        file_rate = statistics.median(rate for *_, rate in rounds)
        cpu = statistics.median(each / len(lines) for _, (_, each), _ in rounds)
        client = statistics.median(found.client / len(lines) for _, (found, _), _ in rounds)
        by_one = statistics.median(found.rate / each.rate for each, (found, _), _ in rounds)
        by_file = statistics.median(found.rate / rate for _, (found, _), rate in rounds)
        print(f"| one client | {one:.1f} sentences/s |")
        print(f"| {asked.clients} clients | {many:.1f} sentences/s, {by_one:.1f} × one |")
        print(f"| `translate --input` | {file_rate:.1f} sentences/s, {file_rate / one:.1f} × one |")
        print(f"| {asked.clients} clients ÷ `translate --input` | {by_file:.2f} |")
        both = f"{1e3 * cpu:.2f} ms, the clients {1e3 * client:.2f} ms"
        print(f"| processor time of a sentence, {asked.clients} clients | {both} |")
        if asked.libretranslate:
            beside_libretranslate(port, lines, asked)
        before, n_rounds = resident(pid), -(-asked.requests // len(lines))
        for _ in range(n_rounds if asked.requests else 0):
            ask(port, all_requests, asked.clients)
        after = resident(pid)
        told = f"{before:.0f} → {after:.0f} MB ({after / before - 1:+.1%})"
        print(f"| memory over {n_rounds * len(lines):,} requests | {told} |")
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
