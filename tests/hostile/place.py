"""Small runs of every task and the files they come from, to be tried and broken."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

THINGS, DOES = ["cat", "dog", "bird", "child"], ["sees", "likes", "finds"]
KINDS = {"good": ["good", "great", "lovely"], "bad": ["bad", "awful", "dull"]}
TINY = [
    "model.d_model=16",
    "model.d_ff=16",
    "model.n_heads=2",
    "model.n_encoder_layers=1",
    "model.n_decoder_layers=1",
    "tokenizer.method=words",
    "data.batch_tokens=128",
    "data.window=16",
    "train.threads=1",
    "train.max_steps=4",
    "train.validate_every=2",
    "train.score_sample=4",
]
"""Settings of a model that trains in a fraction of a second."""
TASKS = {
    "translation": ["train.en", "train.de"],
    "chat": ["talk.jsonl"],
    "classification": ["mood.tsv"],
    "writing": ["prose.txt"],
}
RUNS = {"mt": "translation", "chat": "chat", "mood": "classification", "bard": "writing"}
"""The runs that have ended, by name; `books` is pre-trained, and `half` was stopped on its way."""
ALL_RUNS = (*RUNS, "books", "half")


def make_place(place: Path, main: Callable[[list[str]], int]) -> None:
    place.mkdir(parents=True)
    write_data(place)
    for name, task in RUNS.items():
        files = [str(place / file) for file in TASKS[task]]
        arguments = ["train", *files, "--task", task, "--into", str(place / "runs" / name)]
        assert main([*arguments, "--set", *TINY]) == 0
    books = ["pretrain", str(place / "prose.txt"), "--into", str(place / "runs" / "books")]
    assert main([*books, "--set", *TINY]) == 0
    half = ["train", str(place / "train.en"), str(place / "train.de")]
    assert main([*half, "--into", str(place / "runs" / "half"), "--set", *TINY]) == 0
    for name in ("weights.safetensors", "card.md"):
        (place / "runs" / "half" / name).unlink()
    shutil.rmtree(place / "runs" / "half" / "checkpoints" / "00000004")


def write_data(place: Path) -> None:
    choice = random.Random(1)
    rows = [(choice.choice(THINGS), choice.choice(DOES), choice.choice(THINGS)) for _ in range(60)]
    english = ["the " + " ".join(row) + " ." for row in rows]
    backwards = [" ".join(word[::-1] for word in line.split()) for line in english]
    moods = [(mood, choice.choice(words)) for mood, words in KINDS.items() for _ in range(40)]
    talk = [f'{{"turns": ["{a}", "{b}"]}}' for a, b in zip(english, backwards, strict=True)]
    contents = {
        "train.en": english,
        "train.de": backwards,
        "pairs.tsv": [f"{a}\t{b}" for a, b in zip(english, backwards, strict=True)],
        "talk.jsonl": talk,
        "mood.tsv": [f"{mood}\tthe film was {word}" for mood, word in moods],
        "prose.txt": [*english, "", *backwards],
        "terms.tsv": ["cat\ttac", "dog\tgod"],
    }
    for name, lines in contents.items():
        (place / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
