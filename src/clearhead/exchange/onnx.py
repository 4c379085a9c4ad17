"""A run as ONNX graphs with a certificate by ONNX Runtime."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.config import DecodeConfig
from clearhead.decode import decode
from clearhead.disk import atomic_folder
from clearhead.errors import ConfigError, ExchangeError
from clearhead.exchange.certificate import (
    Beside,
    Certificate,
    largest_difference,
    same_tokens,
)
from clearhead.exchange.native import write_tokenizers
from clearhead.exchange.trial import sample
from clearhead.folder import RunFolder
from clearhead.model import Model
from clearhead.model.sequence import pool
from clearhead.tasks.task import Tokenizers
from clearhead.tasks.translation import source_row
from clearhead.text import END, PAD, START

MODEL, ENCODER, DECODER = "model.onnx", "encoder.onnx", "decoder.onnx"
N_TEXTS, WRITTEN = 8, 16
"""Texts on the certificate, and tokens that are written for each."""
DIFFERENCE = 1e-3
"""The largest difference of two logits."""
Session = Callable[[dict[str, Any]], dict[str, Any]]


def write_onnx(run: Path, into: Path) -> Certificate:
    """Write the graphs of a run, and its tokenizers, into a folder that is not there yet."""
    try:
        import onnx
        import onnxruntime  # noqa: F401

        from clearhead.exchange.onnx_graph import decoder_graph, encoder_graph
    except ImportError:
        raise ConfigError(
            "ONNX or ONNX Runtime is not installed.",
            "Install them: pip install 'clearhead[exchange]'",
        ) from None
    folder = RunFolder.open(run)
    model, tokenizers = folder.model(), folder.tokenizers()
    config = model.config
    if config.architecture != "transformer":
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
    with atomic_folder(into) as place:
        name = ENCODER if config.writes else MODEL
        if config.reads:
            onnx.save(encoder_graph(config, dict(weights)), str(place / name))
        if config.writes:
            onnx.save(decoder_graph(config, dict(weights)), str(place / DECODER))
        settings = {"start": START, "end": END, "pad": PAD, "model": config.model_dump()}
        (place / "config.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")
        write_tokenizers(tokenizers, place)
        certificate = certify_graphs(folder, model, place, tokenizers)
        certificate.require()
        certificate.write(place)
    return certificate


def certify_graphs(
    folder: RunFolder, model: Model, place: Path, tokenizers: Tokenizers
) -> Certificate:
    """The same texts through our model and through ONNX Runtime."""
    ours, theirs = dict[str, Tensor](), dict[str, Tensor]()
    written, others, seconds = list[list[int]](), list[list[int]](), [0.0, 0.0]
    config, run = model.config, Runner(place, model)
    texts = sample(folder.config(), folder.path)[:N_TEXTS]
    reach = config.max_positions - WRITTEN if config.positions == "learned" else 512
    for number, text in enumerate(texts, start=1):
        ids = tokenizers[0].encode(text)[: max(1, reach - 2)]
        read = tokenizers[0].reading(ids) if config.reads else [END, *ids]
        read = source_row(ids, config) if config.reads and config.writes else read
        said = wrote(model, read) if config.writes else []
        begin = time.perf_counter()
        with torch.inference_mode():
            mine = through(model, read, said)
        middle = time.perf_counter()
        other = run(read, said)
        seconds = [seconds[0] + middle - begin, seconds[1] + time.perf_counter() - middle]
        ours[f"text {number}"], theirs[f"text {number}"] = mine, other
        written.append(mine.argmax(dim=-1).flatten().tolist())
        others.append(other.argmax(dim=-1).flatten().tolist())
    difference, first = largest_difference(ours, theirs)
    same, at = same_tokens(written, others)
    sizes = Beside(
        ours=folder.weights_size(), theirs=sum(file.stat().st_size for file in place.glob("*.onnx"))
    )
    return Certificate(
        title=f"{folder.path.name} as ONNX",
        other="ONNX Runtime",
        n_texts=len(texts),
        logit_difference=difference,
        max_logit_difference=DIFFERENCE,
        tokens_same=same,
        min_tokens_same=0.995,
        first_difference=at or (first if difference > DIFFERENCE else ""),
        scores={"seconds": Beside(ours=seconds[0], theirs=seconds[1]), "bytes on disk": sizes},
        packages=("onnx", "onnxruntime"),
    )


def wrote(model: Model, read: list[int]) -> list[int]:
    greedy = DecodeConfig(beam=1, guard=False, max_length=WRITTEN)
    end = END if model.config.reads else PAD
    return list(decode(model, [read], greedy, end=end)[0][0].ids)


def through(model: Model, read: list[int], said: list[int]) -> Tensor:
    """What our model makes of a text: classes, vectors, or scores of tokens."""
    config, source = model.config, torch.tensor([read])
    if config.vectors:
        vectors = pool(model.encode(source), None, config.pooling)
        return torch.nn.functional.normalize(vectors, dim=-1) if config.unit_vectors else vectors
    target = torch.tensor([[START, *said] if config.reads else [*read, *said]])
    found: Tensor = model(source if config.reads else None, target if config.writes else None)
    return found


class Runner:
    """The same by ONNX Runtime; what is written goes through the cache, token by token."""

    def __init__(self, place: Path, model: Model) -> None:
        self.config = config = model.config
        names = [ENCODER if config.writes else MODEL] * config.reads + [DECODER] * config.writes
        self.sessions = [session(place / name) for name in names]

    def __call__(self, read: list[int], said: list[int]) -> Tensor:
        source = np.array([read], np.int64)
        memory: dict[str, Any] = {}
        if self.config.reads:
            mask = np.ones_like(source, bool)
            found = self.sessions[0]({"source": source, "mask": mask})
            if not self.config.writes:
                return torch.from_numpy(next(iter(found.values())))
            memory = {"mask": mask, **found}
        steps = [[START] if self.config.reads else read, *([token] for token in said)]
        past, rows = self.nothing(), []
        for tokens in steps:
            new = {"target": np.array([tokens], np.int64)}
            found = self.sessions[-1]({**new, **past, **memory})
            past = {name: found[name.replace("past", "present")] for name in past}
            rows.append(found["logits"])
        return torch.from_numpy(np.concatenate(rows, axis=1))

    def nothing(self) -> dict[str, Any]:
        """A cache without tokens."""
        shape = 1, self.config.n_heads, 0, self.config.d_model // self.config.n_heads
        names = [f"past_{kind}_{i}" for i in range(self.config.n_decoder_layers) for kind in "kv"]
        return dict.fromkeys(names, np.zeros(shape, np.float32))


def session(path: Path) -> Session:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    found = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in found.get_outputs()]
    return lambda inputs: dict(zip(names, found.run(None, inputs), strict=True))
