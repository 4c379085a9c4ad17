"""What the exchange of gradients between two hosts takes: bytes and seconds of an update, by size and link.

    script/bench link [tiny small base] [--rates 1 10] [--rounds 5] [--picture FILE]

The hosts are two network namespaces with a cable (veth) between them, which `tc` (tbf) limits to so many Gbit/s; that
needs root and iproute2. The gradients are those of the real models, exchanged by DDP over gloo as in training, while
hardly anything is computed: the time without an exchange, measured in turn, is taken off, and the fastest rounds
count. Bytes are counted by the cable. The formula is that of a ring: each of N hosts sends 2 (N - 1) / N times the
gradient, 4 bytes a parameter. Prints a Markdown table. --picture draws what two hosts gain at any speed of the link,
by the formula, and as measured.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from clearhead.config import ModelConfig
from clearhead.lab.figures import INK, figure_with_files
from clearhead.model import build

VOCABULARY = {"tiny": 8_000, "small": 8_000, "base": 37_000, "big": 37_000}
SECONDS = {"tiny": 0.70, "small": 1.5, "base": 8.6, "big": 30.0}
"""Of an update of 4,096 tokens on two cores: docs/benchmarks.md; `big` by its products beside those of `base`."""
COLOURS = {"tiny": "#2f81c8", "small": "#1a9a6c", "base": "#d9730d", "big": "#b05cc0"}
LABELS = {"tiny": "tiny", "small": "small", "base": "base, big"}
"""The curves of base and big lie upon each other."""
BITS, GIGA = 32, 1e9


class AllWeights(nn.Module):
    """A model whose every weight has a gradient after next to no work."""

    def __init__(self, size: str) -> None:
        super().__init__()
        self.model = build(ModelConfig.preset(size, vocab_size=VOCABULARY[size]))

    def forward(self) -> Tensor:
        return torch.stack([weight.sum() for weight in self.model.parameters()]).sum()


def n_parameters(size: str) -> int:
    with torch.device("meta"):
        return sum(weight.numel() for weight in AllWeights(size).parameters())


def exchange(size: str, rounds: int, cable: str) -> dict[str, float]:
    """Seconds and bytes sent of an exchange: with it and without it, in turn."""
    together = DistributedDataParallel(AllWeights(size))
    sent = Path(f"/sys/class/net/{cable}/statistics/tx_bytes")
    seconds: dict[bool, list[float]] = {True: [], False: []}
    counts = []
    for number in range(rounds + 1):
        for is_exchanged in (False, True):
            dist.barrier()
            before, begun = int(sent.read_text()), time.perf_counter()
            with nullcontext() if is_exchanged else together.no_sync():
                together().backward()
            if number:  # the first is a warm-up
                seconds[is_exchanged].append(time.perf_counter() - begun)
            if is_exchanged and number:
                counts.append(int(sent.read_text()) - before)
            together.zero_grad()
    took = min(seconds[True]) - min(seconds[False])  # the rounds that others disturbed least
    return {"seconds": took, "bytes": statistics.median(counts)}


def host(rank: int, sizes: list[str], rounds: int, cable: str) -> None:
    """One of the two hosts; the first prints what it found."""
    os.environ["GLOO_SOCKET_IFNAME"] = cable
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="tcp://10.98.0.1:29400", rank=rank, world_size=2)
    found = {size: exchange(size, rounds, cable) for size in sizes}
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(found))


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@contextmanager
def two_hosts() -> Iterator[list[tuple[str, str]]]:
    """Two network namespaces, and the end of the cable in each."""
    names = [f"link{os.getpid()}{end}" for end in "ab"]
    with ExitStack() as stack:
        for name in names:
            run("ip", "netns", "add", name)
            stack.callback(run, "ip", "netns", "delete", name)
        peer = ("type", "veth", "peer", "name", "cable", "netns", names[1])
        run("ip", "link", "add", "cable", "netns", names[0], *peer)
        for number, name in enumerate(names, 1):
            run("ip", "-n", name, "addr", "add", f"10.98.0.{number}/24", "dev", "cable")
            for device in ("lo", "cable"):
                run("ip", "-n", name, "link", "set", device, "up")
        yield [(name, "cable") for name in names]


def limit(name: str, cable: str, gbit: float) -> None:
    """Let a token bucket pass so many bits a second; the bucket holds what comes in 4 ms."""
    bucket = ("rate", f"{gbit:g}gbit", "burst", f"{max(1, int(gbit * 500))}kb", "latency", "50ms")
    run("ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", cable, "root", "tbf", *bucket)


def measured(sizes: list[str], rounds: int, rates: list[float]) -> dict[float, Any]:
    found = {}
    with two_hosts() as hosts:
        for rate in rates:
            processes = []
            for rank, (name, cable) in enumerate(hosts):
                limit(name, cable, rate)
                program = [sys.executable, __file__, *sizes, "--rounds", str(rounds)]
                inside = ["ip", "netns", "exec", name, *program, "--host", str(rank), cable]
                processes.append(subprocess.Popen(inside, stdout=subprocess.PIPE, text=True))
            told, _ = processes[0].communicate()
            assert [each.wait() for each in processes] == [0, 0]
            found[rate] = json.loads(told)
    return found


def draw(path: Path, found: dict[float, Any]) -> None:
    """How many times as fast as one two hosts are, for links of any speed: 2 t / (t + x)."""
    rates = [10 ** (n / 20) for n in range(-20, 41)]
    with figure_with_files((7, 3.6)) as (figure, files):
        axes = figure.subplots()
        for size, colour in COLOURS.items():
            t, bits = SECONDS[size], n_parameters(size) * BITS
            axes.plot(rates, [2 * t / (t + bits / GIGA / rate) for rate in rates], color=colour)
            lowest, name = 2 * t / (t + bits / GIGA / rates[0]), LABELS.get(size, "")
            axes.text(0.09, lowest, name, color=colour, ha="right", va="center")
            for rate, sizes in found.items():
                if size in sizes:
                    axes.plot(rate, 2 * t / (t + sizes[size]["seconds"]), "o", color=colour)
        axes.axhline(1, color=INK, linewidth=0.8, linestyle=":")
        axes.set(xscale="log", xlabel="link, Gbit/s", xlim=(0.035, 100), ylim=(0, 2.05))
        axes.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
        axes.set_title(
            "Two hosts beside one: how many times as fast (4,096 tokens on two cores each)"
        )
    path.write_bytes(files["svg"])


def report(found: dict[float, Any]) -> None:
    print("| | link, Gbit/s | MB sent, formula | MB sent, measured | s, formula | s, measured |")
    print("|---|---|---|---|---|---|")
    for rate, sizes in found.items():
        for size, each in sizes.items():
            bits = n_parameters(size) * BITS  # 2 (N - 1) / N is 1 for two hosts
            told = f"{bits / 8e6:,.0f} | {each['bytes'] / 1e6:,.0f} | {bits / GIGA / rate:.3f}"
            print(f"| {size} | {rate:g} | {told} | {each['seconds']:.3f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sizes", nargs="*", default=["tiny", "small", "base"])
    parser.add_argument("--rates", nargs="+", type=float, default=[1.0, 10.0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--host", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.host:
        host(int(given.host[0]), given.sizes, given.rounds, given.host[1])
    else:
        found = measured(given.sizes, given.rounds, given.rates)
        report(found)
        if given.picture:
            draw(given.picture, found)
