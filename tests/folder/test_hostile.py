"""Files from anyone: refused in time, in little memory, with an error of ours, and nothing in them is run."""

import hashlib
import io
import json
import os
import pickle
import resource
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import (
    ClearheadError,
    ConfigError,
    DiskError,
    FolderError,
    ModelFileError,
    TokenizerError,
)
from clearhead.folder import RunFolder

from .conftest import PLAN, checkpoint_of, in_child, same, weights

REFUSALS = (ModelFileError, FolderError, ConfigError, TokenizerError)
SEAL = b'{"__metadata__":{"sha256":"'


def with_header(original: bytes, header: bytes, data: bytes | None = None) -> bytes:
    """The file with another header, sealed anew, as someone who means harm would do."""
    length = int.from_bytes(original[:8], "little")
    data = original[8 + length :] if data is None else data
    content = len(header).to_bytes(8, "little") + header + data
    if not header.startswith(SEAL):
        return content
    begin, end = 8 + len(SEAL), 8 + len(SEAL) + 64
    blank = content[:begin] + b"0" * 64 + content[end:]
    return blank[:begin] + hashlib.sha256(blank).hexdigest().encode() + blank[end:]


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fails when the block waits or computes for longer."""

    def late(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    begin = time.process_time()
    try:
        yield
        assert time.process_time() - begin < seconds
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


NUMBERS = st.one_of(
    st.integers(-9, 99),
    st.sampled_from([2**31, 2**40, 2**63, 2**64, 10**30, -(2**63)]),
    st.floats(),
    st.booleans(),
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        NUMBERS,
        st.text(max_size=9),
        st.sampled_from(["F32", "F64", "U8", "I8", "F4", "BOOL"]),
    ),
    lambda inner: (
        st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=9,
)


@st.composite
def headers(draw: st.DrawFn, original: bytes) -> bytes:
    """A header with something changed: a value, a tensor, or bytes."""
    fields: dict[str, Any] = json.loads(original)
    names = [name for name in fields if name != "__metadata__"]
    match draw(st.sampled_from(["value", "tensor", "more", "less", "moved", "bytes"])):
        case "value":
            fields[draw(st.sampled_from(names))][
                draw(st.sampled_from(["dtype", "shape", "data_offsets"]))
            ] = draw(VALUES)
        case "tensor":
            fields[draw(st.sampled_from([*names, "__metadata__"]))] = draw(VALUES)
        case "more":
            fields[draw(st.text(max_size=300))] = draw(
                st.sampled_from([fields[name] for name in names])
            )
        case "less":
            del fields[draw(st.sampled_from(names))]
        case "moved":
            one, other = draw(st.permutations(names))[:2]
            fields[one], fields[other] = fields[other], fields[one]
        case "bytes":
            at = draw(st.integers(len(SEAL), len(original)))
            return (
                original[:at]
                + draw(st.binary(max_size=9))
                + original[at + draw(st.integers(0, 9)) :]
            )
    return json.dumps(fields, separators=(",", ":")).encode()


@pytest.fixture(scope="module")
def sealed(steady_run: RunFolder) -> bytes:
    """A good file of weights, of a run that also has a checkpoint."""
    steady_run.write_weights(weights(0))
    steady_run.checkpoints.save(*checkpoint_of(1))
    return (steady_run.path / "weights.safetensors").read_bytes()


def check_header(run: RunFolder, sealed: bytes, data: st.DataObject) -> None:
    header = sealed[8 : 8 + int.from_bytes(sealed[:8], "little")]
    (run.path / "weights.safetensors").write_bytes(with_header(sealed, data.draw(headers(header))))
    with within(seconds=1):
        try:
            run.model()
        except REFUSALS as error:
            message = error.whole
        else:
            message = ""  # it says the same in other words, or exchanges tensors of one shape
    assert len(message.splitlines()) <= 3


@settings(max_examples=300)
@given(st.data())
def test_a_changed_header_meets_only_our_errors(steady_run, sealed, data):
    check_header(steady_run, sealed, data)


@pytest.mark.promise(12, "2,000 changed headers of weights")
@pytest.mark.slow
@settings(max_examples=2_000)
@given(st.data())
def test_two_thousand_changed_headers_meet_only_our_errors(steady_run, sealed, data):
    check_header(steady_run, sealed, data)


def tensor(begin: int = 0, end: int = 4, shape: str = "[1]") -> str:
    return f'{{"dtype":"F32","shape":{shape},"data_offsets":[{begin},{end}]}}'


BOMBS = {
    "a header longer than the file": (2**20).to_bytes(8, "little") + b"{}",
    "a header of 2**63 bytes": (2**63).to_bytes(8, "little") + b"{}",
    "an empty file": b"",
    "a short file": b"\x02\x00",
    "a list": b"[]",
    "nothing": b"null",
    "200,000 empty tensors": "{"
    + ",".join(f'"{i}":{tensor(0, 0, "[0]")}' for i in range(200_000))
    + "}",
    "20,000 empty tensors": "{"
    + ",".join(f'"{i}":{tensor(0, 0, "[0]")}' for i in range(20_000))
    + "}",
    "millions of lists": "[" + "[]," * 2_000_000 + "[]]",
    "millions of objects": "[" + "{}," * 2_000_000 + "{}]",
    "millions of numbers": "[" + "1000," * 1_500_000 + "1]",
    "endless brackets": "[" * 8_000_000,
    "endless digits": '{"x":' + "9" * 8_000_000 + "}",
    "a name of megabytes": '{"' + "x" * 8_000_000 + f'":{tensor()}}}',
    "the same name twice": f'{{"x":{tensor()},"x":{tensor()}}}',
    "an overlap": f'{{"x":{tensor()},"y":{tensor()}}}',
    "a hole": f'{{"x":{tensor(4, 8)}}}',
    "a shape whose size overflows": f'{{"x":{tensor(0, 0, "[0,9223372036854775807,9223372036854775807]")}}}',
    "a shape of a billion dimensions": f'{{"x":{tensor(0, 4, "[" + "1," * 2_000_000 + "1]")}}}',
    "too little data": f'{{"x":{tensor(0, 4 * 2**38, f"[{2**38}]")}}}',
}


def bomb(kind: str) -> bytes:
    content = BOMBS[kind]
    if isinstance(content, bytes) and kind not in ("a list", "nothing"):
        return content
    header = content if isinstance(content, bytes) else content.encode()
    return (
        len(header).to_bytes(8, "little")
        + header
        + bytes({"an overlap": 8, "a hole": 4}.get(kind, 0))
    )


@pytest.mark.promise(12, "bombs: under 2 s, under twice their size")
@pytest.mark.parametrize(
    "place", ["weights.safetensors", "checkpoints/00000001/optimizer.safetensors"]
)
@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_is_refused_in_two_seconds_and_in_twice_its_size(run, kind, place):
    """As weights, where the expected names are known, and in a checkpoint, where they are not."""
    run.checkpoints.save(*checkpoint_of(1))
    content = bomb(kind)

    def read() -> None:
        run.model() if place == "weights.safetensors" else run.checkpoints.at(1).tensors(
            "optimizer"
        )

    def act() -> None:
        read()  # all code is in memory now, and what comes is the bomb's
        (run.path / place).write_bytes(content)
        vouch_for(run, content)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with within(seconds=2), suppress(ModelFileError):
            read()
            assert (kind, place[:5]) == ("20,000 empty tensors", "check")
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        assert kind == "20,000 empty tensors" or grown < 2 * len(content) + 2**21, (
            f"{grown:,} for {len(content):,}"
        )

    assert in_child(act) == (0, "")


def vouch_for(run: RunFolder, content: bytes) -> None:
    """A manifest by someone who means harm."""
    path = run.path / "checkpoints/00000001/manifest.json"
    manifest = json.loads(path.read_bytes())
    proof = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest["files"]["optimizer.safetensors"] = proof
    path.write_bytes(json.dumps(manifest, indent=1).encode() + b"\n")


NAMES = [
    "/etc/passwd", "//etc/passwd", "/dev/zero", "/dev/stdin", "/proc/self/mem", "../config.toml", "../../config.toml",
    "../00000002/state.json", "..", ".", "", "./state.json", "a/../state.json", "a/b.json", "a\\b.json",
    "..\\state.json",
    "C:\\weights.json", "C:weights.json", "\\\\host\\share\\x.json", "file:///etc/passwd", "http://localhost/x.json",
    "~/x.json", "~root/x.json", "$HOME/x.json", "${HOME}.json", "`id`.json", "x\x00.json", "x.json\x00.safetensors",
    "x\n.json", "x.json\n", " x.json", "x.json ", "-x.json", ".hidden.json", "x.pkl", "x.pt", "x.JSON", "ｘ.json",
    "..%2fx.json", "x" * 200 + ".json", "manifest.json/", "\u2025/x.json",
]  # fmt: skip


@pytest.mark.promise(13, "42 names: all refused")
@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_names_no_file_outside_its_folder(run, name):
    run.checkpoints.save(*checkpoint_of(1))
    path = run.path / "checkpoints/00000001/manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["files"][name] = manifest["files"]["state.json"]
    path.write_bytes(json.dumps(manifest, indent=1).encode() + b"\n")
    with within(seconds=1), pytest.raises(FolderError, match="manifest"):
        run.checkpoints.newest()


def link_out(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def link_to_folder(path: Path, outside: Path) -> None:
    path.symlink_to(outside.parent)


def link_up(path: Path, outside: Path) -> None:
    path.symlink_to(os.path.relpath(outside, path.parent))


def link_to_zeros(path: Path, outside: Path) -> None:
    path.symlink_to("/dev/zero")


def ring(path: Path, outside: Path) -> None:
    path.symlink_to(path.name)


def dangling(path: Path, outside: Path) -> None:
    path.symlink_to("nowhere")


def fifo(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def folder(path: Path, outside: Path) -> None:
    path.mkdir()


def listening(path: Path, outside: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # a socket's path must be short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(before)


TRAPS = [link_out, link_to_folder, link_up, link_to_zeros, ring, dangling, fifo, folder, listening]
FILES = ["config.toml", "tokenizer.json", "weights.safetensors", "metrics.jsonl", "plan.json"] + [
    f"checkpoints/00000001/{name}"
    for name in ("manifest.json", "state.json", "weights.safetensors")
]


@pytest.mark.promise(13, "links, devices, pipes: refused")
@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("name", FILES)
def test_nothing_but_a_regular_file_of_the_folder_is_opened(run, tmp_path, name, trap):
    """Even when what lies outside is the very file that belongs there."""
    run.checkpoints.save(*checkpoint_of(1))
    run.log.write({"step": 1})
    run.write_plan(PLAN)
    path, outside = run.path / name, tmp_path / "outside"
    path.rename(outside)
    trap(path, outside)
    with within(seconds=2):
        problems = run.problems()
    assert any(path.name in problem for problem in problems)


def test_checkpoints_that_lie_elsewhere_are_neither_read_nor_written(run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (run.path / "checkpoints").symlink_to(tmp_path / "elsewhere")
    victim = tmp_path / "elsewhere/00000001"
    victim.mkdir()
    (tmp_path / "elsewhere/00000001.tmp-999999999").mkdir()
    for act in (
        lambda: run.checkpoints.save(*checkpoint_of(1)),
        lambda: run.checkpoints.prune(2, None),
    ):
        with pytest.raises(FolderError, match="is a link"):
            act()
    with run.lock():
        pass
    assert len(list((tmp_path / "elsewhere").iterdir())) == 2
    assert any("is a link" in problem for problem in run.problems())


def test_a_log_that_is_a_link_is_not_followed(run, tmp_path):
    (tmp_path / "outside").write_text("precious")
    run.log.path.symlink_to(tmp_path / "outside")
    with pytest.raises(DiskError):
        run.log.write({"step": 1})
    assert (tmp_path / "outside").read_text() == "precious"


def test_links_within_the_folder_are_followed(run):
    run.checkpoints.save(*checkpoint_of(1))
    path = run.path / "weights.safetensors"
    path.rename(run.path / "best.safetensors")
    path.symlink_to("best.safetensors")
    assert same(run.model().state_dict(), weights(0))


def test_a_run_may_be_reached_through_a_link(run, tmp_path):
    (tmp_path / "latest").symlink_to(run.path)
    assert RunFolder.open(tmp_path / "latest").problems() == []


class Canary:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.path), "w"))


@pytest.mark.promise(11, "two pickles in the place of every file: refused, never run")
@pytest.mark.parametrize("name", FILES)
def test_a_pickle_in_any_place_is_refused_and_never_run(run, tmp_path, name):
    canary = tmp_path / "canary"
    run.checkpoints.save(*checkpoint_of(1))
    run.log.write({"step": 1})
    zipped = io.BytesIO()
    torch.save(Canary(canary), zipped)
    for payload in (pickle.dumps(Canary(canary)) + b"\n", zipped.getvalue() + b"\n"):
        (run.path / name).write_bytes(payload)
        assert run.problems()
        assert not canary.exists()


@settings(max_examples=60)
@given(st.sampled_from(FILES), st.binary(max_size=400))
def test_any_bytes_in_any_place_meet_only_our_errors(steady_run, sealed, name, content):
    copy = steady_run.path.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(steady_run.path, copy)
    (copy / "weights.safetensors").write_bytes(sealed)
    (copy / name).write_bytes(content)
    with within(seconds=2):
        problems = RunFolder(copy).problems()
    assert problems or name == "metrics.jsonl"
    assert all(len(problem.splitlines()) <= 3 for problem in problems)


def test_a_flipped_bit_in_the_weights_is_never_loaded(run):
    path = run.path / "weights.safetensors"
    original = path.read_bytes()
    for at in range(0, len(original), max(1, len(original) // 100)):
        path.write_bytes(original[:at] + bytes([original[at] ^ 1 << at % 8]) + original[at + 1 :])
        with pytest.raises(ClearheadError):
            run.model()
