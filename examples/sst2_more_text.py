"""SST-2 after masked-token pre-training on reviews of films besides its own: python examples/sst2_more_text.py

Data: classification/sst2.{train,val}.tsv.gz, and the texts of classification/imdb.train.tsv.gz, whose labels are not
read. About 35 minutes of one core, most of it once for all seeds: --into runs/sst2-more-1 --set train.seed=1
"""

from labels import classified, pretrained
from recipe import Recipe

recipe = Recipe(__doc__, "sst2-more", budget="8.7 epochs")
own, reviews, validation = recipe.files(
    "classification/sst2.train.tsv.gz",
    "classification/imdb.train.tsv.gz",
    "classification/sst2.val.tsv.gz",
)
base = pretrained(
    recipe, "sst2-more-text", [own, reviews, own, own, own], [validation], "8500 steps",
    "tokenizer.vocab_size=16000", "model.dropout=0.0", "model.logit_bias=true", "train.threads=1", long=reviews,
)  # fmt: skip
recipe.run("fill", str(base), "the film is ____ and the acting is ____ .")
gentle = (
    "train.learning_rate=5e-4",
    "model.dropout=0.1",
    "train.word_dropout=0.2",
    "train.threads=1",
)
classified(recipe, "sst2", *gentle, start=base)
