"""A run as ONNX graphs with a certificate by ONNX Runtime."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.errors import ExchangeError
from clearhead.exchange.certificate import (
    Beside,
    Certificate,
    forward_both,
    largest_difference,
    our_forward,
    read_and_written,
    same_tokens,
    sample,
)
from clearhead.exchange.foreign import require_package, write_tokenizers
from clearhead.folder import RunFolder
from clearhead.model import Model
from clearhead.model.sequence import pool
from clearhead.text import END, PAD, START

MODEL, ENCODER, DECODER = "model.onnx", "encoder.onnx", "decoder.onnx"
N_TEXTS = 8
"""Texts on the certificate."""
DIFFERENCE = 1e-3
"""The largest difference of two logits."""
Session = Callable[[dict[str, Any]], dict[str, Any]]
"""A graph that is run in one thread: outputs of inputs, both by name."""


def write_onnx(folder: RunFolder, place: Path) -> Certificate:
    """Write the graphs of a run, and its tokenizers."""
    require_package("onnx", "ONNX")
    require_package("onnxruntime", "ONNX Runtime")
    import onnx

    from clearhead.exchange.onnx_graph import decoder_graph, encoder_graph

    model = folder.model()
    config = model.config
    if config.recurs:
        raise ExchangeError(
            f'ONNX graphs are not written for model.architecture = "{config.architecture}".',
            "Export a Transformer.",
        )
    if config.n_grams:
        raise ExchangeError(
            f"ONNX graphs are not written for model.n_grams = {config.n_grams}.",
            "Train it without the linear model beside the encoder: --set data.max_n_grams=0",
        )
    weights = {**model.state_dict(), **dict(model.named_buffers())}
    if config.reads:
        name = ENCODER if config.writes else MODEL
        onnx.save(encoder_graph(config, weights), str(place / name))
    if config.writes:
        onnx.save(decoder_graph(config, weights), str(place / DECODER))
    settings = {"start": START, "end": END, "pad": PAD, "model": config.model_dump()}
    (place / "config.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")
    write_tokenizers(folder.tokenizers(), place)
    return certify_graphs(folder, model, place)


def certify_graphs(folder: RunFolder, model: Model, place: Path) -> Certificate:
    """The same texts through our model and through ONNX Runtime."""
    source, texts = folder.tokenizers()[0], sample(folder)[:N_TEXTS]
    end = END if model.config.reads else PAD
    asked = [read_and_written(model, source, text, end) for text in texts]
    ours, theirs, seconds = forward_both(asked, partial(expected, model), Runner(place, model))
    difference, first = largest_difference(ours, theirs)
    best = ([each.argmax(dim=-1).flatten().tolist() for each in x.values()] for x in (ours, theirs))
    same, at = same_tokens(*best)
    size = sum(file.stat().st_size for file in place.glob("*.onnx"))
    sizes = Beside(ours=folder.weights_size(), theirs=size)
    return Certificate(
        title=f"{folder.path.name} as ONNX",
        other="ONNX Runtime",
        n_texts=len(texts),
        logit_difference=difference,
        max_logit_difference=DIFFERENCE,
        tokens_same=same,
        min_tokens_same=0.995,
        first_difference=at or (first if difference > DIFFERENCE else ""),
        scores={"seconds": seconds, "bytes on disk": sizes},
        packages=("onnx", "onnxruntime"),
    )


def expected(model: Model, read: list[int], written: list[int]) -> Tensor:
    """What the graphs should answer: classes, scores of tokens, or a vector of the text."""
    found, config = our_forward(model, read, written), model.config
    if not config.vectors:
        return found
    vectors = pool(found, None, config.pooling)
    return torch.nn.functional.normalize(vectors, dim=-1) if config.unit_vectors else vectors


class Runner:
    """The same by ONNX Runtime; what is written goes through the cache, token by token."""

    def __init__(self, place: Path, model: Model) -> None:
        self.config = config = model.config
        names = [ENCODER if config.writes else MODEL] * config.reads + [DECODER] * config.writes
        self.sessions = [session(place / name) for name in names]

    def __call__(self, read: list[int], written: list[int]) -> Tensor:
        source, config = np.array([read], np.int64), self.config
        memory: dict[str, Any] = {}
        if config.reads:
            mask = np.ones_like(source, bool)
            found = self.sessions[0]({"source": source, "mask": mask})
            if not config.writes:
                return torch.from_numpy(next(iter(found.values())))
            memory = {"mask": mask, **found}
        empty = np.zeros((1, config.n_heads, 0, config.d_model // config.n_heads), np.float32)
        past = {f"past_{kind}_{i}": empty for i in range(config.n_decoder_layers) for kind in "kv"}
        rows = []
        for tokens in ([START] if config.reads else read, *([token] for token in written)):
            new = {"target": np.array([tokens], np.int64)}
            found = self.sessions[-1]({**new, **past, **memory})
            past = {name: found[name.replace("past", "present")] for name in past}
            rows.append(found["logits"])
        return torch.from_numpy(np.concatenate(rows, axis=1))


def session(path: Path) -> Session:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    found = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in found.get_outputs()]
    return lambda inputs: dict(zip(names, found.run(None, inputs), strict=True))
