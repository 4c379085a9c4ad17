"""Models in the layouts of Hugging Face, in and out, by tables and without their code.

Every tensor of a source is used, is another one's twin (tied), or takes no part and is kept aside by
name; any other is refused. An export of an imported run gives back the files that it came with.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.config import Config, Given, ModelConfig
from clearhead.disk import atomic_file, atomic_folder, open_inside, read_inside
from clearhead.errors import ExchangeError, ModelFileError, shown
from clearhead.exchange import reference
from clearhead.exchange.certificate import Certificate
from clearhead.exchange.foreign import Foreign
from clearhead.exchange.layouts import LAYOUTS, Layout, Match
from clearhead.exchange.native import (
    expressed,
    native_files,
    native_lexicon,
    rewritten,
    special_ids,
)
from clearhead.exchange.vocabularies import FILES, Lexicon, Order, json_in, read_lexicon
from clearhead.folder import RunFolder
from clearhead.folder.run import Undrawn, least_bytes
from clearhead.model import build
from clearhead.tasks.task import decide
from clearhead.tensors import (
    LENGTH,
    Spec,
    contents_of,
    read_header,
    read_tensors,
    tensor_bytes,
    tensor_specs,
    write_tensors,
)

CONFIG, WEIGHTS, INDEX, PICKLE = (
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
)
MODULES, POOLING, LENGTHS = "modules.json", "1_Pooling/config.json", "sentence_bert_config.json"
"""What a sentence encoder says about its vectors (sentence-transformers)."""
KEPT = "unused.safetensors"
"""Tensors of the source that take no part, kept so that an export can give them back."""
SHARD = re.compile(r"[\w-][\w.-]{0,100}\.safetensors")
MAX_FILE = 2**26
BIAS, LOGITS_BIAS = "head.bias", "final_logits_bias"
"""The bias of the output here, and in Marian, where it is a row of a matrix."""
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
OLD_NAMES = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))


@dataclass(frozen=True)
class Source:
    """A folder of a known layout: what it says it is, before any weight is read."""

    folder: Path
    given: Given
    """Its config.json."""
    layout: Layout
    architecture: str

    @property
    def use(self) -> str:
        """What the model is for here: a task, or "vectors"."""
        return self.layout.heads[self.architecture]

    @property
    def kind(self) -> str:
        return str(self.given["model_type"])

    @property
    def labels(self) -> list[str]:
        names = self.given.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
        return [str(names[number]) for number in sorted(names, key=int)]


def is_hugging_face(path: Path) -> bool:
    """Whether a folder holds a model in a layout of Hugging Face, known or not."""
    return (path / CONFIG).is_file() and (
        "model_type" in (path / CONFIG).read_text(encoding="utf-8", errors="replace")
    )


def source_in(folder: Path) -> Source:
    """The source in a folder, if it is of a layout that we know."""
    given = json_in(folder, CONFIG)
    layout = LAYOUTS.get(str(given.get("model_type")))
    if layout is None:
        raise ExchangeError(
            f"{folder / CONFIG}: model_type {shown(given.get('model_type'))} is not known.",
            f"There are: {', '.join(LAYOUTS)}.",
        )
    architecture = (given.get("architectures") or [None])[0]
    if architecture not in layout.heads:
        raise ExchangeError(
            f"{folder / CONFIG}: architecture {shown(architecture)} is not known.",
            f"There are: {', '.join(layout.heads)}.",
        )
    return Source(folder, given, layout, architecture)


def read_hugging_face(path: Path) -> Foreign:
    """The model in a Hugging Face folder, as a run would hold it."""
    source = source_in(path)
    files = weight_files(path)
    lexicon = read_lexicon(path, source.kind)
    config = settings_from(source, lexicon)
    accounts = Accounts(source, config.model, lexicon, described(path, files))
    tensors = dict(renamed(source, theirs_in(path, files)))
    accounts.check_tied(tensors)
    origin = {name: read_inside(path, name, MAX_FILE) for name in kept_files(path)}
    if accounts.unused:
        origin[KEPT] = tensor_bytes({name: tensors[name].numpy() for name in accounts.unused})
    return Foreign(
        config=config,
        tokenizers=lexicon.tokenizers,
        weights=dict(accounts.conversion.taken(tensors)),
        origin=origin,
        certify=lambda run: replace(
            reference.compared(run, path, source.architecture, lexicon),
            title=f"{path.name} as a run",
            tensors=accounts.told(),
        ),
        card=f"# {path.name}\n\nImported from a Hugging Face folder ({source.architecture}).\n",
    )


def kept_files(folder: Path) -> list[str]:
    names = (CONFIG, *FILES, MODULES, POOLING, LENGTHS)
    return [name for name in names if (folder / name).is_file()]


def settings_from(source: Source, lexicon: Lexicon) -> Config:
    """Every setting of the run: of the model, of its vocabulary, and of what it is for."""
    given, layout = source.given, source.layout
    try:
        model = {**layout.settings(given), **layout.fixed}
    except KeyError as missing:
        raise ExchangeError(
            f"{source.folder / CONFIG} does not say {missing}.",
            "Take the folder from where it was whole.",
        ) from None
    model["vocab_size"] = lexicon.tokenizers[1].vocab_size
    if model["tie"] == "output":
        model["source_vocab_size"] = lexicon.tokenizers[0].vocab_size
    task = "pretraining" if source.use == "vectors" else source.use
    reach = model["max_positions"]
    more: Given = {"data": {"window": reach}}
    if task == "classification":
        names = source.labels
        several = given.get("problem_type") == "multi_label_classification"
        model["n_classes"] = len(names)
        more["labels"] = {"names": tuple(names), "several": several}
    if source.use == "vectors":
        model |= {"vectors": True, **pooling(source.folder)}
        longest = json_in(source.folder, LENGTHS).get("max_seq_length") or reach
        more["data"]["max_length"] = longest - 2
    if task == "translation":
        more["decode"] = {"beam": given.get("num_beams", 4), "penalty": "average"}
    method = lexicon.tokenizers[1].vocabulary.method
    shared = lexicon.tokenizers[0] is lexicon.tokenizers[1]
    more |= {"model": model, "tokenizer": {"method": method, "shared": shared}}
    return Config(**decide(task, more))


def pooling(folder: Path) -> Given:
    """How the vectors of tokens become one of the text, as sentence-transformers says."""
    how = json_in(folder, POOLING) or {"pooling_mode_mean_tokens": True}
    modes = [name for name, is_on in how.items() if name.startswith("pooling_mode_") and is_on]
    known = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
    if len(modes) != 1 or modes[0] not in known:
        raise ExchangeError(
            f"{folder / POOLING}: {shown(', '.join(modes))} is a way of pooling that is not known.",
            f"There are: {', '.join(known)}.",
        )
    listed = (folder / MODULES).read_text(encoding="utf-8") if (folder / MODULES).exists() else ""
    return {"pooling": known[modes[0]], "unit_vectors": "Normalize" in listed}


# Tensors


def weight_files(folder: Path) -> list[str]:
    """The safetensors of a model, one or several; pickle is refused."""
    if (folder / WEIGHTS).exists():
        return [WEIGHTS]
    if (folder / INDEX).exists():
        found = json_in(folder, INDEX).get("weight_map")
        names = sorted(set(found.values())) if isinstance(found, dict) else []
        for name in names:
            if not (isinstance(name, str) and SHARD.fullmatch(name)):
                raise ExchangeError(
                    f"{folder / INDEX} names {shown(name)}, which is no file of the folder.",
                    "Take the folder from where it was whole.",
                )
        return names
    if (folder / PICKLE).exists():
        raise ExchangeError(
            f"{folder / PICKLE} is a pickle, which can run any program when it is read.",
            "Have it written as safetensors where you trust it: AutoModel….from_pretrained(FOLDER)"
            ".save_pretrained(OTHER) of transformers, and bring in OTHER.",
        )
    raise ExchangeError(f"{folder} holds no {WEIGHTS}.", "Take the folder from where it was whole.")


def described(folder: Path, files: Iterable[str]) -> dict[str, Spec]:
    """All tensors without their numbers: what is wrong is found before any of them is read."""
    found: dict[str, Spec] = {}
    for name in files:
        with open_inside(folder, name) as file:
            try:
                header = read_header(file)
                n_bytes = os.fstat(file.fileno()).st_size - LENGTH - len(header)
                found |= contents_of(header, n_bytes)
            except ModelFileError as error:
                raise ModelFileError(
                    f"{folder / name}: {error}", "Take the file from where it was whole."
                ) from None
    return found


def theirs_in(folder: Path, files: Iterable[str]) -> Iterator[tuple[str, Tensor]]:
    for name in files:
        yield from read_tensors(folder, name, is_verified=True).items()


def renamed(source: Source, named: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The same under today's names: earlier ones had others, and a model without a head no base."""
    base = f"{source.layout.base}."
    for name, value in named:
        for old, new in OLD_NAMES:
            name = name.replace(old, new)
        yield (
            (base + name if source.use == "vectors" and not name.startswith(base) else name),
            value,
        )


class Conversion:
    """The weights of a model there and here, by the table of their layout."""

    def __init__(self, layout: Layout, model: ModelConfig, lexicon: Lexicon) -> None:
        self.lexicon, self.rows = lexicon, list(layout.rows(model))
        with torch.device("meta"), Undrawn():
            self.ours = tensor_specs(build(model).state_dict())

    def order_of(self, row: Match) -> Order:
        return self.lexicon.orders[0 if row.ours.startswith("source") else 1]

    def shapes(self, row: Match) -> list[tuple[int, ...]]:
        """The shapes that the tensors of a row must have there."""
        whole = self.ours[row.ours].shape
        if row.by_token:
            whole = (self.order_of(row).n_theirs, *whole[1:])
        each = (whole[0] // len(row.theirs), *whole[1:])
        each = each[::-1] if row.transposed else each
        return [(1, *each) if name == LOGITS_BIAS else each for name in row.theirs]

    def taken(self, theirs: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Our weights, made of theirs."""
        for row in self.rows:
            parts = [theirs[name].float() for name in row.theirs]
            whole = torch.cat([part.mT if row.transposed else part for part in parts])
            if row.by_token:
                flat = whole[0] if row.theirs == (LOGITS_BIAS,) else whole
                whole = self.order_of(row).rows(flat)
            yield row.ours, whole.contiguous()
        if self.adds_bias:
            order = self.lexicon.orders[1]
            yield BIAS, order.rows(torch.zeros(order.n_theirs))

    @property
    def adds_bias(self) -> bool:
        """Whether a bias that the layout has not keeps the new special tokens from being said."""
        return BIAS in self.ours and BIAS not in {row.ours for row in self.rows}

    def given(self, ours: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Their weights, made of ours."""
        for row in self.rows:
            whole = ours[row.ours]
            whole = self.order_of(row).given_back(whole) if row.by_token else whole
            shapes = self.shapes(row)
            parts = whole.chunk(len(row.theirs))
            for name, part, shape in zip(row.theirs, parts, shapes, strict=True):
                yield name, (part.mT if row.transposed else part).reshape(shape).contiguous()
        if self.adds_bias and self.lexicon.orders[1].given_back(ours[BIAS]).any():
            raise ExchangeError(
                f"{BIAS} was learned, and the layout has no output bias.",
                "Train without one: --set model.logit_bias=false",
            )


class Accounts:
    """What becomes of each tensor of a source: used, tied, or unused; any other is refused."""

    def __init__(
        self, source: Source, model: ModelConfig, lexicon: Lexicon, found: Mapping[str, Spec]
    ) -> None:
        self.source, self.found = source, dict(renamed(source, found.items()))
        self.check_bytes(model)
        self.conversion = Conversion(source.layout, model, lexicon)
        used = {name for row in self.conversion.rows for name in row.theirs}
        rest = self.found.keys() - used
        self.used = sorted(used & self.found.keys())
        self.tied = sorted(name for name in rest if source.layout.tied.get(name) in used)
        loose = sorted(rest - set(self.tied))
        self.unused = [name for name in loose if source.layout.unused.fullmatch(name)]
        for name in sorted(used - self.found.keys()):
            raise self.refusal(f"{shown(name)} is missing")
        for name in sorted(set(loose) - set(self.unused)):
            raise self.refusal(f"{shown(name)} is no part of {source.architecture}")
        for row in self.conversion.rows:
            self.check_shapes(row)

    def refusal(self, reason: str) -> ExchangeError:
        return ExchangeError(
            f"{self.source.folder}: the tensor {reason}.",
            "Take config.json, the tokenizer and the weights from the same model.",
        )

    def check_bytes(self, model: ModelConfig) -> None:
        """Refuse absurd sizes before anything of that size is made."""
        held = 2 * sum(spec.n_bytes for spec in self.found.values())  # they may be in 16 bits
        if least_bytes(model) > held + 8 * 4 * model.d_model:
            raise ExchangeError(
                f"{self.source.folder / CONFIG} asks for weights of at least "
                f"{least_bytes(model):,} bytes, and there are {held // 2:,}.",
                "Take config.json, the tokenizer and the weights from the same model.",
            )

    def check_shapes(self, row: Match) -> None:
        for name, shape in zip(row.theirs, self.conversion.shapes(row), strict=True):
            spec = self.found[name]
            if spec.shape != shape or spec.dtype not in FLOATS:
                raise self.refusal(f"{name} is {spec}, and the settings ask for {list(shape)}")

    def check_tied(self, tensors: Mapping[str, Tensor]) -> None:
        for name in self.tied:
            first = self.source.layout.tied[name]
            if not torch.equal(tensors[name], tensors[first]):
                raise self.refusal(f"{name} should be the same as {first}")

    def told(self) -> dict[str, list[str]]:
        return {"used": self.used, "tied": self.tied, "unused": self.unused}


# Out


def write_hugging_face(run: Path, into: Path) -> Certificate:
    """Write the model of a run in the layout of Hugging Face that can express it."""
    folder = RunFolder.open(run)
    config, weights = folder.config(), folder.model().state_dict()
    origin = folder.origin()
    origin = origin if origin and is_hugging_face(origin) else None
    plan = outgoing(folder, config, origin)
    model = expressed(config.model, plan.kind)
    conversion = Conversion(plan.layout, model, plan.lexicon)
    tensors = dict(conversion.given(rewritten(weights, config.model, model)))
    if origin and (origin / KEPT).exists():
        found = read_tensors(origin, KEPT, is_verified=True)
        tensors = {**found, **tensors} if plan.is_whole else tensors
    bare = plan.layout.heads[plan.architecture] == "vectors"
    if bare:
        tensors = {
            name.removeprefix(f"{plan.layout.base}."): each for name, each in tensors.items()
        }
    with atomic_folder(into, sum(each.nbytes for each in tensors.values())) as made:
        with atomic_file(made / WEIGHTS) as file:
            write_tensors(file, tensors)
        for name, content in plan.files.items():
            (made / name).parent.mkdir(exist_ok=True)
            (made / name).write_bytes(content)
        certificate = reference.compared(folder, made, plan.architecture, plan.lexicon)
        certificate = replace(certificate, title=f"{folder.path.name} in the layout of {plan.kind}")
        certificate.require()
        certificate.write(made)
    return certificate


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """What an export writes: of which layout, with which tokens, and which small files."""

    kind: str
    architecture: str
    lexicon: Lexicon
    files: Mapping[str, bytes]
    is_whole: bool
    """It is the model that was imported, for the same use: what was kept aside belongs to it."""

    @property
    def layout(self) -> Layout:
        return LAYOUTS[self.kind]


def outgoing(folder: RunFolder, config: Config, origin: Path | None) -> Outgoing:
    """As it came, where the run was imported and still has its tokenizer; else in our order."""
    use = "vectors" if config.model.vectors else config.task
    kind = str(json_in(origin, CONFIG)["model_type"]) if origin else nearest(config.model)
    layout, model = LAYOUTS[kind], expressed(config.model, kind)
    check_fits(folder, model, kind)
    architecture = next((name for name, what in layout.heads.items() if what == use), "")
    if not architecture:
        raise ExchangeError(
            f"{folder.path}: the layout of {kind} has no model for {use}.",
            f"It has: {', '.join(layout.heads.values())}.",
        )
    tokenizers = folder.tokenizers()
    if origin:
        source, lexicon = source_in(origin), read_lexicon(origin, kind)
        architecture = source.architecture if source.use == use else architecture
        given, is_whole = {**source.given, "architectures": [architecture]}, source.use == use
        files = {name: read_inside(origin, name, MAX_FILE) for name in kept_files(origin)}
    else:
        lexicon, is_whole = native_lexicon(tokenizers), True
        given = {"architectures": [architecture], **layout.config(model), **special_ids(model)}
        given["vocab_size"] = tokenizers[1].vocab_size
        files = native_files(tokenizers, reads=model.reads)
    if config.labels.names:
        names = enumerate(config.labels.names)
        given["id2label"] = {str(number): name for number, name in names}
        given["label2id"] = {name: int(number) for number, name in given["id2label"].items()}
    files |= {CONFIG: json.dumps(given, ensure_ascii=False, indent=2).encode()}
    return Outgoing(
        kind=kind, architecture=architecture, lexicon=lexicon, files=files, is_whole=is_whole
    )


def nearest(model: ModelConfig) -> str:
    return {"encoder": "bert", "decoder": "gpt2", "encoder-decoder": "marian"}[model.family]


def check_fits(folder: RunFolder, model: ModelConfig, kind: str) -> None:
    """Refuse a model that the layout cannot express, naming each setting."""
    layout = LAYOUTS[kind]
    settings = layout.fixed | {"n_grams": 0} | (layout.classes if model.n_classes else {})
    others = [
        f"model.{name} = {getattr(model, name)} (there: {only})"
        for name, only in settings.items()
        if getattr(model, name) != only and name not in ("logit_bias", "tie")
    ]
    if others:
        raise ExchangeError(
            f"{folder.path} cannot be written in the layout of {kind}: {', '.join(others)}.",
            "Export it to ctranslate2 or onnx, or train with those settings.",
        )
