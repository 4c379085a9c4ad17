"""News by topic (AG News, 9,000 of its texts), four labels, from nothing: python examples/agnews.py

Data: classification/agnews.{train,val}.tsv.gz. Other seeds: --into runs/agnews-1 --set train.seed=1
"""

from labels import classified
from recipe import Recipe

classified(Recipe(__doc__, "agnews", budget=""), "agnews")
