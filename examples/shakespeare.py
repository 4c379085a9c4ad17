"""Shakespeare, character by character: python examples/shakespeare.py --budget 3m

Data: lm/tinyshakespeare.{train,val}.txt.gz. The validation loss is in nats per character.
"""

from recipe import Recipe

recipe = Recipe(__doc__, "shakespeare", budget="3m")
training, validation = recipe.files(
    "lm/tinyshakespeare.train.txt.gz", "lm/tinyshakespeare.val.txt.gz"
)
recipe.train(
    "writing", [training], [validation], "tokenizer.method=characters", "data.window=128", "model.dropout=0.0"
)  # fmt: skip
recipe.run("evaluate", str(recipe.into), validation)
recipe.run("write", str(recipe.into), "ROMEO:", "--length", "400")
