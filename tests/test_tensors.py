"""Others read what is written here as safetensors, and the other way round.

Hostile files are tried in tests/folder.
"""

import hashlib
import os
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from clearhead import tensors
from clearhead.disk import atomic_file
from clearhead.errors import ModelFileError
from clearhead.tensors import DTYPES, read_tensors, tensor_bytes, write_tensors

TENSORS = {
    f"{code} {list(shape)}": torch.arange(6)[: int(np.prod(shape))].reshape(shape).to(dtype)
    for code, dtype in DTYPES.items()
    for shape in ((), (0,), (6,), (2, 3))
}


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, name
        assert found[name].shape == tensor.shape, name
        assert (found[name] == tensor).all(), name


@pytest.mark.parametrize("seal", [False, True])
def test_the_reference_implementation_reads_what_we_write(tmp_path, seal):
    with atomic_file(tmp_path / "a") as file:
        write_tensors(file, TENSORS, seal=seal)
    same(safetensors.torch.load_file(tmp_path / "a"), TENSORS)
    sha256 = None if seal else file.sha256.hexdigest()
    same(read_tensors(tmp_path, "a", sha256=sha256, expected=TENSORS), TENSORS)
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~umask


def test_we_read_what_the_reference_implementation_writes(tmp_path):
    content = safetensors.torch.save(TENSORS)
    (tmp_path / "a").write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    same(read_tensors(tmp_path, "a", sha256=sha256), TENSORS)


def test_arrays_of_numpy_become_bytes_whatever_their_layout():
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    fixed = values.copy()
    fixed.flags.writeable = False
    arrays = {"a": values.T, "b": values[:, ::2], "c": fixed, "d": values.astype(np.float16)}
    same(safetensors.numpy.load(tensor_bytes(arrays)), arrays)


def test_a_changed_byte_is_found(tmp_path):
    with atomic_file(tmp_path / "a") as file:
        write_tensors(file, {"x": torch.ones(3)}, seal=True)
    content = bytearray((tmp_path / "a").read_bytes())
    content[-1] ^= 1
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged: its SHA-256"):
        read_tensors(tmp_path, "a")


def test_the_package_of_that_name_is_needed_by_tests_alone():
    source = Path(tensors.__file__).parent
    imports = re.compile(r"^\s*(import|from) safetensors", re.MULTILINE)
    assert not [path for path in source.rglob("*.py") if imports.search(path.read_text("utf-8"))]
