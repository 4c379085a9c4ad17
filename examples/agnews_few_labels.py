"""AG News with 500 labels, from nothing and after pre-training on all texts: python examples/agnews_few_labels.py

Data: classification/agnews.{train,val}.tsv.gz. Every 18th training text keeps its label; of the others only the text is
read. Other seeds: --into runs/agnews-few-1 --set train.seed=1
"""

from pathlib import Path

from labels import classified, pretrained
from recipe import Recipe

from clearhead.data.examples import labelled

N_LABELS, EVERY = 500, 18

recipe = Recipe(__doc__, "agnews-few", budget="20 epochs")
training, validation = recipe.files(
    "classification/agnews.train.tsv.gz", "classification/agnews.val.tsv.gz"
)
base = pretrained(recipe, "agnews-own-text", [training], [validation], "20 epochs", lower=False)
few = Path("runs", "agnews-few.tsv")
some = list(labelled(training))[::EVERY][:N_LABELS]
few.write_text(
    "".join(f"{one.labels[0]}\t{one.text}\n" for one in some), encoding="utf-8", newline="\n"
)
tuned = recipe.into
recipe.into = tuned.with_name(f"{tuned.name}-from-nothing")
classified(recipe, "agnews", training=few)
recipe.into = tuned
classified(recipe, "agnews", training=few, start=base)
