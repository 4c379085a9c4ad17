"""Training through the tasks: a run that was interrupted ends as one that was not, and what was learned can be used."""

import hashlib
import json
from pathlib import Path

import pytest

import clearhead
from clearhead.config import Given, layered
from clearhead.demo.show import shipped
from clearhead.errors import DataError
from clearhead.folder import RunFolder
from clearhead.tasks import TASKS
from clearhead.tasks.fit import fit
from clearhead.training import Chosen, StepReport

SMALL = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
TRAIN = {"max_steps": 6, "save_every": 2, "validate_every": 3, "ema": 0.9}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Text for each form: running text, conversations, and questions with their answers."""
    folder = tmp_path_factory.mktemp("data")
    talks = shipped("chat.jsonl")[0][:60]
    paths = {name: folder / name for name in ("text.txt", "talk.jsonl", "pairs.tsv")}
    paths["text.txt"].write_text("\n".join(shipped("writing.txt")[0][:30]) + "\n")
    paths["talk.jsonl"].write_text("".join(f"{talk}\n" for talk in talks))
    pairs = ("\t".join(json.loads(talk)["turns"][:2]) for talk in talks)
    paths["pairs.tsv"].write_text("".join(f"{pair}\n" for pair in pairs))
    return paths


def settings(file: Path) -> Given:
    data = {"files": [str(file)], "window": 32, "batch_tokens": 256}
    return {"model": SMALL, "data": data, "train": TRAIN}


@pytest.mark.parametrize(
    ("name", "task", "family"),
    [
        ("text.txt", "writing", "decoder"),
        ("talk.jsonl", "chat", "decoder"),
        ("pairs.tsv", "chat", "encoder-decoder"),
    ],
)
def test_a_resumed_run_ends_as_an_uninterrupted_one(
    files: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    task: str,
    family: str,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = settings(files[name])
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    list(fit(TASKS[task], config, whole))
    for report in fit(TASKS[task], config, parts):
        if isinstance(report, StepReport) and report.step == 5:
            break
    list(fit(TASKS[task], config, parts))
    hashes = [
        hashlib.sha256((run / "weights.safetensors").read_bytes()).hexdigest()
        for run in (whole, parts)
    ]
    assert hashes[0] == hashes[1]
    folder = RunFolder.open(whole)
    assert (folder.config().task, folder.config().model.family) == (task, family)
    assert "loss" in folder.card()
    user = clearhead.load(whole)
    assert (
        str(user.write("Once", max_length=5)).startswith("Once")
        if task == "writing"
        else user.reply("Hi").text != 0
    )


@pytest.mark.parametrize("earlier", [True, False])
def test_a_run_goes_on_after_another_version_named_its_examples_but_not_with_other_examples(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: bool
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config, run = settings(files["text.txt"]), tmp_path / "run"
    for report in fit(TASKS["writing"], config, run):
        if isinstance(report, StepReport) and report.step == 3:
            break
    plan = RunFolder(run).plan()
    other = "0" * 32 if earlier else f"{plan.examples[:-4]}0000"
    RunFolder(run).write_plan(plan.model_copy(update={"examples": other}))
    going_on = fit(TASKS["writing"], config, run)
    if earlier:
        assert isinstance(list(going_on)[-1], Chosen)
    else:
        with pytest.raises(DataError, match="not those that"):
            list(going_on)


def test_the_form_of_a_chatbot_can_be_set(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = settings(files["pairs.tsv"])
    list(fit(TASKS["chat"], layered(config, {"model": {"family": "decoder"}}), tmp_path / "run"))
    assert clearhead.load(tmp_path / "run").reads_question is False
