"""The card of a run: what it is, what it was trained on and what it reached, for people."""

import hashlib
from pathlib import Path
from typing import Any

from clearhead import __version__
from clearhead.config import Config
from clearhead.folder import RunFolder
from clearhead.train import Chosen


def card(folder: RunFolder, config: Config, chosen: Chosen) -> str:
    """Markdown; what is not known is not said."""
    steps = [line for line in folder.log.lines() if line["kind"] == "step"]
    validations = [line for line in folder.log.lines() if line["kind"] == "validation"]
    model, last = config.model, validations[-1]
    layers = {"encoder-decoder": f"{model.n_encoder_layers} + {model.n_decoder_layers}"}.get(
        model.family,
        str(model.n_encoder_layers if model.family == "encoder" else model.n_decoder_layers),
    )
    lines = [
        f"# {folder.path.name}",
        "",
        f"A {config.task} model made with clearhead {__version__}: {model.family}, {layers} layers, width "
        f"{model.d_model}, {model.n_heads} heads, {model.vocab_size:,} tokens.",
        "",
        "## Trained on",
        *(f"- {described(folder.path / file)}" for file in config.data.files),
        *(
            f"- begun with {Path(line['run']).name}: "
            f"{len(line['taken'])} of its weights taken, {len(line['left'])} left, {len(line['new'])} new"
            for line in folder.log.lines()
            if line["kind"] == "inherited"
        ),
        f"- {steps[-1]['step']:,} updates, {steps[-1]['epoch']:.1f} passes, {steps[-1]['seconds'] / 60:.1f} minutes",
        "",
        "## Validated on",
        *(f"- {described(folder.path / file)}" for file in config.data.validation_files),
        *(
            []
            if config.data.validation_files
            else [f"- {config.data.validation_share:.0%} of the examples, held out"]
        ),
        f"- loss {last['loss']:.4f}, perplexity {last['perplexity']:.2f} after the last update",
        *(f"- {name}: {measured(last, score)}" for name, score in chosen.scores.items()),
        f"- in use: {chosen.weights}",
    ]
    return "\n".join(lines) + "\n"


def measured(last: dict[str, Any], score: float) -> str:
    """A candidate's score; where there is no measure but the loss, that is minus the score."""
    return f"loss {-score:.4f}" if last["score"] is None else f"{last['score_name']} {score:.2f}"


def described(path: Path) -> str:
    """A file by its name, size and hash; not by its place, which is nobody's business."""
    if not path.is_file():
        return path.name
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{path.name}: {path.stat().st_size:,} bytes, SHA-256 {digest}"
