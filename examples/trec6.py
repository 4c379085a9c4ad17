"""Kinds of questions (TREC-6), six labels, from nothing: python examples/trec6.py

Data: classification/trec6.{train,val}.tsv.gz. Other seeds: --into runs/trec6-1 --set train.seed=1
"""

from labels import classified
from recipe import Recipe

classified(Recipe(__doc__, "trec6", budget=""), "trec6")
