"""Heads forming: training keeps frames of every head, for every task, and resuming keeps the film whole."""

import pytest

from clearhead.cli.main import main
from clearhead.folder import RunFolder
from clearhead.look.film import LONGEST, film_of

LINES = [f"the {size} {animal} sees {n} {thing} ." for n, (size, animal, thing) in enumerate(
    (size, animal, thing) for size in ("big", "small", "old") for animal in ("cat", "dog", "cow")
    for thing in ("birds", "trees", "houses", "shoes"))]  # fmt: skip
SMALL = ["model.d_model=16", "model.d_ff=16", "model.n_heads=2", "model.n_encoder_layers=1", "model.n_decoder_layers=1",
         "tokenizer.vocab_size=340", "train.max_steps=4", "train.validate_every=2", "train.threads=1"]  # fmt: skip
FILES = {
    "translation": {"a.en": LINES, "a.de": [line.upper() for line in LINES]},
    "classification": {
        "a.tsv": [f"{('odd', 'even')[n % 2]}\t{line}" for n, line in enumerate(LINES)]
    },
    "writing": {"a.txt": LINES},
    "chat": {"a.tsv": [f"{line}\tyes , {line}" for line in LINES]},
}


@pytest.fixture
def train(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def go(task, *more):
        for name, lines in FILES[task].items():
            (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        files = [str(tmp_path / name) for name in FILES[task]]
        return main(
            [
                "train",
                *files,
                "--task",
                task,
                "--into",
                str(tmp_path / "run"),
                "--set",
                *SMALL,
                *more,
            ]
        )

    return go


@pytest.mark.parametrize("task", FILES)
def test_training_keeps_the_heads_from_the_untrained_model_on(train, task, tmp_path):
    assert train(task) == 0
    film = film_of(RunFolder(tmp_path / "run").film.lines())
    assert film.steps == (0, 2, 4)
    assert film.losses[0] is None
    assert all(film.losses[1:])
    both = "encoder.0.self", "decoder.0.self", "decoder.0.cross"
    alone = {"classification": ("encoder.0.self",), "writing": ("decoder.0.self",)}
    assert tuple(film.patterns) == alone.get(task, both)
    assert max(len(film.probe.source), len(film.probe.target)) in range(4, LONGEST + 1)
    assert all(frames.shape[:2] == (3, 2) for frames in film.patterns.values())


def test_the_film_changes_nothing_in_training_and_can_be_left_out(train, tmp_path):
    assert train("translation") == 0
    filmed = (tmp_path / "run" / "weights.safetensors").read_bytes()
    (tmp_path / "run").rename(tmp_path / "filmed")
    assert train("translation", "train.film=false") == 0
    assert (tmp_path / "run" / "weights.safetensors").read_bytes() == filmed
    assert not (tmp_path / "run" / "film.jsonl").exists()


def test_a_film_forgets_what_a_resumed_run_will_show_again(train, tmp_path):
    assert train("translation") == 0
    folder = RunFolder(tmp_path / "run")
    before = list(folder.film.lines())
    folder.film.write({**before[-1], "step": 9})
    (tmp_path / "run" / "weights.safetensors").unlink()
    assert main(["train", str(tmp_path / "run")]) == 0
    assert list(folder.film.lines()) == before
