"""SST-2 after masked-token pre-training on reviews of films besides its own: python examples/sst2_more_text.py

Data: classification/sst2.{train,val}.tsv.gz, and the texts of classification/imdb.train.tsv.gz, whose labels are not
read. Other seeds: --into runs/sst2-more-1 --set train.seed=1
"""

from labels import classified, pretrained
from recipe import Recipe

recipe = Recipe(__doc__, "sst2-more", budget="")
own, reviews, validation = recipe.files(
    "classification/sst2.train.tsv.gz", "classification/imdb.train.tsv.gz", "classification/sst2.val.tsv.gz"
)
base = pretrained(recipe, "sst2-more-text", [own, reviews, own, own], [validation], "1 epochs")
recipe.run("fill", str(base), "the film is ____ and the acting is ____ .")
classified(recipe, "sst2", start=base)
