"""The other engines of the decoding benchmark: CTranslate2 with our weights, Hugging Face's generate at our sizes.

    python benchmarks/peers.py FOLDER
    python benchmarks/peers.py FOLDER NAME PRECISION INPUT OUTPUT

Runs in an environment of its own and imports nothing of clearhead. FOLDER holds `sources.json` and `texts.json`, and
for each model NAME.json (its settings), NAME.npz (its weights) and NAME.tokenizer.json. One line of JSON asks for a
measurement, one answers. The second form translates a file, with a process for each of two processors.
"""

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

if len(sys.argv) > 2:  # CTranslate2 imports torch where there is one, and translates without
    sys.modules["torch"] = None

import ctranslate2
import numpy as np
from tokenizers import Tokenizer

FOLDER = Path(sys.argv[1])
START, END, UNKNOWN = 1, 2, 3
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}
Ids = list[list[int]]


def settings(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text())


def as_words(ids: Iterable[int]) -> list[str]:
    """Tokens as CTranslate2 wants them."""
    return [str(token) for token in ids]


@cache
def converted(name: str) -> Path:
    """Our weights as a CTranslate2 model: the same tensors under other names."""
    path = FOLDER / f"{name}.ct2"
    if path.exists():
        return path
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    config, weights = settings(name), dict(np.load(FOLDER / f"{name}.npz"))
    layers = config["n_encoder_layers"], config["n_decoder_layers"]
    spec = TransformerSpec.from_config(
        layers,
        config["n_heads"],
        pre_norm=config["norm"] == "pre",
        activation=getattr(Activation, ACTIVATIONS[config["activation"]]),
    )
    spec.encoder.embeddings[0].weight = weights.get(
        "source_tokens.weight", weights["tokens.weight"]
    )
    spec.decoder.embeddings.weight = weights["tokens.weight"]
    spec.decoder.projection.weight = weights.get("head.tokens.weight", weights["tokens.weight"])
    if "head.bias" in weights:
        spec.decoder.projection.bias = weights["head.bias"]
    for side in ("encoder", "decoder"):
        fill_stack(getattr(spec, side), weights, f"{side}.", config)
    spec.config.unk_token, spec.config.eos_token = str(UNKNOWN), str(END)
    spec.config.bos_token = spec.config.decoder_start_token = str(START)
    spec.config.layer_norm_epsilon = config["norm_eps"]
    spec.register_source_vocabulary(as_words(range(len(spec.encoder.embeddings[0].weight))))
    spec.register_target_vocabulary(as_words(range(len(spec.decoder.embeddings.weight))))
    spec.validate()
    spec.optimize()
    path.mkdir()
    spec.save(str(path))
    return path


def fill_stack(
    stack: Any, weights: dict[str, np.ndarray], prefix: str, config: dict[str, Any]
) -> None:
    stack.scale_embeddings = config["scale_embeddings"]
    stack.position_encodings.encodings = weights[f"{prefix}positions.table"]
    if config["norm"] == "pre":
        fill_norm(stack.layer_norm, weights, f"{prefix}norm.")
    for index, layer in enumerate(stack.layer):
        path = f"{prefix}layers.{index}."
        fill_attention(layer.self_attention, weights, f"{path}self_attention.", [slice(None)])
        fill_norm(layer.self_attention.layer_norm, weights, f"{path}norm_self.")
        if prefix == "decoder.":
            d_model = config["d_model"]
            thirds = [slice(d_model), slice(d_model, None)]
            fill_attention(layer.attention, weights, f"{path}cross_attention.", thirds)
            fill_norm(layer.attention.layer_norm, weights, f"{path}norm_cross.")
        fill_linear(layer.ffn.linear_0, weights, f"{path}feed_forward.inner.")
        fill_linear(layer.ffn.linear_1, weights, f"{path}feed_forward.out.")
        fill_norm(layer.ffn.layer_norm, weights, f"{path}norm_ff.")


def fill_attention(
    spec: Any, weights: dict[str, np.ndarray], path: str, parts: list[slice]
) -> None:
    """Query, key and value in one product, or the query by itself; then the way out."""
    for linear, part in zip(spec.linear, parts, strict=False):
        fill_linear(linear, weights, f"{path}qkv.", part)
    fill_linear(spec.linear[-1], weights, f"{path}out.")


def fill_linear(
    spec: Any, weights: dict[str, np.ndarray], path: str, part: slice = slice(None)
) -> None:
    spec.weight, spec.bias = weights[f"{path}weight"][part], weights[f"{path}bias"][part]


def fill_norm(spec: Any, weights: dict[str, np.ndarray], path: str) -> None:
    spec.gamma, spec.beta = weights[f"{path}weight"], weights[f"{path}bias"]


@cache
def translator(name: str, workers: int, threads: int, precision: str) -> ctranslate2.Translator:
    return ctranslate2.Translator(
        str(converted(name)), inter_threads=workers, intra_threads=threads, compute_type=precision
    )


def ct2(job: dict[str, Any]) -> Callable[[Ids], Ids]:
    engine = translator(job["model"], job["workers"], job["threads"], job["precision"])
    ends = ("min_decoding_length", "max_decoding_length")
    options = (
        {ends[1]: job["longest"]} if job["length"] is None else dict.fromkeys(ends, job["length"])
    )

    def translate(sources: Ids) -> Ids:
        tokens = [as_words(source) for source in sources]
        n_each = 1 if job["batch"] == 1 else len(tokens)
        found = [
            each
            for start in range(0, len(tokens), n_each)
            for each in engine.translate_batch(
                tokens[start : start + n_each],
                beam_size=job["beam"],
                max_batch_size=job["batch"],
                **options,
            )
        ]
        return [[int(token) for token in each.hypotheses[0]] for each in found]

    return translate


def translated(
    name: str, precision: str, threads: int, beam: int, longest: int, texts: list[str]
) -> list[str]:
    """Text to text, as whoever uses CTranslate2 from Python would write it."""
    engine, tokenizer = translator(name, threads, 1, precision), tokenizer_of(name)
    found = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    tokens = [as_words([*each.ids, END]) for each in found]
    # CTranslate2 sorts by length and forms the batches.
    results = engine.translate_batch(
        tokens, beam_size=beam, max_batch_size=64, max_decoding_length=longest
    )
    return tokenizer.decode_batch([list(map(int, each.hypotheses[0])) for each in results])


@cache
def tokenizer_of(name: str) -> Tokenizer:
    return Tokenizer.from_file(str(FOLDER / f"{name}.tokenizer.json"))


@cache
def processes() -> Pool:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return multiprocessing.get_context("spawn").Pool(2)


def script(job: dict[str, Any]) -> Callable[[list[str]], list[str]]:
    """Two processes of one thread each, which share texts that are sorted by length."""
    converted(job["model"])  # before two processes try to

    def translate(texts: list[str]) -> list[str]:
        order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
        # Many texts go in pieces to whoever is free; few are shared out, long and short alike.
        pieces = [order[start : start + 1024] for start in range(0, len(order), 1024)]
        if len(pieces) < 8:
            pieces = [order[start::2] for start in range(2)]
        asked = [
            (
                job["model"],
                job["precision"],
                1,
                job["beam"],
                job["longest"],
                [texts[place] for place in piece],
            )
            for piece in pieces
        ]
        outputs = [""] * len(texts)
        for piece, found in zip(pieces, processes().starmap(translated, asked, 1), strict=True):
            for place, text in zip(piece, found, strict=True):
                outputs[place] = text
        return outputs

    return translate


def threaded(job: dict[str, Any]) -> Callable[[list[str]], list[str]]:
    """One process, in which CTranslate2 has as many workers as it is asked for."""
    how = job["model"], job["precision"], job["workers"], job["beam"], job["longest"]

    def translate(texts: list[str]) -> list[str]:
        n_each = 1 if job["batch"] == 1 else len(texts)
        return [
            text
            for start in range(0, len(texts), n_each)
            for text in translated(*how, texts[start : start + n_each])
        ]

    return translate


def translate_file(name: str, precision: str, source: str, output: str) -> None:
    lines = Path(source).read_text(encoding="utf-8").splitlines()
    found = script({"model": name, "precision": precision, "beam": 1, "longest": 256})(lines)
    Path(output).write_text("".join(f"{line}\n" for line in found), encoding="utf-8")


@cache
def marian(name: str) -> Any:
    """A model of the same sizes; its weights are random, so only its speed says something."""
    import transformers

    config = settings(name)
    shape = {
        f"{side}_{size}": config[ours]
        for side in ("encoder", "decoder")
        for size, ours in (
            ("layers", f"n_{side}_layers"), ("attention_heads", "n_heads"), ("ffn_dim", "d_ff")
        )
    }  # fmt: skip
    return transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=config["vocab_size"],
            d_model=config["d_model"],
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=0,
            eos_token_id=END,
            decoder_start_token_id=START,
            forced_eos_token_id=None,
            **shape,
        )
    ).eval()


def hugging_face(job: dict[str, Any]) -> Callable[[Ids], Ids]:
    import torch

    model = marian(job["model"])
    torch.set_num_threads(job["threads"])

    def translate(sources: Ids) -> Ids:
        ordered = sorted(sources, key=len, reverse=True)
        outputs = []
        for begin in range(0, len(ordered), job["batch"]):
            rows = ordered[begin : begin + job["batch"]]
            ids = torch.nn.utils.rnn.pad_sequence(
                [torch.tensor(row) for row in rows], batch_first=True
            )
            found = model.generate(
                ids,
                attention_mask=(ids != 0).long(),
                num_beams=job["beam"],
                do_sample=False,
                min_new_tokens=job["length"],
                max_new_tokens=job["length"],
            )
            outputs += found.tolist()
        return outputs

    return translate


ENGINES = {"ct2": ct2, "hf": hugging_face, "script": script, "threaded": threaded}


def main() -> None:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    all_sources: dict[str, Ids] = json.loads((FOLDER / "sources.json").read_text())
    texts: list[str] = json.loads((FOLDER / "texts.json").read_text())
    print(
        json.dumps(
            {"ctranslate2": ctranslate2.__version__, "transformers": transformers.__version__}
        ),
        flush=True,
    )
    for line in sys.stdin:
        job = json.loads(line)
        translate = ENGINES[job["engine"]](job)
        given = texts if job["engine"] in ("script", "threaded") else all_sources[job["model"]]
        begin = time.perf_counter()
        with torch.inference_mode():
            outputs = translate(given[: job["n_sentences"]])
        answer = {
            "seconds": time.perf_counter() - begin,
            "outputs": outputs if job["outputs"] else None,
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__" and len(sys.argv) > 2:
    translate_file(*sys.argv[2:])
elif __name__ == "__main__":
    main()
