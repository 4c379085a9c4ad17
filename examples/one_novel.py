"""One short novel, with and without other novels before it: python examples/one_novel.py

Data: lm/gutenberg/train and lm/gutenberg/val. A writer learns from The Time Machine for a minute, three times from
nothing and three times after pre-training on seven other novels, and is measured on The Island of Doctor Moreau. Bits
per byte can be compared although the two kinds of run have tokenizers of their own.
"""

from recipe import Recipe

OTHERS = ("00076", "00098", "00120", "00345", "01342", "01400", "01661")
"""Twain, Dickens, Stevenson, Stoker, Austen and Doyle, by their numbers at Project Gutenberg."""

recipe = Recipe(__doc__, "one-novel", budget="1m")
novel = recipe.files("lm/gutenberg/train/00035_*")
validation = recipe.files("lm/gutenberg/val/00159_*")
others = recipe.files(*(f"lm/gutenberg/train/{number}_*" for number in OTHERS))
base = f"{recipe.into}-base"
sets = [part for setting in recipe.sets for part in ("--set", setting)]
recipe.run("pretrain", *others, "--validation", *validation, "--objective", "next", "--size", "tiny", "--budget", "6m",
           "--into", base, *sets)  # fmt: skip
for seed in (0, 1, 2):
    for name, begun in (("plain", ["--size", "tiny"]), ("begun", ["--from", base])):
        run = f"{recipe.into}-{name}-{seed}"
        recipe.run("train", *novel, "--validation", *validation, "--task", "writing", "--into", run,
                   "--budget", recipe.budget, "--set", f"train.seed={seed}", *begun, *sets)  # fmt: skip
        recipe.run("evaluate", run, *validation)
