"""`clearhead evaluate`, `info`, `verify` and `average`: what can be asked of any run."""

import json
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli import options
from clearhead.errors import ConfigError

USES = {
    "translation": 'clearhead translate {run} "…"',
    "chat": "clearhead chat {run}",
    "classification": 'clearhead classify {run} "…"',
    "writing": 'clearhead write {run} "…"',
    "pretraining": "clearhead train FILES --from {run} --into …",
}
"""How to use a run of each task."""


def evaluate(
    run: options.AnyRun,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES", help="A test set, in the form that the run was trained on."
        ),
    ],
    beam: options.Beam = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the translations, or the labels, here."),
    ] = None,
    settings: options.DecodeSettings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Measure a run on a test set.

    - `clearhead evaluate runs/en-de test.en test.de` (BLEU and chrF with signatures, speed)
    - `clearhead evaluate runs/en-de test.en test.de --beam 1 --json`
    - `clearhead evaluate runs/bard test.txt` (perplexity and bits per byte; chatbots likewise)
    """
    from clearhead import tasks

    user = tasks.load(run)
    changed = beam is not None or settings
    decode = options.decode_config(user.config, settings, beam=beam) if changed else None
    found = tasks.evaluate(user, files, decode)
    if output and not found.lines:
        raise ConfigError("--output: this test has no outputs to write.", "Leave it out.")
    if output:
        text = "".join(f"{line}\n" for line in found.lines)
        output.write_text(text, encoding="utf-8", newline="\n")
    typer.echo(json.dumps(found.scores) if as_json else found)


def info(run: options.AnyRun) -> None:
    """Tell what a run is: its data, scores and size, and how to use it.

    - `clearhead info runs/en-de`
    """
    from clearhead.folder import RunFolder

    folder = RunFolder.open(run)
    config = folder.config()
    if not folder.has_weights():
        newest = folder.checkpoints.newest()
        done = f"{newest.step:,} of {config.train.max_steps or 0:,} updates are" if newest else ""
        typer.echo(
            f"{run} is a {config.task} run that has not ended: {done or 'no update is'} saved.\n"
            f"Go on with: clearhead train {run}\n{told_of_cache()}"
        )
        return
    n_parameters = sum(weight.numel() for weight in folder.model().parameters())
    typer.echo(
        f"{folder.card()}\n{n_parameters:,} parameters, {folder.size() / 1e6:,.1f} MB on disk.\n"
        f"Use it: {USES[config.task].format(run=run)}\n{told_of_cache()}"
    )


def told_of_cache() -> str:
    """Where tokenised text is kept, and how much there is."""
    from clearhead.machine import cache_folder

    cache = cache_folder()
    n_bytes = sum(file.stat().st_size for file in cache.rglob("*") if file.is_file())
    return f"Tokenised text, which may be deleted, is in {cache}: {n_bytes / 1e6:,.1f} MB."


def verify(run: options.AnyRun) -> None:
    """Check every file of a run folder for damage.

    - `clearhead verify runs/en-de` (nothing in the folder is changed; exit 1 if something is wrong)
    """
    from clearhead.folder import RunFolder

    problems = RunFolder.open(run).problems()
    typer.echo("\n".join(problems) or f"Nothing is wrong with {run}.")
    raise typer.Exit(bool(problems))


def average(
    run: options.AnyRun,
    last: Annotated[
        int, typer.Option(min=1, help="How many of the newest checkpoints to average.")
    ] = 5,
) -> None:
    """Average the newest checkpoints, as the paper does, if that is better.

    Both are measured on the run's validation set; the former weights are kept in the folder.

    - `clearhead average runs/en-de --last 5`
    """
    from clearhead.tasks.runs import average as use_average

    typer.echo(use_average(run, last))
