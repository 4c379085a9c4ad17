"""What customers of a bank want (Banking77), 77 labels, from nothing: python examples/banking77.py

Data: classification/banking77.{train,val}.tsv.gz. Other seeds: --into runs/banking77-1 --set train.seed=1
"""

from labels import classified
from recipe import Recipe

classified(Recipe(__doc__, "banking77", budget=""), "banking77")
