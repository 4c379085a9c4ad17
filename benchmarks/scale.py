"""A corpus on two one-core Ray nodes beside two local workers: lines a second, in one run.

    script/bench scale --run RUN --input FILE [--lines 20000] [--rounds 3]

RUN is a translator (`clearhead demo` makes a small one); the lines of FILE are taken again and again until there are
enough. Both translate all lines in turn, and both timings begin with processes that have yet to load the run. Prints a
Markdown table; the ratio is that of the medians.
"""

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from clearhead.cli.main import main


def seconds(arguments: list[str]) -> float:
    begun = time.perf_counter()
    assert main(arguments) == 0, arguments
    return time.perf_counter() - begun


def rounds(run: str, corpus: Path, n_rounds: int, place: Path) -> dict[str, list[float]]:
    """Seconds of either way, in turn; the outputs are compared."""
    plain = ["translate", run, "--input", str(corpus), "--quiet"]
    local = [*plain, "--engine", "own", "--workers", "2", "--output", str(place / "local.txt")]
    found: dict[str, list[float]] = {"two local workers": [], "two Ray nodes": []}
    for number in range(n_rounds):
        parts = [*plain, "--into", str(place / f"parts-{number}")]
        found["two local workers"].append(seconds(local))
        found["two Ray nodes"].append(seconds([*parts, "--on", "ray"]))
        assert main([*parts, "--join", "--output", str(place / "ray.txt")]) == 0
        assert (place / "local.txt").read_bytes() == (place / "ray.txt").read_bytes()
    return found


def on_two_nodes(measure: Callable[[], dict[str, list[float]]]) -> dict[str, list[float]]:
    """Measured while Ray has two nodes of one core each on this machine."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  # else priorities would be measured
    import ray
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 100_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    cluster.add_node(**small)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        return measure()
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", required=True)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus.txt"
        lines = itertools.cycle(given.input.read_text().splitlines())
        corpus.write_text("".join(f"{line}\n" for line in itertools.islice(lines, given.lines)))
        found = on_two_nodes(lambda: rounds(given.run, corpus, given.rounds, Path(folder)))
    medians = {way: statistics.median(times) for way, times in found.items()}
    print("| | lines/s | seconds of each round |\n|---|---|---|")
    for way, times in found.items():
        each = ", ".join(f"{time:.1f}" for time in times)
        print(f"| {way} | {given.lines / medians[way]:,.0f} | {each} |")
    local, on_ray = medians.values()
    print(f"\nTwo Ray nodes: {local / on_ray:.2f} of two local workers.")
