"""Averaging checkpoints: the better weights are used, and everything that speaks of them is true."""

from pathlib import Path

import pytest
import torch

from clearhead.cli.main import main
from clearhead.errors import DataError, FolderError
from clearhead.folder import RunFolder
from clearhead.tasks import Classifier
from clearhead.tasks.runs import average
from folder.conftest import state_of
from tasks.small import small_config, trained, write_reviews


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    file = write_reviews(tmp_path / "reviews.tsv")
    config = small_config(file, 40, train__save_every=15, train__learning_rate=0.01)
    trained("classification", config, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def content(folder: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.path.iterdir() if path.is_file()}


def random_weights(folder: RunFolder, scale: float = 1.0) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    weights = folder.model().state_dict()
    return {name: scale * torch.randn_like(tensor) for name, tensor in weights.items()}


def test_a_better_mean_is_used_and_the_former_weights_are_kept(run: RunFolder) -> None:
    run.write_weights(random_weights(run))
    before = content(run)
    found = average(run.path, last=2)
    expected = [run.checkpoints.open(step).tensors("weights") for step in found.steps]
    for name, tensor in run.model().state_dict().items():
        assert torch.allclose(tensor, (expected[0][name] + expected[1][name]) / 2)
    assert found.former is not None
    assert found.former.read_bytes() == before["weights.safetensors"]
    assert "in use now" in str(found)


def test_card_and_temperature_are_those_of_the_mean(run: RunFolder) -> None:
    run.write_weights(random_weights(run))
    config = run.config()
    run.write_config(config.but(labels=config.labels.but(temperature=19.0)))
    found = average(run.path, last=2)
    assert f"in use: mean of the checkpoints {found.steps[0]}, {found.steps[1]}" in run.card()
    assert found.mean in run.card()
    assert found.before in run.card()
    assert Classifier.load(run.path).config.labels.temperature != 19.0


def test_a_worse_mean_changes_nothing(run: RunFolder) -> None:
    step = run.checkpoints.steps()[-1] + 1
    run.checkpoints.save(step, {"weights": random_weights(run, 5.0)}, state_of(step))
    before = content(run)
    found = average(run.path, last=1)
    assert found.steps == (step,)
    assert found.former is None
    assert "these stay in use" in str(found)
    assert content(run) == before


def test_it_is_told_when_there_are_fewer_checkpoints_than_asked_for(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["average", str(run.path), "--last", "5"]) == 0
    assert f"{len(run.checkpoints.steps())} of the 5 asked for" in capsys.readouterr().out


def test_what_cannot_be_measured_is_not_replaced(run: RunFolder) -> None:
    before = content(run)
    (run.path.parent / "reviews.tsv").unlink()
    with pytest.raises(DataError, match=r"was begun with reviews\.tsv, and there is no "):
        average(run.path)
    assert content(run) == before


def test_a_run_without_weights_or_checkpoints_is_refused(run: RunFolder) -> None:
    (run.path / "weights.safetensors").unlink()
    with pytest.raises(FolderError, match="has not ended"):
        average(run.path)
    for step in run.checkpoints.steps():
        for file in (run.path / "checkpoints" / f"{step:08d}").iterdir():
            file.unlink()
    with pytest.raises(FolderError, match="no checkpoints"):
        average(run.path)
