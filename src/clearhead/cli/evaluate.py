"""`clearhead evaluate`, `info` and `average`: what a run is worth, what it is, and its checkpoints' mean."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli import chat, classify, translate, write
from clearhead.cli.evaluation import Evaluation
from clearhead.errors import ConfigError

EVALUATIONS: dict[
    str, Callable[[str, list[str], int | None, Path | None, list[str]], Evaluation]
] = {
    "translation": translate.evaluated,
    "chat": chat.evaluated,
    "classification": classify.evaluated,
    "writing": write.evaluated,
}
"""What measures a run of each task: from run, files, beam, output and settings."""
USES = {
    "translation": 'clearhead translate {run} "…"',
    "chat": "clearhead chat {run}",
    "classification": 'clearhead classify {run} "…"',
    "writing": 'clearhead write {run} "…"',
    "pretraining": "clearhead train FILES --from {run} --into …",
}
"""How to use a run of each task."""


def evaluate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder.")],
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES", help="A test set, in the form that the run was trained on."
        ),
    ],
    beam: Annotated[
        int | None, typer.Option(help="Hypotheses kept at every step (translation); 1 is greedy.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the translations here.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="decode.NAME=VALUE", help="Any setting of decoding."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Measure a run on a test set, in the ways of its task.

    - `clearhead evaluate runs/en-de test.en test.de` (BLEU and chrF with their signatures, speed, guard hits)
    - `clearhead evaluate runs/en-de test.en test.de --beam 1 --json`
    - `clearhead evaluate runs/bard test.txt` (perplexity and bits per byte; so does a chatbot, of its own words)
    """
    from clearhead.folder import RunFolder

    task = RunFolder.open(run).config().task
    if task not in EVALUATIONS:
        raise ConfigError(
            f"{run} is a {task} run, and there is no test for it.",
            "Fine-tune it for a task first.",
        )
    found = EVALUATIONS[task](run, files, beam, output, settings or [])
    typer.echo(json.dumps(found.values) if as_json else found.text)


def info(run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder.")]) -> None:
    """Tell what a run is, what it was trained on, its scores, its size and how to use it.

    - `clearhead info runs/en-de`
    """
    from clearhead.folder import RunFolder

    folder = RunFolder.open(run)
    config = folder.config()
    if folder.has_weights():
        n_parameters = sum(parameter.numel() for parameter in folder.model().parameters())
        typer.echo(
            f"{folder.card()}\n{n_parameters:,} parameters, {folder.size() / 1e6:,.1f} MB on disk."
        )
        typer.echo(f"Use it: {USES[config.task].format(run=run)}")
    else:
        newest = folder.checkpoints.newest()
        done = (
            f"{newest.step:,} of {config.train.max_steps or 0:,} updates are done"
            if newest
            else "no update is saved"
        )
        typer.echo(
            f"{run} is a {config.task} run that has not ended: {done}.\nGo on with: clearhead train {run}"
        )


def average(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder.")],
    last: Annotated[int, typer.Option(help="How many of the newest checkpoints to average.")] = 5,
) -> None:
    """Use the mean of the newest checkpoints' weights, as the paper does.

    - `clearhead average runs/en-de --last 5`
    """
    from clearhead.errors import FolderError
    from clearhead.folder import RunFolder
    from clearhead.train import mean_weights

    folder = RunFolder.open(run)
    steps = folder.checkpoints.steps()[-last:]
    if not steps:
        raise FolderError(
            f"{run} holds no checkpoints to average.",
            f"Train with train.keep_checkpoints = {last}.",
        )
    with folder.lock():
        found = [folder.checkpoints.open(step).tensors("weights") for step in steps]
        folder.write_weights(mean_weights(found))
    typer.echo(
        f"{run} now uses the mean of {len(steps)} checkpoints: {', '.join(map(str, steps))}."
    )
