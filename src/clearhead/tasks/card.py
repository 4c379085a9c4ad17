"""The card of a run: what it is, what it was trained on and what it reached, for people."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clearhead import __version__
from clearhead.config import Config
from clearhead.disk import sha256_of
from clearhead.folder import Inheritance, RunFolder
from clearhead.train import Chosen


def card(folder: RunFolder, config: Config, chosen: Chosen) -> str:
    """Markdown; what is not known is not said."""
    log = list(folder.log.lines())
    last = {line["kind"]: line for line in log}
    model, data = config.model, config.data
    layers = {
        "encoder": f"{model.n_encoder_layers}",
        "decoder": f"{model.n_decoder_layers}",
        "encoder-decoder": f"{model.n_encoder_layers} + {model.n_decoder_layers}",
    }[model.family]
    held_out = f"- {data.validation_share:.0%} of the examples, held out"
    lines = [
        f"# {folder.path.name}",
        "",
        f"A {config.task} model made with clearhead {__version__}: {model.family}, {layers} "
        f"layers, width {model.d_model}, {model.n_heads} heads, {model.vocab_size:,} tokens.",
        "",
        "## Trained on",
        *(f"- {described_file(folder.path / file)}" for file in data.files),
        *(f"- {line['text']}" for line in log if line["kind"] == "note" and not line["step"]),
        *begun_with(folder.plan().inherited),
        *worked(last.get("step")),
        "",
        "## Validated on",
        *(f"- {described_file(folder.path / file)}" for file in data.validation_files),
        *([] if data.validation_files else [held_out]),
        *reached(last.get("validation"), chosen),
        f"- in use: {chosen.weights}",
    ]
    return "\n".join(lines) + "\n"


def begun_with(other: Inheritance | None) -> Iterable[str]:
    if other:
        yield (
            f"- begun with {Path(other.run).name}: {len(other.taken)} of its weights taken, "
            f"{len(other.left)} left, {len(other.new)} new"
        )


def worked(step: dict[str, Any] | None) -> Iterable[str]:
    if step:
        minutes = step["seconds"] / 60
        yield f"- {step['step']:,} updates, {step['epoch']:.1f} passes, {minutes:.1f} minutes"


def reached(validation: dict[str, Any] | None, chosen: Chosen) -> Iterable[str]:
    """The last validation, and the candidates' scores (or losses, where there is no score)."""
    if validation is None:
        return
    loss, perplexity = validation["loss"], validation["perplexity"]
    yield f"- loss {loss:.4f}, perplexity {perplexity:.2f} after the last update"
    for name, score in chosen.scores.items():
        by_loss = validation["score"] is None
        yield f"- {name}: " + (
            f"loss {-score:.4f}" if by_loss else f"{validation['score_name']} {score:.2f}"
        )


def described_file(path: Path) -> str:
    """A file by its name, size and hash; not by its place, which is nobody's business."""
    if not path.is_file():
        return path.name
    return f"{path.name}: {path.stat().st_size:,} bytes, SHA-256 {sha256_of(path)}"
