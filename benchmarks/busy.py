"""Speed beside other programs: what is chosen by measuring, against every fixed choice.

    script/bench busy --run RUN [--loops 0 1 2] [--seconds 60] [--sentences 6000] [--repeats 3]
        [--only training translate evaluate python]

RUN is a translator. Beside so many endless loops, training, `translate --input`, `evaluate` and translating a few
sentences in Python are run as they choose by themselves and with each fixed number of threads or processes, in turn.
Prints tokens or sentences per second by the clock, and the choice's share of the best fixed one.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from conditions import conditions

from clearhead.machine import n_processors

Speed = Callable[[], float]
GOAL = 0.9
FEW = 150
"""Sentences of a call in Python: with a beam of 5, so few that `evaluate` starts no worker processes."""
IN_PYTHON = """
import sys, time
from pathlib import Path
import clearhead
from clearhead.decode import ALONE

run, path, n, is_fixed = sys.argv[1:]
texts = Path(path).read_text().splitlines()[: int(n)]
translator = clearhead.load(run)
translator = translator.by(ALONE) if is_fixed == "True" else translator
translator.translate(texts[:2])
begin = time.perf_counter()
translator.translate(texts, beam=5)
print(time.perf_counter() - begin)
"""


@contextmanager
def loops(n: int) -> Iterator[None]:
    """So many other programs that never rest."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


def run_python(*arguments: str | Path, threads: int = 0) -> str:
    """What a Python process prints; `threads` fixes its number of them, where it does not choose."""
    environment = dict(os.environ)
    environment.pop("OMP_NUM_THREADS", None)
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    return done.stdout


def run_command(*arguments: str | Path, threads: int = 0) -> float:
    """Seconds of a command."""
    begin = time.perf_counter()
    run_python("-m", "clearhead", *arguments, threads=threads)
    return time.perf_counter() - begin


def training_speed(folder: Path, files: list[Path], seconds: int, threads: int) -> float:
    """Target tokens per second of a run with this budget, validation left out."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        run = Path(place) / "run"
        settings = [f"train.threads={threads}", "train.validate_every=1000000", "train.seed=0"]
        sets = [word for each in settings for word in ("--set", each)]
        budget = ["--budget", f"{seconds}s", "--size", "tiny"]
        run_command("train", *files, "--into", run, *budget, *sets)
        log = (run / "metrics.jsonl").read_text().splitlines()
    steps = [each for each in map(json.loads, log) if each["kind"] == "step"]
    # The first quarter is for finding out.
    first, *rest = steps[len(steps) // 4 :]
    assert rest, "--seconds is too short for two updates on this machine"
    return sum(each["tokens"] for each in rest) / (rest[-1]["seconds"] - first["seconds"])


def ways(folder: Path, run: str, sentences: int, seconds: int) -> dict[str, dict[str, Speed]]:
    """For each job its speed as it chooses, and as it is told."""
    luck, n = random.Random(0), n_processors()  # noqa: S311
    words = ["the", "a", "old", "dog", "cat", "house", "tree", "sees", "finds", "red", "small"]
    lines = [" ".join(luck.choices(words, k=luck.randint(4, 16))) for _ in range(sentences)]
    files = [folder / "test.en", folder / "test.de"]
    for path in files:
        path.write_text("".join(f"{line}\n" for line in lines))
    counts = sorted({1, n})

    def train(threads: int) -> Speed:
        return lambda: training_speed(folder, files, seconds, threads)

    def translate(workers: int = 0, threads: int = 0) -> Speed:
        told = ["--workers", str(workers)] if workers else []
        command = ["translate", run, "--input", files[0], "--output", folder / "out", "--quiet"]
        command += ["--engine", "own", *told]
        return lambda: sentences / run_command(*command, threads=threads)

    def evaluate(threads: int = 0) -> Speed:
        command = ["evaluate", run, *files, "--engine", "own"]
        return lambda: sentences / run_command(*command, threads=threads)

    def python(threads: int = 0) -> Speed:
        job = [IN_PYTHON, run, files[0], str(FEW), str(threads > 0)]
        return lambda: FEW / float(run_python("-c", *job, threads=threads))

    return {
        "training, tokens/s": {
            "chosen": train(0),
            **{f"threads: {count}": train(count) for count in counts},
        },
        "translate --input, sentences/s": {
            "chosen": translate(),
            **{f"one process, threads: {count}": translate(1, count) for count in counts},
            f"{n} processes": translate(n, 1),
        },
        "evaluate, sentences/s": {
            "chosen": evaluate(),
            "1 processor's worth of threads": evaluate(1),
        },
        f"python, {FEW} sentences, sentences/s": {
            "chosen": python(),
            **{f"threads: {count}": python(count) for count in counts},
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", required=True)
    parser.add_argument("--loops", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--seconds", type=int, default=60, help="of each training")
    parser.add_argument("--sentences", type=int, default=6_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--only", nargs="*", choices=["training", "translate", "evaluate", "python"]
    )
    options = parser.parse_args()
    print(conditions())
    with tempfile.TemporaryDirectory() as place:
        jobs = ways(Path(place), options.run, options.sentences, options.seconds)
        for job, speeds in jobs.items():
            if options.only and not job.startswith(tuple(options.only)):
                continue
            print(f"\n| {job} | {' | '.join(speeds)} | of the best fixed |")
            print(f"|{'---|' * (len(speeds) + 2)}")
            for n in options.loops:
                found: dict[str, list[float]] = {name: [] for name in speeds}
                for _ in range(options.repeats):
                    for name, speed in speeds.items():
                        with loops(n):
                            found[name].append(speed())
                median = {name: statistics.median(each) for name, each in found.items()}
                share = median.pop("chosen") / max(median.values())
                every = [statistics.median(found[name]) for name in speeds]
                cells = " | ".join(f"{each:,.0f}" for each in every)
                verdict = "" if share >= GOAL else f", goal {GOAL}"
                print(f"| busy loops: {n} | {cells} | {share:.2f}{verdict} |", flush=True)


if __name__ == "__main__":
    main()
