"""A run as a CTranslate2 model: the same weights under its names, in the precision asked for.

One table says where CTranslate2 keeps each weight of ours, for writing and for reading. What is
written is certified: a sample goes through our engine and through CTranslate2.
"""

import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from clearhead import metrics
from clearhead.config import DecodeConfig, ModelConfig
from clearhead.data.examples import pairs
from clearhead.decode import Hypothesis, Request, Sentence, checked, decode_each
from clearhead.errors import ExchangeError
from clearhead.exchange.backend import CTranslate2, Result
from clearhead.exchange.certificate import Beside, Certificate, same_tokens, sample
from clearhead.exchange.foreign import require_package, write_tokenizers
from clearhead.exchange.layouts import Table
from clearhead.folder import RunFolder
from clearhead.model import Model
from clearhead.tasks.translation import source_row
from clearhead.text import END, PAD, START, UNKNOWN

Precision = Literal["float32", "float16", "int16", "int8"]
ACTIVATIONS = ("relu", "gelu_tanh", "silu", "gelu")
"""The feed-forward network's non-linearities, in the order of CTranslate2's numbers."""
TABLE = Table(
    weights={
        "tokens": "decoder/embeddings",
        "source_tokens": "encoder/embeddings_0",
        "head.tokens": "decoder/projection",
        "head.bias": "decoder/projection/bias",
        "encoder.positions.table": "encoder/position_encodings/encodings",
        "decoder.positions.table": "decoder/position_encodings/encodings",
        "encoder.norm_embedding": "encoder/layernorm_embedding",
        "decoder.norm_embedding": "decoder/layernorm_embedding",
        "encoder.norm": "encoder/layer_norm",
        "decoder.norm": "decoder/layer_norm",
    },
    layer="{stack}/layer_{index}/",
    parts={
        "norm_self": "self_attention/layer_norm",
        "self_attention.qkv": "self_attention/linear_0",
        "self_attention.out": "self_attention/linear_1",
        "norm_cross": "attention/layer_norm",
        "cross_attention.qkv": "attention/linear_0 attention/linear_1",
        "cross_attention.out": "attention/linear_2",
        "norm_ff": "ffn/layer_norm",
        "feed_forward.inner": "ffn/linear_0",
        "feed_forward.out": "ffn/linear_1",
    },
)
"""Where each weight stands; of a cross-attention, the queries apart from the keys and values."""
N_WRITTEN = 24
"""Tokens that a model without an encoder adds to each text of the sample."""
GREEDY = DecodeConfig(beam=1, guard=False)
TOLERANCES = {
    "float32": (1e-3, 0.995),
    "float16": (0.05, 0.97),
    "int16": (0.5, 0.95),
    "int8": (2.0, 0.7),
}
"""For each precision, how far a log-probability may be off, and the share of tokens to be kept."""
MAX_LOSS = 0.3
"""BLEU that may be lost."""
Outputs = Mapping[int, Hypothesis]
"""The best outputs by the place of their sentence."""


def write_ctranslate2(
    folder: RunFolder, place: Path, precision: Precision = "float32", test: Sequence[str] = ()
) -> Certificate:
    """Write a run for CTranslate2, with its tokenizers.

    A test set, source and target, gives the certificate scores.
    """
    write_tokenizers(folder.tokenizers(), place)
    return write_certified(folder, place, precision, test)


def write_certified(
    folder: RunFolder,
    place: Path,
    precision: Precision,
    test: Sequence[str] = (),
    spelled: Callable[[str], str] = str,
) -> Certificate:
    """Write the model, run a sample both ways, and write what came of it.

    `spelled` gives each token the spelling that it has in the vocabulary there.
    """
    model, (source, target) = folder.model(), folder.tokenizers()
    tokens = [[spelled(name) for name in each.vocabulary.names] for each in (source, target)]
    write_model(model, (tokens[0], tokens[1]), place, precision)
    certificate = certify_export(folder, model, place, precision, test)
    certificate.write(place)
    return certificate


# The model


def write_model(
    model: Model,
    tokens: tuple[list[str], list[str]],
    folder: Path,
    precision: Precision = "float32",
) -> None:
    """Write model.bin, config.json and the vocabularies, source and target, into a folder."""
    config = model.config
    refuse_others(config)
    require_package("ctranslate2", "CTranslate2")
    from ctranslate2.specs import model_spec

    spec = empty_spec(config, *tokens)
    ours = {**model.state_dict(), **dict(model.named_buffers())}
    # norms have a shift always there; without biases ours have none, and it is zero
    shift = torch.zeros(config.d_model)
    shifts = {name.replace(".weight", ".bias"): shift for name in ours if "norm" in name}
    theirs: dict[str, Tensor] = dict.fromkeys(tied(config), ours["tokens.weight"])
    for name, weight in {**shifts, **ours}.items():
        parts = variables(name)
        sizes = [config.d_model, 2 * config.d_model] if len(parts) > 1 else [len(weight)]
        theirs |= zip(parts, weight.split(sizes), strict=True)
    for path, weight in theirs.items():
        scope, _, name = path.rpartition("/")
        # A copy: CTranslate2 rounds weights in place.
        array = weight.float().cpu().numpy().copy()
        setattr(model_spec.index_spec(spec, scope), name, array)
    spec.validate()
    spec.optimize(precision)
    spec.save(str(folder))


def variables(ours: str) -> list[str]:
    """The variables that hold a weight of ours; those of norms have other names there."""
    found = TABLE.theirs(ours)
    if "norm" not in ours:
        return found
    return [name.replace("/weight", "/gamma").replace("/bias", "/beta") for name in found]


def tied(config: ModelConfig) -> list[str]:
    """The variables that hold the vectors of the target's tokens once more."""
    found = {
        "encoder/embeddings_0/weight": config.reads and config.tie == "all",
        "decoder/projection/weight": config.tie != "none",
    }
    return [name for name, holds in found.items() if holds]


def refuse_others(config: ModelConfig) -> None:
    """Refuse by name what CTranslate2 cannot express."""
    found = {
        f'model.architecture = "{config.architecture}"': config.recurs,
        f'model.family = "{config.family}"': not config.writes,
        f"model.n_token_types = {config.n_token_types}": config.n_token_types,
    }
    if names := [name for name, holds in found.items() if holds]:
        raise ExchangeError(
            f"CTranslate2 cannot express {' and '.join(names)}.",
            "Export it to another format: clearhead export RUN --to onnx --into FOLDER",
        )


def empty_spec(config: ModelConfig, source: list[str], target: list[str]) -> Any:
    """A model of this shape with its vocabularies and special tokens, and no weights yet."""
    from ctranslate2.specs import TransformerDecoderModelSpec, TransformerSpec

    shape = {
        "pre_norm": config.norm == "pre",
        "activation": ACTIVATIONS.index(config.activation),
        "layernorm_embedding": config.embedding_norm,
    }
    n_layers, n_heads = config.n_decoder_layers, config.n_heads
    if config.reads:
        both = config.n_encoder_layers, n_layers
        spec = TransformerSpec.from_config(both, n_heads, **shape)
        spec.encoder.scale_embeddings = config.scale_embeddings
        spec.config.decoder_start_token = target[START]
        spec.config.add_source_eos = config.source_end
        spec.register_source_vocabulary(source)
        spec.register_target_vocabulary(target)
    else:
        spec = TransformerDecoderModelSpec.from_config(n_layers, n_heads, **shape)
        spec.register_vocabulary(target)
    spec.decoder.scale_embeddings = config.scale_embeddings
    spec.config.unk_token, spec.config.eos_token = target[UNKNOWN], target[END]
    spec.config.bos_token = target[START]
    spec.config.layer_norm_epsilon = config.norm_eps
    return spec


# The certificate


def certify_export(
    folder: RunFolder, model: Model, place: Path, precision: str, test: Sequence[str] = ()
) -> Certificate:
    """The same texts through both, greedily; a test set, if there is one, also gives BLEU."""
    source, target = folder.tokenizers()
    columns = folder.config().data.columns
    examples = list(pairs(*test, columns=columns)) if test else []
    texts = [pair.source for pair in examples] or sample(folder)
    request, sentences = asked(model, [source.encode(text) for text in texts])
    with CTranslate2(place, model, n_workers=1, precision=precision) as backend:
        list(backend.decode(request, sentences[:1]))  # starts it
        theirs, fast = timed(lambda: backend.decode(request, sentences))
        memory = backend.memory()
    ours, slow = timed(lambda: decode_each(request, sentences))
    own_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = (place / "model.bin").stat().st_size
    scores = {
        "sentences per second": Beside(ours=len(texts) / slow, theirs=len(texts) / fast),
        "bytes on disk": Beside(ours=folder.weights_size(), theirs=size),
        "MB of memory, whole process": Beside(ours=own_memory, theirs=memory),
    }
    if examples:
        both = [index for index in ours if index in theirs]
        references = [examples[index].target for index in both]
        mine, others = (
            metrics.bleu([target.decode(outputs[index].ids) for index in both], references).value
            for outputs in (ours, theirs)
        )
        scores["BLEU"] = Beside(ours=mine, theirs=others)
    title = f"{folder.path.name} as CTranslate2 {precision}"
    return agreement(title, ours, theirs, precision, scores)


def agreement(
    title: str, ours: Outputs, theirs: Outputs, precision: str, scores: Mapping[str, Beside]
) -> Certificate:
    """The certificate of what our engine and CTranslate2 have written, at a precision."""
    both = [index for index in ours if index in theirs]
    same, first = same_tokens([ours[i].ids for i in both], [theirs[i].ids for i in both])
    log_probs = [
        zip(ours[i].log_probs, theirs[i].log_probs, strict=True)
        for i in both
        if ours[i].ids == theirs[i].ids
    ]
    largest, least = TOLERANCES[precision]
    return Certificate(
        title=title,
        other="CTranslate2",
        n_texts=len(both),
        logit_difference=max((abs(a - b) for text in log_probs for a, b in text), default=0.0),
        max_logit_difference=largest,
        tokens_same=same if both else 0.0,
        min_tokens_same=least,
        first_difference=first or ("" if both else "no text was decoded by both"),
        scores=scores,
        max_loss={"BLEU": MAX_LOSS} if "BLEU" in scores else {},
        notes=("differences are of log-probabilities of the tokens written",),
        packages=("ctranslate2",),
    )


def asked(model: Model, rows: Sequence[list[int]]) -> tuple[Request, list[Sentence]]:
    """What is asked of both engines: a translation of each text, or how it goes on."""
    config, options, end = model.config, GREEDY, END
    if config.reads:
        sources = [source_row(ids, config) for ids in rows]
    else:
        options, end = GREEDY.but(max_length=N_WRITTEN), PAD
        room = max(1, config.reach - N_WRITTEN) if config.reach else None
        sources = [[END, *ids][:room] for ids in rows]
    request = Request(models=checked(model), options=options, end=end)
    return request, [request.sentence(index, ids) for index, ids in enumerate(sources)]


def timed(decode: Callable[[], Iterable[Result]]) -> tuple[dict[int, Hypothesis], float]:
    """The best outputs by the place of their sentence, and the seconds that they took."""
    begin = time.perf_counter()
    found = {sentence.index: outputs[0] for sentence, outputs in decode() if outputs}
    return dict(sorted(found.items())), max(time.perf_counter() - begin, 1e-9)
