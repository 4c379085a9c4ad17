"""CTranslate2's model.bin, read without trust: every size is checked before anything is read."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from clearhead.disk import open_inside
from clearhead.errors import ModelFileError, shown
from clearhead.tensors import Spec, read_data

MODEL = "model.bin"
VERSIONS = range(4, 7)
"""Of the file format; all of them are read alike."""
DTYPES = (
    torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16,
)  # fmt: skip
"""The types of numbers, in the order of the format's codes."""
WITH_CONFIG = 6
"""From this version on, a config.json tells about the tokens; earlier files say it themselves."""
OLD_NAMES = {
    "encoder/embeddings/": "encoder/embeddings_0/",
    "embeddings_0/multiply_by_sqrt_depth": "scale_embeddings",
    "embeddings/multiply_by_sqrt_depth": "scale_embeddings",
}
"""What parts of names were called earlier, and are called now."""
MAX_VARIABLES, MAX_RANK = 100_000, 4
SCALE = "_scale"
"""How the name of a rounded weight's scale ends."""


@dataclass(frozen=True)
class Variable(Spec):
    """A tensor of the file, whose numbers start at this byte."""

    start: int


@dataclass(frozen=True)
class ModelBin:
    """What a model.bin holds, by name; the numbers are read when they are asked for."""

    path: Path
    version: int
    kind: str
    """The name of its specification: TransformerSpec, TransformerDecoderSpec …"""
    variables: dict[str, Variable]
    aliases: dict[str, str]
    """Names under which a variable stands a second time."""

    def variable(self, name: str) -> Variable | None:
        return self.variables.get(self.first(name))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a weight, which has rows and columns."""
        found = self.variable(name)
        if found is None or len(found.shape) != 2:
            raise damaged_model(self.path, f"has no matrix {name}")
        return found.shape

    def first(self, name: str) -> str:
        """The name that a weight, or its scale, really stands under."""
        weight = name.removesuffix(SCALE)
        if weight in self.aliases and name not in self.variables:
            return self.aliases[weight] + name[len(weight) :]
        return self.aliases.get(name, name)

    def number(self, name: str, default: int | None = None) -> int:
        """A scalar setting; earlier, encoder and decoder had them together."""
        found = self.variable(name) or self.variable(name.rpartition("/")[2])
        if found is None and default is not None:
            return default
        if found is None or found.shape or found.dtype.is_floating_point:
            raise damaged_model(self.path, f"has no number {name}")
        return int(self.numbers(found).item())

    def text(self, name: str, default: str) -> str:
        """A setting in words."""
        found = self.variable(name)
        if found is None:
            return default
        content = bytes(self.numbers(found).to(torch.uint8).flatten().tolist())
        return content.decode(errors="replace")

    def weight(self, name: str) -> Tensor:
        """A weight in float32; one that was rounded is divided by its scale."""
        found, scale = self.variable(name), self.variable(name + SCALE)
        if found is None:
            raise damaged_model(self.path, f"lacks {name}")
        values = self.numbers(found).float()
        if found.dtype.is_floating_point:
            return values
        if (
            scale is None
            or scale.dtype != torch.float32
            or scale.shape not in ((), found.shape[:1])
        ):
            raise damaged_model(self.path, f"has no scale for {name}")
        return values / self.numbers(scale).reshape(-1, *(1,) * (values.dim() - 1))

    def numbers(self, variable: Variable) -> Tensor:
        with open_inside(self.path.parent, self.path.name) as file:
            file.seek(variable.start)
            return read_data(file, {MODEL: variable}, None)[MODEL]


def read_model_bin(folder: Path) -> ModelBin:
    """The table of contents of a folder's model.bin."""
    path = folder / MODEL
    with open_inside(folder, MODEL) as file:
        contents = Contents(file, path)
        (version,) = contents.numbers("<I")
        if version not in VERSIONS:
            raise damaged_model(path, f"is of version {version}, and 4 to 6 are known")
        kind, _ = contents.text(), contents.numbers("<I")
        variables = dict(contents.variable() for _ in range(contents.count("variables")))
        aliases = {contents.text(): contents.text() for _ in range(contents.count("aliases"))}
    if lost := [name for name in aliases.values() if name not in variables]:
        raise damaged_model(path, f"points to {shown(lost[0])}, which it lacks")
    return ModelBin(path, version, kind, variables, aliases)


class Contents:
    """A model.bin that is read from its beginning, the numbers of its variables passed over."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path, self.size = file, path, file.seek(0, 2)
        file.seek(0)

    def read(self, n: int) -> bytes:
        content = self.file.read(n)
        if len(content) < n:
            raise damaged_model(self.path, "is cut off")
        return content

    def numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self.read(struct.calcsize(form)))

    def count(self, what: str) -> int:
        """How many there are, if it can be believed."""
        (found,) = self.numbers("<I")
        if found > MAX_VARIABLES:
            raise damaged_model(self.path, f"says that it has {found:,} {what}")
        return found

    def text(self) -> str:
        """A string with its length before it and a zero after it, names as they are called now."""
        (length,) = self.numbers("<H")
        content = self.read(length)
        if not content.endswith(b"\0"):
            raise damaged_model(self.path, "is cut off")
        found = content[:-1].decode(errors="replace")
        for old, new in OLD_NAMES.items():
            found = found.replace(old, new)
        return found

    def variable(self) -> tuple[str, Variable]:
        """The next variable by its name."""
        name, (rank,) = self.text(), self.numbers("<B")
        if rank > MAX_RANK:
            raise damaged_model(self.path, f"has {shown(name)} in {rank} dimensions")
        shape = self.numbers(f"<{rank}I")
        code, n_bytes = self.numbers("<BI")
        is_known = code < len(DTYPES)
        found = Variable(DTYPES[code if is_known else 0], shape, self.file.tell())
        if not is_known or found.n_bytes != n_bytes or found.start + n_bytes > self.size:
            raise damaged_model(
                self.path,
                f"has {shown(name)} of type {code}, shape {list(shape)} and {n_bytes:,} bytes, "
                f"of which {max(0, self.size - found.start):,} are there",
            )
        self.file.seek(n_bytes, 1)
        return name, found


def damaged_model(path: Path, what: str) -> ModelFileError:
    return ModelFileError(
        f"{path} {what}.", "Take the file from where it was whole, or convert the model anew."
    )
