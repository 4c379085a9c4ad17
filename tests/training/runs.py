"""Runs of the real command line on a few dozen made-up pairs, and what can be seen of them."""

import hashlib
import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import clearhead

WORDS = [
    "red",
    "blue",
    "green",
    "one",
    "two",
    "three",
    "cat",
    "dog",
    "bird",
    "sees",
    "likes",
    "eats",
]
SMALL = {
    "tokenizer.method": "words",
    "model.d_model": 16,
    "model.d_ff": 32,
    "model.n_heads": 2,
    "model.n_encoder_layers": 1,
    "model.n_decoder_layers": 1,
    "data.batch_tokens": 128,
    "data.validation_share": 0.05,
    "train.threads": 1,
    "train.ema": 0.9,
    "train.score_sample": 2,
}


def write_corpus(folder: Path, n: int = 60) -> None:
    """Sentences, and the same with every word spelled backwards."""
    choice = random.Random(1)
    rows = [[choice.choice(WORDS) for _ in range(choice.randint(2, 6))] for _ in range(n)]
    (folder / "source.txt").write_text("".join(" ".join(row) + "\n" for row in rows))
    (folder / "target.txt").write_text(
        "".join(" ".join(word[::-1] for word in row) + "\n" for row in rows)
    )


@dataclass
class Nursery:
    """The process that forks runs; see nursery.py."""

    place: Path
    process: subprocess.Popen[str] = field(init=False)
    n_orders: int = 0

    def __post_init__(self) -> None:
        write_corpus(self.place)
        script = str(Path(__file__).with_name("nursery.py"))
        program = [sys.executable, "-W", "ignore", script, *self.arguments("warm-up", 1, {})]
        environment = os.environ | {
            "XDG_CACHE_HOME": str(self.place / "cache"),
            "OMP_NUM_THREADS": "1",
        }
        places = (Path(__file__).parents[1], Path(clearhead.__file__).parents[1])
        environment["PYTHONPATH"] = os.pathsep.join(map(str, places))
        self.process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=self.place,
        )

    def arguments(self, name: str, steps: int, settings: dict[str, Any]) -> list[str]:
        every = {**SMALL, "train.max_steps": steps, **settings}
        sets = [
            part for key, value in every.items() for part in ("--set", f"{key}={json.dumps(value)}")
        ]
        return ["train", "source.txt", "target.txt", "--into", name, *sets]

    def run(
        self, name: str, steps: int = 6, settings: dict[str, Any] | None = None, **order: Any
    ) -> dict[str, Any]:
        """Train into a folder of this name, or go on with it; `order` is what happens on the way."""
        self.n_orders += 1
        order = {
            "args": self.arguments(name, steps, settings or {}),
            "run": str(self.place / name),
            "output": str(self.place / f"output-{self.n_orders}"),
            **order,
        }
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        if order.get("watch") and (events := Path(f"{order['output']}.0.events")).exists():
            answer["events"] = json.loads(events.read_text())
        return answer

    def end(self) -> None:
        self.process.communicate(timeout=30)


def weights_in(run: Path) -> str:
    """The SHA-256 of the weights in use."""
    return hashlib.sha256((run / "weights.safetensors").read_bytes()).hexdigest()


def log_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def losses_in(run: Path) -> list[tuple[int, str]]:
    """Every logged loss, to the last bit."""
    return [
        (line["step"], line["loss"].hex())
        for line in log_of(run)
        if line["kind"] in ("step", "validation")
    ]


def checkpoints_in(run: Path) -> list[int]:
    folder = run / "checkpoints"
    return (
        sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
        if folder.is_dir()
        else []
    )


def strays_in(run: Path) -> list[str]:
    return [str(path) for path in run.rglob("*.tmp-*")]
