"""What was trained here goes out in a layout of Hugging Face, if one can express it."""

import pytest
import torch

from clearhead.config import Config, ModelConfig, TokenizerConfig
from clearhead.errors import ExchangeError
from clearhead.exchange import export_model
from clearhead.folder import RunFolder
from clearhead.model import build
from clearhead.text import Tokenizer

SMALL = {"d_model": 24, "d_ff": 40, "n_heads": 3, "n_encoder_layers": 2, "n_decoder_layers": 2}
POST = {"norm": "post", "init": "xavier"}
BERT = {
    **POST,
    "family": "encoder",
    "embedding_norm": True,
    "scale_embeddings": False,
    "activation": "gelu",
}
RUNS = {
    "a writer as it is by default": ("writing", {"family": "decoder"}, "bytes"),
    "a writer without biases": (
        "writing",
        {"family": "decoder", "bias": False, "activation": "silu"},
        "bytes",
    ),
    "a writer like GPT-2": (
        "writing",
        {
            "family": "decoder",
            "positions": "learned",
            "max_positions": 300,
            "scale_embeddings": False,
        },
        "bytes",
    ),
    "an encoder like BERT": ("pretraining", BERT, "bpe"),
    "a classifier like BERT": (
        "classification",
        {**BERT, "n_classes": 2, "pooling": "first"},
        "words",
    ),
    "a translator like Marian": ("translation", {**POST, "positions": "halves"}, "bpe"),
}


def make_run(path, task, settings, method):
    lines = ["a man rides a bike", "two dogs sleep under the table", "how far is it to the village"]
    tokenizer = Tokenizer.learn(lines, TokenizerConfig(method=method, vocab_size=400))
    model = ModelConfig(**SMALL, **settings, vocab_size=tokenizer.vocab_size)
    labels = {"names": ("no", "yes")} if model.n_classes else {}
    config = Config(
        task=task, model=model.model_dump(), tokenizer={"method": method}, labels=labels
    )
    run = RunFolder.create(path, config, tokenizer)
    torch.manual_seed(3)
    weights = build(config.model).state_dict()
    run.write_weights(
        {name: weight + 0.1 * torch.randn_like(weight) for name, weight in weights.items()}
    )
    return run


@pytest.mark.parametrize("name", RUNS)
def test_transformers_says_what_our_model_says(name, tmp_path):
    transformers = pytest.importorskip("transformers")
    run = make_run(tmp_path / "run", *RUNS[name])
    certificate = export_model(run.path, "hf", tmp_path / "out")
    assert certificate.is_good
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    own, text = run.tokenizers()[0], "two men ride a bike !"
    ids = own.encode(text)
    read = tokenizer(text).input_ids
    assert read == ([*ids, 2] if run.config().model.reads else [2, *ids])


def test_an_export_says_which_settings_do_not_fit(tmp_path):
    run = make_run(tmp_path / "run", "translation", {"norm": "pre"}, "bpe")
    with pytest.raises(
        ExchangeError, match=r"model\.norm = pre \(there: post\), model\.positions = sinusoidal"
    ):
        export_model(run.path, "hf", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    run = make_run(tmp_path / "gru", "translation", {"architecture": "gru"}, "bpe")
    with pytest.raises(ExchangeError, match=r"model\.architecture = gru"):
        export_model(run.path, "hf", tmp_path / "out")
