"""The mean of a run's newest checkpoints: used if it does better on the validation set."""

from dataclasses import dataclass
from pathlib import Path

from clearhead.errors import FolderError
from clearhead.folder import RunFolder
from clearhead.machine import device_for
from clearhead.tasks.card import card
from clearhead.tasks.corpus import Corpus
from clearhead.tasks.uses import TASKS
from clearhead.train import Chosen, mean_weights


@dataclass(frozen=True, kw_only=True)
class Averaging:
    """How the mean of checkpoints compares with the weights that were in use; `str()` says it."""

    steps: tuple[int, ...]
    """The updates after which the checkpoints were saved."""
    n_wanted: int
    before: str
    """What the weights that were in use reach on the validation set."""
    mean: str
    former: Path | None
    """Where the weights that were in use are kept; None if they still are in use."""

    def __str__(self) -> str:
        few = f", {len(self.steps)} of the {self.n_wanted} asked for"
        outcome = (
            f"it is in use now.\nThe former weights are kept in {self.former}"
            if self.former
            else "these stay in use."
        )
        return (
            f"The mean of {len(self.steps)} checkpoints (updates {', '.join(map(str, self.steps))}"
            f"{few if len(self.steps) < self.n_wanted else ''}) reaches {self.mean} on the "
            f"validation set, the weights in use {self.before}: {outcome}"
        )


def average(run: str | Path, last: int = 5) -> Averaging:
    """Use the mean of the newest checkpoints, if it is better than the weights in use.

    Both are measured by the run's own judge on its validation set. With the mean come a new card
    and a new temperature; the former weights are kept under another name.
    """
    folder = RunFolder.open(run)
    with folder.lock():
        steps = tuple(folder.checkpoints.steps()[-last:])
        refuse_unfit(folder, steps, last)
        config = folder.config()
        task = TASKS[config.task]
        corpus = Corpus(task, config.data, folder.path)
        corpus.split()
        judge, _ = corpus.judge(task(config, folder.tokenizers()))
        model = folder.model(str(device_for(config.train.device)))
        before = judge.rating(model)
        weights = mean_weights(folder.checkpoints.open(step).tensors("weights") for step in steps)
        model.load_state_dict(weights)
        mean, former = judge.rating(model), None
        if mean > before:
            former = folder.keep_former_weights()
            folder.write_weights(weights)
            if judge.calibrated is not None:
                config = judge.calibrated(model, config)
                folder.write_config(config)
            name = f"mean of the checkpoints {', '.join(map(str, steps))}"
            chosen = Chosen(steps[-1], name, {"in use before": before, name: mean})
            folder.log.write(chosen.line())
            folder.write_card(card(folder, config, chosen))
    return Averaging(
        steps=steps,
        n_wanted=last,
        before=judge.worded(before),
        mean=judge.worded(mean),
        former=former,
    )


def refuse_unfit(folder: RunFolder, steps: tuple[int, ...], last: int) -> None:
    if not steps:
        raise FolderError(
            f"{folder.path} holds no checkpoints to average.",
            f"Train with train.keep_checkpoints = {last}.",
        )
    if not folder.has_weights():
        raise FolderError(
            f"{folder.path} has not ended, so there are no weights to compare with.",
            f"Train it to its end with: clearhead train {folder.path}",
        )
