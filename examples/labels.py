"""What the recipes for classifiers share: training and measuring, and pre-training on text without its labels."""

import gzip
import os
import re
from collections.abc import Sequence
from pathlib import Path

from recipe import Recipe

from clearhead.data.examples import labelled, running_text


def classified(
    recipe: Recipe, table: str, *sets: str, start: Path | None = None, training: Path | None = None
) -> None:
    """Train on a table's training part, or a part of it, from nothing or from a run; measure on its validation part."""
    [whole, validation] = recipe.files(
        f"classification/{table}.train.tsv.gz", f"classification/{table}.val.tsv.gz"
    )
    begun = [] if start is None else ["--from", os.path.relpath(start)]
    budget = ["--budget", recipe.budget] if recipe.budget else []
    settings = [part for setting in (*sets, *recipe.sets) for part in ("--set", setting)]
    recipe.run("train", str(training or whole), "--validation", validation, "--task", "classification",
               "--into", str(recipe.into), *begun, *budget, *settings)  # fmt: skip
    recipe.run("evaluate", str(recipe.into), validation)


def pretrained(
    recipe: Recipe, name: str, texts: Sequence[str], held_out: Sequence[str], budget: str,
    *sets: str, lower: bool = True, long: str = "",
) -> Path:  # fmt: skip
    """A masked-token run on the texts of tables and plain files; made once for all seeds."""
    base = recipe.into.with_name(name)
    text = plain_text(texts, Path("runs", f"{name}.txt.gz"), lower, long)
    validation = plain_text(held_out, Path("runs", f"{name}.val.txt.gz"), lower)
    usual = ("tokenizer.method=words", "tokenizer.vocab_size=12000", "model.n_encoder_layers=2", "data.window=64",
             "data.batch_tokens=2048", "data.mask_share=0.3")  # fmt: skip
    recipe.run("pretrain", text, "--validation", validation, "--into", str(base), "--budget", budget,
               *(part for setting in (*usual, *sets) for part in ("--set", setting)))  # fmt: skip
    return base


def plain_text(paths: Sequence[str], into: Path, lower: bool, long: str = "") -> str:
    """A file with the texts of tables, or the lines of plain files, one a line without labels; long ones are cut."""
    into.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(into, "wt", encoding="utf-8", newline="\n", compresslevel=1) as file:
        for path in paths:
            texts = (one.text for one in labelled(path)) if ".tsv" in path else running_text(path)
            if path == long:
                texts = (
                    sentence for text in texts for sentence in re.split(r"(?<=[.!?])\s+", text)
                )
            file.writelines(
                f"{text.lower() if lower else text}\n" for text in texts if text.strip()
            )
    return str(into)
