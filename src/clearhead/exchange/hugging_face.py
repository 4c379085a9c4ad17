"""Models in the layouts of Hugging Face, brought in by tables and without their code.

Every tensor of a source is used, is another one's twin (tied), or takes no part and is kept aside by
name; any other is refused.
"""

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from clearhead.config import Config, Given, ModelConfig
from clearhead.disk import open_inside, read_inside
from clearhead.errors import ExchangeError, ModelFileError, shown
from clearhead.exchange.certificate import (
    SAMPLE,
    Beside,
    Certificate,
    forward_both,
    largest_difference,
    our_forward,
    read_and_written,
    same_tokens,
    teacher_forced,
)
from clearhead.exchange.foreign import (
    FILES,
    LENGTHS,
    N_SPECIAL,
    POOLING,
    Foreign,
    Lexicon,
    json_in,
    read_lexicon,
)
from clearhead.exchange.layouts import LAYOUTS, Conversion, Layout
from clearhead.folder.run import RunFolder, bytes_in, least_bytes
from clearhead.tasks.task import decide
from clearhead.tensors import (
    LENGTH,
    Spec,
    contents_of,
    read_header,
    read_tensors,
    tensor_bytes,
)
from clearhead.text import END

CONFIG, MODULES, PICKLE = "config.json", "modules.json", "pytorch_model.bin"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
KEPT = "unused.safetensors"
"""Tensors of the source that take no part, kept so that an export can give them back."""
SHARD = re.compile(r"[\w-][\w.-]{0,100}\.safetensors")
MAX_FILE = 2**26
PACKAGE = "transformers"
"""What runs the other model, for the certificate, where it is installed."""
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
OLD_NAMES = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))
WHOLE_FOLDER = "Take the folder from where it was whole."
SAME_MODEL = "Take config.json, the tokenizer and the weights from the same model."


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
    def files(self) -> dict[str, bytes]:
        """The small files that an export gives back as they came."""
        names = (CONFIG, *FILES, MODULES, POOLING, LENGTHS)
        there = [name for name in names if (self.folder / name).is_file()]
        return {name: read_inside(self.folder, name, MAX_FILE) for name in there}

    @property
    def kept(self) -> dict[str, Tensor]:
        """The unused tensors that an export gives back, where a run keeps the source."""
        is_there = (self.folder / KEPT).exists()
        return read_tensors(self.folder, KEPT, is_verified=True) if is_there else {}

    def full_name(self, name: str) -> str:
        """The name of a tensor as it is today, with the base that a model without a head omits."""
        for old, new in OLD_NAMES:
            name = name.replace(old, new)
        base = f"{self.layout.base}."
        return base + name if self.use == "vectors" and not name.startswith(base) else name

    def refusal(self, reason: str) -> ExchangeError:
        return ExchangeError(f"{self.folder}: the tensor {reason}.", SAME_MODEL)


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
    # what is wrong is found before any tensor is read
    found = {source.full_name(name): spec for name, spec in described(path, files).items()}
    refuse_absurd(source, config.model, found)
    conversion = Conversion(source.layout, config.model, lexicon)
    fates = fates_of(source, conversion, found)
    tensors = {
        source.full_name(name): tensor
        for file in files
        for name, tensor in read_tensors(path, file, is_verified=True).items()
    }
    for name in fates["tied"]:
        first = source.layout.tied[name]
        if not torch.equal(tensors[name], tensors[first]):
            raise source.refusal(f"{name} should be the same as {first}")
    origin = source.files
    if fates["unused"]:
        origin[KEPT] = tensor_bytes({name: tensors[name].numpy() for name in fates["unused"]})
    title = f"{path.name} as a run"
    return Foreign(
        config=config,
        tokenizers=lexicon.tokenizers,
        weights=dict(conversion.taken(tensors)),
        origin=origin,
        certify=lambda run: certify_folder(
            run, path, source.architecture, lexicon, title=title, tensors=fates
        ),
        card=f"# {path.name}\n\nImported from a Hugging Face folder ({source.architecture}).\n",
    )


def settings_from(source: Source, lexicon: Lexicon) -> Config:
    """Every setting of the run: of the model, of its vocabulary, and of what it is for."""
    given, layout = source.given, source.layout
    try:
        model = {**layout.settings(given), **layout.fixed}
    except KeyError as missing:
        raise ExchangeError(
            f"{source.folder / CONFIG} does not say {missing}.",
            WHOLE_FOLDER,
        ) from None
    model["vocab_size"] = lexicon.tokenizers[1].vocab_size
    if model["tie"] == "output":
        model["source_vocab_size"] = lexicon.tokenizers[0].vocab_size
    task = "pretraining" if source.use == "vectors" else source.use
    reach = model["max_positions"]
    more: Given = {"data": {"window": reach}}
    if task == "classification":
        labels = given.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
        several = given.get("problem_type") == "multi_label_classification"
        model["n_classes"] = len(labels)
        names = tuple(str(labels[number]) for number in sorted(labels, key=int))
        more["labels"] = {"names": names, "several": several}
    if source.use == "vectors":
        model |= {"vectors": True, **pooling(source.folder)}
        longest = json_in(source.folder, LENGTHS).get("max_seq_length") or reach
        more["data"]["max_length"] = longest - 2
    if task == "translation":
        more["decode"] = {"beam": given.get("num_beams", 4), "penalty": "average"}
    more |= {"model": model, "tokenizer": lexicon.settings}
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
                    WHOLE_FOLDER,
                )
        return names
    if (folder / PICKLE).exists():
        raise ExchangeError(
            f"{folder / PICKLE} is a pickle, which can run any program when it is read.",
            "Have it written as safetensors where you trust it: AutoModel….from_pretrained(FOLDER)"
            ".save_pretrained(OTHER) of transformers, and bring in OTHER.",
        )
    raise ExchangeError(f"{folder} holds no {WEIGHTS}.", WHOLE_FOLDER)


def described(folder: Path, files: Sequence[str]) -> dict[str, Spec]:
    """The type and shape of all tensors, which are not read yet."""
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


def refuse_absurd(source: Source, model: ModelConfig, found: Mapping[str, Spec]) -> None:
    """Refuse absurd sizes before anything of that size is made."""
    held = 2 * sum(spec.n_bytes for spec in found.values())  # they may be in 16 bits
    if least_bytes(model) > held + 8 * 4 * model.d_model:
        raise ExchangeError(
            f"{source.folder / CONFIG} asks for weights of at least {least_bytes(model):,} bytes, "
            f"and there are {held // 2:,}.",
            SAME_MODEL,
        )


def fates_of(
    source: Source, conversion: Conversion, found: Mapping[str, Spec]
) -> dict[str, list[str]]:
    """What becomes of each tensor of a source: used, tied, or unused; any other is refused."""
    layout, shapes = source.layout, conversion.theirs
    used, rest = sorted(found.keys() & shapes.keys()), sorted(found.keys() - shapes.keys())
    tied = [name for name in rest if layout.tied.get(name) in shapes]
    loose = [name for name in rest if name not in tied]
    unused = [name for name in loose if layout.unused.fullmatch(name)]
    for name in sorted(shapes.keys() - found.keys()):
        raise source.refusal(f"{shown(name)} is missing")
    for name in loose:
        if name not in unused:
            raise source.refusal(f"{shown(name)} is no part of {source.architecture}")
    for name, shape in shapes.items():
        if found[name].shape != shape or found[name].dtype not in FLOATS:
            asked = f"and the settings ask for {list(shape)}"
            raise source.refusal(f"{name} is {found[name]}, {asked}")
    return {"used": used, "tied": tied, "unused": unused}


# The certificate


def certify_folder(
    run: RunFolder,
    folder: Path,
    architecture: str,
    lexicon: Lexicon,
    *,
    title: str,
    tensors: Mapping[str, Sequence[str]] | None = None,
) -> Certificate:
    """A sample through a run and through a Hugging Face folder that should hold the same model.

    `tensors` tells what became of each tensor of the folder.
    """
    sizes = {"bytes on disk": Beside(ours=run.size(), theirs=bytes_in(folder))}
    if find_spec(PACKAGE) is None:
        return Certificate(
            title=title,
            other="nothing: transformers is not installed",
            n_texts=0,
            scores=sizes,
            tensors=tensors or {},
            notes=("every tensor is accounted for by name and shape; no sample was run",),
        )
    model, source = run.model(), lexicon.tokenizers[0]
    there = Reference(folder, architecture, lexicon, model.config)

    def ours_of(read: list[int], written: list[int]) -> Tensor:
        found = our_forward(model, read, written)[0]
        return found[..., there.known] if there.by_token else found

    asked = [read_and_written(model, source, text) for text in SAMPLE]
    ours, theirs, seconds = forward_both(asked, ours_of, there)
    difference, first = largest_difference(ours, theirs)
    tokens, others = list[list[int]](), list[list[int]]()
    for text, logits, (_, written) in zip(SAMPLE, theirs.values(), asked, strict=True):
        cut = there.tokenizer(text, add_special_tokens=False).input_ids
        tokens.append([*lexicon.orders[0].theirs(source.encode(text)), *written])
        others.append([*cut, *there.likeliest(logits, len(written))])
    same, place = same_tokens(tokens, others)
    return Certificate(
        title=title,
        other=f"{PACKAGE}, {architecture}",
        n_texts=len(SAMPLE),
        logit_difference=difference,
        tokens_same=same,
        first_difference=first or place,
        scores={"seconds": seconds, **sizes},
        tensors=tensors or {},
        packages=(PACKAGE, "tokenizers"),
    )


class Reference:
    """A model as transformers runs it, asked in our ids and answering in our order of tokens."""

    def __init__(
        self, folder: Path, architecture: str, lexicon: Lexicon, config: ModelConfig
    ) -> None:
        import transformers

        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        options = {"local_files_only": True}
        kind = getattr(transformers, architecture)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it recommends packages
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
            self.model = kind.from_pretrained(folder, use_safetensors=True, **options)
        self.model.float().eval()
        self.config, self.by_token = config, not (config.n_classes or config.vectors)
        self.orders, self.known = lexicon.orders, lexicon.orders[1].known

    @torch.inference_mode()
    def __call__(self, read: list[int], written: list[int]) -> Tensor:
        names = ("input_ids", "decoder_input_ids") if self.config.reads else ("", "input_ids")
        both = zip(names, self.orders, teacher_forced(self.config, read, written), strict=True)
        named = {name: torch.tensor([order.theirs(ids)]) for name, order, ids in both if ids}
        answer: Tensor = self.model(**named)[0][0]  # logits, of tokens or classes, or vectors
        return answer[:, self.orders[1].theirs(self.known)] if self.by_token else answer

    def likeliest(self, logits: Tensor, n: int) -> list[int]:
        """What it would have written in the place of the last n tokens: the likeliest, no special
        ones but the end."""
        if not n:
            return []
        may = torch.tensor([token == END or token >= N_SPECIAL for token in self.known])
        best = logits[-n - 1 : -1].masked_fill(~may, -torch.inf).argmax(dim=-1)
        return [self.known[place] for place in best.tolist()]
