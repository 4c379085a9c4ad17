"""Praise and blame in sentences about films (SST-2), two labels, from nothing: python examples/sst2.py

Data: classification/sst2.{train,val}.tsv.gz. Other seeds: --into runs/sst2-1 --set train.seed=1
"""

from labels import classified
from recipe import Recipe

classified(Recipe(__doc__, "sst2", budget=""), "sst2")
