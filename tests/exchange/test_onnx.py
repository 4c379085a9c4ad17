"""ONNX Runtime computes what our model computes, whole or token by token with a cache."""

import json

import numpy as np
import pytest
import torch

from clearhead.cli.serve import export
from clearhead.errors import ConfigError, ExchangeError
from clearhead.exchange import export_model
from clearhead.folder import RunFolder
from exchange.sharp import sharp_run

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

SHAPES = {
    "a translator": {},
    "post-norm, one matrix": {"norm": "post", "init": "xavier", "tie": "all", "activation": "gelu"},
    "learned positions": {"positions": "learned", "max_positions": 64, "activation": "silu"},
    "no biases": {"bias": False, "activation": "gelu_tanh"},
    "a writer": {"family": "decoder", "embedding_norm": True},
    "a classifier": {"family": "encoder", "n_classes": 3, "n_token_types": 2, "logit_bias": False},
    "a classifier by its first token": {
        "family": "encoder", "n_classes": 3, "pooling": "first", "pooled": "relu", "logit_bias": False,
    },
    "a masked-token model": {"family": "encoder", "tie": "all"},
    "a sentence encoder": {"family": "encoder", "vectors": True, "logit_bias": False},
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_onnx_runtime_computes_the_same(shape, tmp_path):
    family = shape.get("family", "encoder-decoder")
    task = {"decoder": "writing", "encoder": "pretraining"}.get(family, "translation")
    run = sharp_run(tmp_path / "run", task, **shape)
    certificate = export_model(run, "onnx", tmp_path / "out")
    assert certificate.is_good
    assert certificate.tokens_same == 1
    assert json.loads((tmp_path / "out/certificate.json").read_text())["versions"]["onnxruntime"]
    assert (tmp_path / "out/tokenizer.json").exists()


def test_padding_is_not_looked_at_and_sentences_go_side_by_side(tmp_path):
    run = sharp_run(
        tmp_path / "run", "pretraining", family="encoder", n_classes=3, logit_bias=False
    )
    export_model(run, "onnx", tmp_path / "out")
    session = onnxruntime.InferenceSession(str(tmp_path / "out/model.onnx"))
    source = np.array([[20, 21, 22, 2], [30, 2, 0, 0]], np.int64)
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)
    (found,) = session.run(None, {"source": source, "mask": mask})
    with torch.no_grad():
        model = RunFolder.open(run).model()
        expected = model(torch.from_numpy(source), real=torch.from_numpy(mask))
    assert np.allclose(found, expected.numpy(), atol=1e-4)


def test_what_has_no_graph_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="onnx has no --test"):
        export(str(tmp_path), tmp_path / "x", "onnx", test=["a"])
    shape = {
        "architecture": "gru",
        "d_model": 16,
        "d_ff": 16,
        "n_encoder_layers": 1,
        "n_decoder_layers": 1,
    }
    with pytest.raises(ExchangeError, match=r'model\.architecture = "gru"'):
        export_model(sharp_run(tmp_path / "run", **shape), "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()
