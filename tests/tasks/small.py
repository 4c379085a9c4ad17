"""The smallest runs of the tasks that read: trained in a second, on text made here."""

import random
from pathlib import Path
from typing import Any

from clearhead.config import Given, assigned, layered
from clearhead.tasks import TASKS
from clearhead.tasks.fit import fit
from clearhead.training import Report

GOOD, BAD = ["good", "great", "lovely"], ["bad", "awful", "dull"]
THINGS = ["film", "book", "song", "game"]


def write_reviews(path: Path, n: int = 120, several: bool = False) -> Path:
    """Lines of label, tab, text; with several, the thing is a label, too."""
    choice = random.Random(1)
    lines = []
    for _ in range(n):
        word, thing = choice.choice(GOOD + BAD), choice.choice(THINGS)
        label = "good" if word in GOOD else "bad"
        lines.append(
            f"{label}{f',{thing}' if several else ''}\tthe {thing} was {word} , they say\n"
        )
    path.write_text("".join(lines))
    return path


def write_prose(path: Path, n: int = 200) -> Path:
    choice = random.Random(2)
    words = [*GOOD, *BAD, *THINGS, "the", "was", "they", "say", "and", "a"]
    path.write_text(
        "".join(" ".join(choice.choices(words, k=choice.randint(3, 9))) + "\n" for _ in range(n))
    )
    return path


def small_config(file: Path, steps: int = 6, **settings: Any) -> Given:
    given = {
        "model": {
            "d_model": 16,
            "d_ff": 32,
            "n_heads": 2,
            "n_encoder_layers": 2,
            "n_decoder_layers": 1,
            "dropout": 0.1,
        },
        "tokenizer": {"method": "words"},
        "data": {"files": [str(file)], "batch_tokens": 128, "window": 16},
        "train": {"max_steps": steps, "validate_every": max(1, steps // 2), "threads": 1},
    }
    sets = [f"{name.replace('__', '.')}={value}" for name, value in settings.items()]
    return layered(given, assigned(sets))


def trained(task: str, given: Given, into: Path) -> list[Any]:
    """All that the training tells."""
    return [report for report in fit(TASKS[task], given, into) if isinstance(report, Report)]
