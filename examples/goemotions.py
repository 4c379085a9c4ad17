"""Emotions in comments (GoEmotions), 28 labels, several per text, from nothing: python examples/goemotions.py

Data: classification/goemotions.{train,val}.tsv.gz. Other seeds: --into runs/goemotions-1 --set train.seed=1
"""

from labels import classified
from recipe import Recipe

classified(Recipe(__doc__, "goemotions", budget=""), "goemotions")
