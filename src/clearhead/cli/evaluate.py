"""`clearhead evaluate`, `info` and `average`: what a run is worth, what it is, and its checkpoints' mean."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer


def evaluate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder of a translator.")],
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="What to translate, one sentence a line.")],
    reference: Annotated[str, typer.Argument(metavar="REFERENCE", help="What it should become, line by line.")],
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept at every step; 1 is greedy.")] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the translations here.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="decode.NAME=VALUE", help="Any setting of decoding.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Translate a test set and compare with its references: BLEU and chrF with their signatures, speed, guard hits.

    - `clearhead evaluate runs/en-de test.en test.de`
    - `clearhead evaluate runs/en-de test.en test.de --beam 1 --json`
    """
    from clearhead import metrics
    from clearhead.cli.translate import asked, one_line
    from clearhead.data.examples import pairs
    from clearhead.tasks import Translator

    translator = Translator.load(run)
    examples = list(pairs(source, reference))
    begin = time.perf_counter()
    found = translator.translate([pair.source for pair in examples], **asked(translator, beam, None, settings or []))
    seconds = time.perf_counter() - begin
    texts, references = [one_line(one.text) for one in found], [pair.target for pair in examples]
    scores = [metrics.bleu(texts, references), metrics.chrf(texts, references)]
    n_tokens = sum(len(one.tokens) + 1 for one in found)
    if output:
        output.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8", newline="\n")
    values: dict[str, Any] = {score.name: {"value": score.value, "signature": score.signature} for score in scores}
    values |= {"sentences": len(found), "seconds": seconds, "tokens_per_second": n_tokens / seconds}
    values |= {"guard_hits": sum(bool(one.notes) for one in found)}
    if as_json:
        typer.echo(json.dumps(values))
        return
    for score in scores:
        typer.echo(str(score))
    typer.echo(
        f"{len(found):,} sentences in {seconds:.1f} s: {len(found) / seconds:,.0f} sentences/s, "
        f"{n_tokens / seconds:,.0f} tokens/s; guard hits: {values['guard_hits']}"
    )


def info(run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder.")]) -> None:
    """Tell what a run is, what it was trained on, its scores, its size and how to use it.

    - `clearhead info runs/en-de`
    """
    from clearhead.folder import RunFolder

    folder = RunFolder.open(run)
    config = folder.config()
    if folder.has_weights():
        n_parameters = sum(parameter.numel() for parameter in folder.model().parameters())
        typer.echo(f"{folder.card()}\n{n_parameters:,} parameters, {folder.size() / 1e6:,.1f} MB on disk.")
        typer.echo(f'Use it: clearhead translate {run} "…"')
    else:
        newest = folder.checkpoints.newest()
        done = (
            f"{newest.step:,} of {config.train.max_steps or 0:,} updates are done" if newest else "no update is saved"
        )
        typer.echo(f"{run} is a {config.task} run that has not ended: {done}.\nGo on with: clearhead train {run}")


def average(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder.")],
    last: Annotated[int, typer.Option(help="How many of the newest checkpoints to average.")] = 5,
) -> None:
    """Use the mean of the newest checkpoints' weights, as the paper does.

    - `clearhead average runs/en-de --last 5`
    """
    from clearhead.errors import FolderError
    from clearhead.folder import RunFolder
    from clearhead.train.averaging import mean_weights

    folder = RunFolder.open(run)
    steps = folder.checkpoints.steps()[-last:]
    if not steps:
        raise FolderError(f"{run} holds no checkpoints to average.\nTrain with train.keep_checkpoints = {last}.")
    with folder.lock():
        found = [folder.checkpoints.open(step).tensors("weights") for step in steps]
        folder.write_weights(mean_weights(found))
    typer.echo(f"{run} now uses the mean of {len(steps)} checkpoints: {', '.join(map(str, steps))}.")
