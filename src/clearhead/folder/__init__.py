"""The only room that knows the names of files in a run.

    config.toml             every setting, resolved
    tokenizer.json          and source-tokenizer.json, when the source side has its own
    weights.safetensors     the weights to use, sealed with their own SHA-256; those that a mean of
                            checkpoints has replaced are former-weights.safetensors
    plan.json               what was planned and why, what was taken over, how it was corrected
    words.safetensors       which words it has seen, as numbers, to tell when a text holds others
    metrics.jsonl           one line per report
    film.jsonl              attention of every head on a few examples, untrained and at each validation
    card.md                 what it was trained on, and its scores
    checkpoints/00012000/   manifest.json · state.json · weights.safetensors · …
    lock                    while a process writes

What it writes appears whole or not at all; what it reads may come from anyone, and nothing is run.
"""

from clearhead.folder.checkpoints import Checkpoint, Checkpoints
from clearhead.folder.history import Inheritance, Log, RunPlan
from clearhead.folder.run import RunFolder

__all__ = ["Checkpoint", "Checkpoints", "Inheritance", "Log", "RunFolder", "RunPlan"]
