"""The server on this machine: what it adds to the engine, what 32 clients get, and whether memory stays flat.

    script/bench serve --run RUN [--input FILE] [--sentences 200] [--clients 32] [--requests 10000]
        [--engine own]

RUN is a translator; FILE holds sentences, one a line (else those of Multi30k's test set). Engine and server are timed
in turn, sentence by sentence, so that a busy machine slows both; processor time tells what a busy machine hides. Prints
a Markdown table.
"""

import argparse
import asyncio
import gzip
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clearhead.machine import n_processors
from clearhead.tasks import Translator

ROOT = Path(__file__).resolve().parents[1]
SENTENCES = ROOT.parent / "shared" / "data" / "multi30k" / "test2016.en.gz"


@contextmanager
def server(run: str, engine: str) -> Iterator[tuple[int, int]]:
    """A server process: its port and its id."""
    command = [sys.executable, "-m", "clearhead", "serve", run, "--port=0", "--quiet"]
    command.append(f"--engine={engine}")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None, "it is a pipe"
        port = int(process.stderr.readline().split("http://")[1].split()[0].rpartition(":")[2])
        yield port, process.pid
    finally:
        process.terminate()
        process.communicate(timeout=40)


class Client:
    """One connection that stays open; plain sockets, so that the client costs next to nothing."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> "Client":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def translate(self, text: str) -> str:
        body = json.dumps({"text": text}).encode()
        head = "POST /api/translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json"
        self.writer.write(f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        content = await self.reader.readexactly(int(answer.split("content-length: ")[1].split()[0]))
        assert " 200 " in answer.splitlines()[0], (answer, content)
        found: str = json.loads(content)["text"]
        return found


async def latencies(
    port: int, translator: Translator, sentences: list[str]
) -> tuple[list[float], list[float]]:
    """Seconds of the engine alone and of the server, for each sentence."""
    client = await Client(port).open()
    alone, served = [], []
    for text in sentences[:10]:  # warm up
        await client.translate(text)
        translator.translate(text)
    for text in sentences:
        begun = time.perf_counter()
        expected = translator.translate(text).text
        between = time.perf_counter()
        found = await client.translate(text)
        alone.append(between - begun)
        served.append(time.perf_counter() - between)
        assert found == expected, (text, found, expected)
    return alone, served


async def throughput(port: int, sentences: list[str], n_clients: int) -> float:
    """Sentences a second that so many clients get, each asking for the next when it has an answer."""
    clients = await asyncio.gather(*(Client(port).open() for _ in range(n_clients)))
    waiting = iter(sentences)

    async def ask(client: Client) -> None:
        for text in waiting:
            await client.translate(text)

    begun = time.perf_counter()
    await asyncio.gather(*map(ask, clients))
    return len(sentences) / (time.perf_counter() - begun)


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", required=True, help="a translator")
    parser.add_argument("--input", type=Path, default=SENTENCES)
    parser.add_argument("--engine", default="auto", help="of the server: auto, own or ctranslate2")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=10_000, help="over which memory is watched")
    asked = parser.parse_args()
    opened = gzip.open if asked.input.suffix == ".gz" else open
    with opened(asked.input, "rt", encoding="utf-8") as file:
        lines = [
            line.strip() for line in itertools.islice(file, 5 * asked.sentences) if line.strip()
        ]
    few, translator = lines[: asked.sentences], Translator.load(asked.run)
    print(
        f"{platform.processor() or platform.machine()}, {n_processors()} processors, load {os.getloadavg()[0]:.1f}\n"
    )
    print("| what | value |\n|---|---|")
    with server(asked.run, asked.engine) as (port, pid):
        alone, served = asyncio.run(latencies(port, translator, few))
        added = statistics.median(s - a for s, a in zip(served, alone, strict=True))
        print(f"| engine alone, p50 | {1e3 * statistics.median(alone):.1f} ms |")
        print(f"| one client, p50 | {1e3 * statistics.median(served):.1f} ms |")
        print(f"| the server adds, p50 | {1e3 * added:.1f} ms |")
        begun = processor_seconds(pid)
        one = asyncio.run(throughput(port, few, 1))
        served_cpu = (processor_seconds(pid) - begun) / len(few)
        own = time.process_time()
        for text in few:
            translator.translate(text)
        cpu = f"{1e3 * (time.process_time() - own) / len(few):.1f} → {1e3 * served_cpu:.1f} ms"
        print(f"| processor time of a sentence, engine → server | {cpu} |")
        begun = processor_seconds(pid)
        many = asyncio.run(throughput(port, lines, asked.clients))
        many_cpu = (processor_seconds(pid) - begun) / len(lines)
        begun, own = time.perf_counter(), time.process_time()
        list(translator.stream(lines))
        file_rate = len(lines) / (time.perf_counter() - begun)
        file_cpu = (time.process_time() - own) / len(lines)
        cpu = f"{1e3 * file_cpu:.1f} → {1e3 * many_cpu:.1f} ms"
        print(f"| the same, many at once, `translate --input` → {asked.clients} clients | {cpu} |")
        print(f"| one client | {one:.1f} sentences/s |")
        print(f"| {asked.clients} clients | {many:.1f} sentences/s, {many / one:.1f} × one |")
        share = f"{asked.clients} clients get {many / file_rate:.2f} of it"
        print(f"| `translate --input`, one process | {file_rate:.1f} sentences/s; {share} |")
        before = resident(pid)
        for _ in range(asked.requests // len(lines)):
            asyncio.run(throughput(port, lines, asked.clients))
        after = resident(pid)
        n_requests = asked.requests // len(lines) * len(lines)
        print(
            f"| memory over {n_requests:,} requests | {before:.0f} → {after:.0f} MB ({after / before - 1:+.1%}) |"
        )
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
