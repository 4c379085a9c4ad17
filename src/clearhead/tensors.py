"""Tensors in the safetensors format, written as a stream and read without trust.

We write it ourselves because a failed write must keep the system's reason, and read it ourselves
because nothing may be allocated, or taken for a model's weights, before names, dtypes, shapes and
sizes have been checked.
"""

import hashlib
import json
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.disk import HashedFile, open_inside
from clearhead.errors import ModelFileError, shown

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
CODES = {dtype: code for code, dtype in DTYPES.items()}
MAX_HEADER, MAX_TENSORS, MAX_NAME, MAX_DIMS, MAX_ELEMENTS = 8 * 2**20, 20_000, 256, 8, 2**40
LENGTH = 8
"""Bytes at the start of a file that say how long its header is."""
SEAL, BLANK = '{"__metadata__":{"sha256":"', "0" * 64
"""A sealed file carries its own SHA-256: that of itself with zeros in the place of the hash."""

assert sys.byteorder == "little", (
    "safetensors are little-endian, and tensors are written as they lie in memory"
)


@dataclass(frozen=True)
class Spec:
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} {list(self.shape)}"


def tensor_specs(tensors: Mapping[str, Tensor]) -> dict[str, Spec]:
    """The dtypes and shapes of tensors, in the order of a file.

    The widest numbers come first, so that each begins at a multiple of its width, as fast readers
    wish.
    """
    found = {name: Spec(tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}
    return dict(sorted(found.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))


def tensor_bytes(
    arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> bytes:
    """A whole file in memory, serialised from numpy arrays, with what else its header should say."""
    file = BytesIO()
    tensors = {
        name: torch.from_numpy(np.require(array, requirements=["C", "W"]))
        for name, array in arrays.items()
    }
    contents = tensor_specs(tensors)
    file.write(preamble(header_of(contents, metadata or {})))
    for name in contents:
        file.write(raw(tensors[name]))
    return file.getvalue()


def write_tensors(file: HashedFile, tensors: Mapping[str, Tensor], seal: bool = False) -> None:
    """Write one tensor after the other, so that no second copy of all of them is in memory."""
    contents = tensor_specs(tensors)
    file.write(preamble(header_of(contents, {"sha256": BLANK} if seal else {})))
    for name in contents:
        file.write(raw(tensors[name].detach().cpu().contiguous()))
    if seal:
        file.file.seek(LENGTH + len(SEAL))
        file.file.write(file.sha256.hexdigest().encode())


def preamble(header: str) -> bytes:
    """The beginning of a file: how long its header is, and the header."""
    return len(header).to_bytes(LENGTH, "little") + header.encode("ascii")


def header_of(contents: Mapping[str, Spec], metadata: Mapping[str, str]) -> str:
    header: dict[str, Any] = {"__metadata__": {**metadata, "format": "pt"}}
    end = 0
    for name, spec in contents.items():
        begin, end = end, end + spec.n_bytes
        header[name] = {
            "dtype": CODES[spec.dtype],
            "shape": list(spec.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":"))
    return text + " " * (-len(text) % LENGTH)


def raw(tensor: Tensor) -> memoryview:
    # without numbers there is nothing that torch could take for bytes
    return (
        tensor.reshape(-1).view(torch.uint8).numpy().data
        if tensor.numel()
        else memoryview(bytearray())
    )


def read_tensors(
    folder: Path,
    name: str,
    *,
    sha256: str | None = None,
    is_verified: bool = False,
    expected: Mapping[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """The tensors of a file, if it has this SHA-256 (or that of its seal, if none is given).

    A file that `is_verified` already is not hashed again. Where some tensors are `expected`, those
    found must have their names, dtypes and shapes.
    """
    with open_inside(folder, name) as file:
        try:
            header = read_header(file)
            contents = contents_of(header, os.fstat(file.fileno()).st_size - LENGTH - len(header))
            if expected is not None:
                check_same(contents, tensor_specs(expected))
            if is_verified:
                return read_data(file, contents, None)
            if sha256 is None:
                sha256, header = unsealed(header)
            digest = hashlib.sha256(preamble(header))
            tensors = read_data(file, contents, digest)
            if digest.hexdigest() != sha256:
                raise ModelFileError(
                    f"damaged: its SHA-256 is {digest.hexdigest()}, "
                    f"and not {shown(sha256)} as when written."
                )
            return tensors
        except ModelFileError as error:
            raise ModelFileError(f"{folder / name}: {error}", "Copy the file again.") from None


def read_header(file: BufferedReader) -> str:
    length = int.from_bytes(file.read(LENGTH), "little")
    if length > MAX_HEADER:
        raise ModelFileError(
            f"a header of {length:,} bytes; no model needs more than {MAX_HEADER:,}."
        )
    header = file.read(length)
    if len(header) < length or not header.isascii() or not header.startswith(b"{"):
        raise ModelFileError(f"its first {length:,} bytes are not a header.")
    return header.decode("ascii")


def contents_of(header: str, n_bytes: int) -> dict[str, Spec]:
    """What a header describes, in the order of the file, the rest of which it must fill exactly."""
    most = {"{": 1, "[": 2, ",": MAX_DIMS + 5}
    if any(header.count(mark) > n * MAX_TENSORS + 2 for mark, n in most.items()):
        # counted before Python makes an object of each
        raise ModelFileError(f"a header of more than {MAX_TENSORS:,} tensors.")
    try:
        fields = json.loads(header, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the header is not JSON: {shown(str(error))}.") from None
    fields.pop("__metadata__", None)
    contents = {name: described_tensor(name, field) for name, field in fields.items()}
    contents = dict(sorted(contents.items(), key=lambda item: fields[item[0]]["data_offsets"]))
    end = 0
    for name, spec in contents.items():
        begin, end = end, end + spec.n_bytes
        if fields[name]["data_offsets"] != [begin, end]:
            raise ModelFileError(f"{shown(name)} does not lie where the one before it ends.")
    if end != n_bytes:
        raise ModelFileError(f"{n_bytes:,} bytes of tensors where the header describes {end:,}.")
    return contents


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, if it has no name twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands in it twice")
    return found


def described_tensor(name: str, field: Any) -> Spec:
    match field:
        case {"dtype": str(code), "shape": [*shape], "data_offsets": [int(), int()], **rest} if (
            not rest
            and code in DTYPES
            and len(name) <= MAX_NAME
            and len(shape) <= MAX_DIMS
            and all(type(n) is int and n >= 0 for n in shape)
            and math.prod(max(n, 1) for n in shape) <= MAX_ELEMENTS
        ):
            return Spec(DTYPES[code], tuple(shape))
    raise ModelFileError(
        f"{shown(name[:MAX_NAME])} is described as {shown(field)}, which is no tensor of a model."
    )


def check_same(found: Mapping[str, Spec], expected: Mapping[str, Spec]) -> None:
    """Refuse the weights of another model."""
    for name in sorted(expected.keys() | found.keys()):
        if found.get(name) != expected.get(name):
            raise ModelFileError(
                f"weights of another model: {shown(name)} is {found.get(name, 'nothing')}, "
                f"and the settings ask for {expected.get(name, 'nothing')}."
            )


def unsealed(header: str) -> tuple[str, str]:
    """The hash that a file carries, and the header as it was when the hash was taken."""
    end = len(SEAL) + len(BLANK)
    if not header.startswith(SEAL):
        raise ModelFileError(
            "the file carries no hash of itself, so it was not written by clearhead."
        )
    return header[len(SEAL) : end], SEAL + BLANK + header[end:]


def read_data(
    file: BufferedReader, contents: Mapping[str, Spec], digest: "hashlib._Hash | None"
) -> dict[str, Tensor]:
    """The tensors themselves, taken into a digest on their way into memory of their own."""
    tensors = {}
    for name, spec in contents.items():
        tensors[name] = torch.empty(spec.shape, dtype=spec.dtype)
        memory = raw(tensors[name])
        if file.readinto(memory) != len(memory):
            raise ModelFileError(f"the file ended while {shown(name)} was read.")
        if digest:
            digest.update(memory)
    return tensors
