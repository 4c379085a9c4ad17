"""SST-2 after masked-token pre-training on its own 6,920 sentences: python examples/sst2_own_text.py

Data: classification/sst2.{train,val}.tsv.gz. Other seeds: --into runs/sst2-own-1 --set train.seed=1
"""

from labels import classified, pretrained
from recipe import Recipe

recipe = Recipe(__doc__, "sst2-own", budget="")
training, validation = recipe.files(
    "classification/sst2.train.tsv.gz", "classification/sst2.val.tsv.gz"
)
base = pretrained(recipe, "sst2-own-text", [training], [validation], "20 epochs")
recipe.run("fill", str(base), "the film is ____ and the acting is ____ .")
classified(recipe, "sst2", start=base)
