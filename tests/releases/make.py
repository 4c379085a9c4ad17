"""Makes the small runs of a release, which every later one must read: `python -m releases.make`, in tests.

tests/releases/VERSION/{mt,chat,mood,bard,books}    runs as that release trained them
tests/releases/VERSION/said.json                    what they said
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch

from clearhead import __version__, load
from clearhead.cli.main import main
from hostile.place import RUNS, TASKS, TINY, write_data

HERE = Path(__file__).parent
LONGER = ["train.max_steps=60", "train.validate_every=30", "train.film=false"]
TEXT, GAP = "the cat sees the dog .", "the cat ____ the dog ."


def said(run: Path) -> dict[str, Any]:
    """What a run says to a fixed text, and how likely it finds that; nothing is drawn at random."""
    user: Any = load(run)
    if run.name == "mood":
        found = user.classify(TEXT)
        return {"text": str(found), "numbers": list(found.probabilities.values())}
    if run.name == "books":
        gap = user.fill(GAP).gaps[0]
        return {"text": gap[0].word, "numbers": [each.probability for each in gap]}
    found = {
        "mt": lambda: user.translate(TEXT),
        "chat": lambda: user.answer([TEXT], temperature=0.0),
        "bard": lambda: user.write(TEXT, temperature=0.0, max_length=12),
    }[run.name]()
    return {"text": found.text, "numbers": list(found.log_probs)}


def make(place: Path) -> None:
    place.mkdir()
    data = place / "data"
    data.mkdir()
    write_data(data)
    torch.set_num_threads(1)
    for name, task in {**RUNS, "books": ""}.items():
        files = [str(data / file) for file in TASKS[task or "writing"]]
        begin = ["train", *files, "--task", task] if task else ["pretrain", *files]
        into = str(place / name)
        assert main([*begin, "--into", into, "-q", "--set", *TINY, *LONGER]) == 0
        shutil.rmtree(place / name / "checkpoints")
    shutil.rmtree(data)
    told = {name: said(place / name) for name in (*RUNS, "books")}
    (place / "said.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(make(HERE / __version__))
