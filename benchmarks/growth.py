"""How time and memory grow: with the lines of a corpus, and with the length of a text.

    script/bench growth [--lines 10000 100000 1000000] [--lengths 16 … 1024] [--into docs/pictures]

For each number of lines, synthetic pairs are made and `doctor`, `train` (up to its first update, then a few more) and
`translate --input` run as processes of their own: seconds per 1,000 lines, time to the first update, and the memory
that the process and its workers need at most. Then one process with one thread times a training step and a decoded
token of `tiny` against the length, beside the operations that the formula counts. Prints Markdown tables with the
processor and its load, and draws both as growth.svg.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from conditions import conditions

from clearhead.config import DecodeConfig, ModelConfig
from clearhead.data.batches import PairBatch
from clearhead.decode import decode, laid_out
from clearhead.lab.figures import (
    COLOURS,
    figure_with_files,
    plot_formula,
    plot_lines,
    require_matplotlib,
    tick_plainly,
)
from clearhead.machine import keep_freed_memory
from clearhead.model import build
from clearhead.training import next_token_loss

Row = dict[str, float]
N_WORDS = 3_000
TOKENS_AT_ONCE = 4_096
"""Tokens of a training batch, whatever the length."""
KINDS = {
    "train": "#d9730d",
    "first update": "#d9730d",
    "training step": "#d9730d",
    "translate": "#2f81c8",
    "decoded token": "#2f81c8",
    "doctor": "#1a9a6c",
}


def word(number: int) -> str:
    """A made-up word, the same for the same number."""
    consonants, vowels, parts = "bdfgklmnprstvz", "aeiou", []
    while number or len(parts) < 2:
        number, rest = divmod(number, len(consonants) * len(vowels))
        parts.append(consonants[rest % len(consonants)] + vowels[rest // len(consonants)])
    return "".join(parts)


def pairs(n_lines: int) -> Iterator[tuple[str, str]]:
    """Sentences and their mirror images; frequent words are frequent, as in any language."""
    luck = random.Random(n_lines)  # noqa: S311
    for _ in range(n_lines):
        numbers = [int(N_WORDS ** luck.random()) for _ in range(luck.randint(4, 20))]
        yield (
            " ".join(word(number) for number in numbers),
            " ".join(word(number)[::-1] for number in reversed(numbers)),
        )


def write_corpus(folder: Path, n_lines: int) -> tuple[Path, Path]:
    paths = folder / f"{n_lines}.en", folder / f"{n_lines}.de"
    with paths[0].open("w") as source, paths[1].open("w") as target:
        for one, other in pairs(n_lines):
            source.write(f"{one}\n")
            target.write(f"{other}\n")
    return paths


class Watched:
    """A clearhead command in a process of its own, and the memory that it and its workers need."""

    def __init__(self, *arguments: str | Path, cache: Path) -> None:
        self.begin, self.peak = time.perf_counter(), 0.0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "clearhead", *map(str, arguments)],
            env=os.environ | {"XDG_CACHE_HOME": str(cache)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.watch = threading.Thread(target=self.sample, daemon=True)
        self.watch.start()

    def sample(self) -> None:
        while self.process.poll() is None:
            self.peak = max(self.peak, memory_of(self.process.pid))
            time.sleep(0.2)

    def end(self) -> tuple[float, float]:
        """Seconds that it took, and GB that it needed at most."""
        _, said = self.process.communicate()
        self.watch.join()
        assert self.process.returncode == 0, said
        return time.perf_counter() - self.begin, self.peak


def memory_of(process: int) -> float:
    """Resident GB of a process and all below it; pages that two of them share count half each."""
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:  # it has just ended
        return 0.0
    own = next((int(line.split()[1]) / 1e6 for line in rollup if line.startswith("Pss:")), 0.0)
    return own + sum(memory_of(int(child)) for child in children)


def with_lines(folder: Path, n_lines: int, n_updates: int) -> Row:
    """What the commands take for a corpus of this size."""
    files, run, cache = write_corpus(folder, n_lines), folder / f"run-{n_lines}", folder / "cache"
    thousands = n_lines / 1_000
    doctor, doctor_memory = Watched("doctor", *files, cache=cache).end()
    settings = ["--set", f"train.max_steps={n_updates}"]
    training = Watched("train", *files, "--into", run, "--size", "tiny", *settings, cache=cache)
    first = first_update(run, training)
    _, train_memory = training.end()
    out = folder / "out.txt"
    # A model that has seen a few updates never ends, and the guard would decode all of it again.
    short = ["--set", "decode.max_length=8", "--set", "decode.guard=false"]
    arguments = ["--engine", "own", "--beam", "1", *short]
    command = ["translate", run, "--input", files[0], "--output", out, *arguments]
    translate, translate_memory = Watched(*command, cache=cache).end()
    for path in (*files, out):
        path.unlink()
    return {
        "lines": n_lines,
        "doctor, s per 1,000": doctor / thousands,
        "doctor, GB": doctor_memory,
        "first update, s": first,
        "first update, s per 1,000": first / thousands,
        "train, GB": train_memory,
        "translate, s per 1,000": translate / thousands,
        "translate, GB": translate_memory,
    }


def first_update(run: Path, training: Watched) -> float:
    """Seconds until the log tells of the first update."""
    log = run / "metrics.jsonl"
    while training.process.poll() is None:
        if log.exists() and '"step": 1,' in log.read_text():
            return time.perf_counter() - training.begin
        time.sleep(0.02)
    assert log.exists(), training.process.communicate()[1]
    return time.perf_counter() - training.begin


def least_seconds(work: Callable[[], object], rounds: int) -> float:
    """Processor time of the quickest round: a busy machine only adds."""
    work()
    seconds = []
    for _ in range(rounds):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def with_length(config: ModelConfig, length: int, rounds: int) -> Row:
    """A training step and a decoded token, and how many operations the formula says they need."""
    torch.manual_seed(0)
    model = build(config)
    n_rows = max(1, TOKENS_AT_ONCE // length)
    ids = torch.randint(10, config.vocab_size, (n_rows, length))
    real = torch.ones_like(ids, dtype=torch.bool)
    batch = PairBatch(
        indices=torch.arange(n_rows),
        source=ids,
        source_mask=real,
        target_in=ids,
        target_out=ids,
        judged=real,
    )
    loss = next_token_loss(0.1)

    def step() -> None:
        total, n_predictions = loss(model.train(), batch)
        (total / n_predictions).backward()
        model.zero_grad(set_to_none=True)

    options = DecodeConfig(beam=1, min_length=length, max_length=length, guard=False)
    trained, source = least_seconds(step, rounds), ids[0].tolist()
    flat = laid_out(model.eval())
    decoded = least_seconds(lambda: decode(flat, [source], options, scored=False), rounds)
    n_layers, d = config.n_encoder_layers + config.n_decoder_layers, config.d_model
    # Per token: the matrices (forwards and twice backwards), and attention over the length.
    matrices = n_layers * (4 * d * d + 2 * d * config.d_ff) + config.n_decoder_layers * 4 * d * d
    matrices += d * config.vocab_size
    looked = 2 * d * length * (n_layers + config.n_decoder_layers)
    return {
        "length": length,
        "step, µs per token": 1e6 * trained / (n_rows * length),
        "step, million operations": 6 * (matrices + looked) / 1e6,
        "decoded token, µs": 1e6 * decoded / length,
        "token, million operations": 2 * (matrices + looked) / 1e6,
    }


def told(value: float) -> str:
    return f"{value:,.3g}" if value < 1_000 else f"{value:,.0f}"


def table(rows: list[Row]) -> None:
    names = list(rows[0])
    print(f"\n| {' | '.join(names)} |\n|{'---|' * len(names)}")
    for row in rows:
        print(f"| {' | '.join(told(row[name]) for name in names)} |")
    sys.stdout.flush()


def draw(by_lines: list[Row], by_length: list[Row], into: Path) -> None:
    """Time against lines; memory against lines; time against length beside the formula."""
    into.mkdir(parents=True, exist_ok=True)
    COLOURS.update(KINDS)
    with figure_with_files((13, 4.2)) as (figure, files):
        titles = {"s per 1,000": "seconds per 1,000 lines", "GB": "gigabytes at most"}
        for place, (unit, title) in enumerate(titles.items(), 1):
            axes = figure.add_subplot(1, 3, place, xscale="log")
            lines = {
                name.partition(",")[0]: [(row["lines"], row[name]) for row in by_lines]
                for name in by_lines[0]
                if name.endswith(unit)
            }
            plot_lines(axes, lines)
            axes.set(title=title, xlabel="lines", ylim=(0, None))
            tick_plainly(axes, [row["lines"] for row in by_lines])
        axes = figure.add_subplot(1, 3, 3, xscale="log", yscale="log")
        measured = {"training step": "step, µs per token", "decoded token": "decoded token, µs"}
        counted = {
            "training step": "step, million operations",
            "decoded token": "token, million operations",
        }
        for name, column in counted.items():
            # The formula in the unit of the first point; before the lines, whose labels look for room.
            unit = by_length[0][measured[name]] / by_length[0][column]
            points = [(row["length"], unit * row[column]) for row in by_length]
            plot_formula(axes, points, "formula", KINDS[name])
        lines = {
            name: [(row["length"], row[column]) for row in by_length]
            for name, column in measured.items()
        }
        plot_lines(axes, lines)
        ticks = [100, 200, 500, 1_000, 2_000]
        axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set_yticks([], minor=True)
        axes.set(title="µs per token, one thread", xlabel="length (tokens)")
        tick_plainly(axes, [row["length"] for row in by_length])
    (into / "growth.svg").write_bytes(files["svg"])
    print(f"\nDrawn: {into / 'growth.svg'}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument(
        "--lengths", type=int, nargs="*", default=[16, 32, 64, 128, 256, 512, 1_024]
    )
    parser.add_argument("--updates", type=int, default=20, help="of each training")
    parser.add_argument("--rounds", type=int, default=5, help="of each length")
    parser.add_argument("--into", type=Path, default=Path("docs/pictures"))
    options = parser.parse_args()
    require_matplotlib()
    print(conditions())
    with tempfile.TemporaryDirectory() as place:
        by_lines = [with_lines(Path(place), n, options.updates) for n in options.lines]
    table(by_lines)
    torch.set_num_threads(1)
    keep_freed_memory()
    config = ModelConfig.preset("tiny", vocab_size=4_000)
    by_length = [with_length(config, n, options.rounds) for n in options.lengths]
    table(by_length)
    memory = [row["train, GB"] for row in by_lines]
    print(
        f"\nMemory of training: {max(memory) / statistics.median(memory):.2f} times its median at most."
    )
    draw(by_lines, by_length, options.into)


if __name__ == "__main__":
    main()
