"""Science fiction of a hundred years ago, then "As aliens entered our planet": python examples/science_fiction.py

Data: novels as text, one paragraph a line, in lm/gutenberg/train and lm/gutenberg/val.
"""

from recipe import Recipe

NOVELS = ("00035", "00036", "00062", "00064", "00139", "00164", "05230")
"""Wells, Burroughs, Doyle and Verne, by their numbers at Project Gutenberg."""

recipe = Recipe(__doc__, "science-fiction", budget="12m")
training = recipe.files(*(f"lm/gutenberg/train/{number}_*" for number in NOVELS))
validation = recipe.files("lm/gutenberg/val/00159_*")
recipe.train("writing", training, validation)
recipe.run("evaluate", str(recipe.into), *validation)
recipe.run("write", str(recipe.into), "As aliens entered our planet", "-n", "3", "--length", "100")
