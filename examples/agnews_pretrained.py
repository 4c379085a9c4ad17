"""AG News after masked-token pre-training on its own 9,000 texts: python examples/agnews_pretrained.py

Data: classification/agnews.{train,val}.tsv.gz. Other seeds: --into runs/agnews-own-1 --set train.seed=1
"""

from labels import classified, pretrained
from recipe import Recipe

recipe = Recipe(__doc__, "agnews-own", budget="")
training, validation = recipe.files(
    "classification/agnews.train.tsv.gz", "classification/agnews.val.tsv.gz"
)
base = pretrained(recipe, "agnews-own-text", [training], [validation], "20 epochs", lower=False)
classified(recipe, "agnews", start=base)
