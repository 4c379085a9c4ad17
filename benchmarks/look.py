"""What looking costs: a replay beside an ordinary forward pass, and the taps that nobody listens to inside one.

python benchmarks/look.py                 a small model, 30 + 30 tokens
python benchmarks/look.py --preset base   in another size
"""

import argparse
import statistics
import time
import timeit
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from clearhead.config import ModelConfig
from clearhead.look import replayed
from clearhead.model import SILENT, Tap, build


class Counter(Tap):
    """Counts how often a silent tap is called in a pass."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, name: str, x: Tensor) -> Tensor:  # noqa: ARG002
        self.calls += 1
        return x

    def into(self, name: str) -> Self:  # noqa: ARG002
        self.calls += 1
        return self


def seconds(actions: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The median time of each action; they take turns, so that a slow moment of the machine hits all."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(repeats + 3):
        for name, action in actions.items():
            begin = time.perf_counter()
            action()
            if number >= 3:
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", default="small")
    parser.add_argument("--tokens", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=101)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    model = build(ModelConfig.preset(asked.preset)).eval()
    ids, counter = torch.randint(4, 1_000, (1, asked.tokens)), Counter()
    row = ids[0].tolist()
    with torch.inference_mode():
        took = seconds(
            {"pass": lambda: model(ids, ids), "replay": lambda: replayed(model, row, row)},
            asked.repeats,
        )
        model(ids, ids, tap=counter)
    call = (
        min(timeit.repeat(lambda: SILENT("q", ids), number=10_000)) / 10_000
    )  # with the lambda around it
    share, passes = counter.calls * call / took["pass"], took["replay"] / took["pass"]
    print(
        f"{asked.preset}, {asked.tokens} + {asked.tokens} tokens, one thread, median of {asked.repeats}"
    )
    print(
        f"forward pass {1e3 * took['pass']:.2f} ms, replay {1e3 * took['replay']:.2f} ms: {passes:.2f} passes"
    )
    print(f"silent taps: {counter.calls} calls of {1e9 * call:.0f} ns are {share:.2%} of a pass")


if __name__ == "__main__":
    main()
