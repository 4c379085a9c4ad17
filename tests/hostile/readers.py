"""The readers of files that may come from anywhere: whole files to begin with, and bytes that are nearly files."""

import struct
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import torch

from clearhead.config import TokenizerConfig
from clearhead.data import examples
from clearhead.errors import ClearheadError
from clearhead.exchange.ct2_file import MODEL, read_model_bin
from clearhead.tensors import read_tensors, tensor_bytes
from clearhead.text import Tokenizer

PLACE = tempfile.TemporaryDirectory()
"""Where a reader finds the bytes as a file."""
TABLES: list[tuple[str, Callable[..., Iterable[object]]]] = [
    ("x.tsv", examples.pairs),
    ("x.csv", examples.pairs),
    ("x.jsonl", examples.pairs),
    ("x.tsv", examples.labelled),
    ("x.csv", examples.labelled),
    ("x.jsonl", examples.labelled),
    ("x.jsonl", examples.conversations),
    ("x.jsonl", examples.running_text),
]
"""Files of examples and what reads them; the first byte of an input chooses."""


def written(name: str, content: bytes) -> Path:
    path = Path(PLACE.name, name)
    path.write_bytes(content)
    return path


def read_safetensors(content: bytes) -> None:
    path = written("x.safetensors", content)
    read_tensors(path.parent, path.name, is_verified=True)


def read_tokenizer(content: bytes) -> None:
    tokenizer = Tokenizer.from_json(content)
    tokenizer.decode(tokenizer.encode("the cat sees\na dog ."))


def read_table(content: bytes) -> None:
    name, read = TABLES[(content[0] if content else 0) % len(TABLES)]
    for _ in read(written(name, content[1:])):
        pass


def read_ctranslate2(content: bytes) -> None:
    held = read_model_bin(written(MODEL, content).parent)
    for name in (*held.variables, *held.aliases):
        held.weight(name)


def safetensors_seeds() -> list[bytes]:
    tensors = {"a.weight": torch.ones(2, 3), "a.bias": torch.zeros(2, dtype=torch.int8)}
    return [tensor_bytes(tensors), tensor_bytes({})]


def tokenizer_seeds() -> list[bytes]:
    methods = ("bpe", "bytes", "words", "characters")
    text = ["the cat sees a dog ."] * 3
    learned = (Tokenizer.learn(text, TokenizerConfig(method=m, vocab_size=300)) for m in methods)
    return [each.json.encode() for each in learned]


def table_seeds() -> list[bytes]:
    contents = [b'a\tb\n"c"\td\n', b'en,de\na,"b\nc"\nd,e\n', b'{"source": "a", "target": ["b"]}\n']
    talk = b'{"turns": [{"role": "user", "content": "a"}, "b"]}\n{"text": "a", "label": ["b"]}\n'
    return [
        bytes([number]) + content for number in range(len(TABLES)) for content in (*contents, talk)
    ]


def ctranslate2_seeds() -> list[bytes]:
    def text(string: bytes) -> bytes:
        return struct.pack("<H", len(string) + 1) + string + b"\0"

    weight = text(b"a/weight") + struct.pack("<BIIBI", 2, 1, 2, 1, 2) + b"\1\2"
    scale = text(b"a/weight_scale") + struct.pack("<BBI", 0, 0, 4) + struct.pack("<f", 0.5)
    head = struct.pack("<I", 6) + text(b"TransformerSpec") + struct.pack("<I", 7)
    aliases = struct.pack("<I", 1) + text(b"b/weight") + text(b"a/weight")
    return [head + struct.pack("<I", 2) + weight + scale + aliases]


READERS = {
    "safetensors": (read_safetensors, safetensors_seeds),
    "tokenizer": (read_tokenizer, tokenizer_seeds),
    "table": (read_table, table_seeds),
    "model.bin": (read_ctranslate2, ctranslate2_seeds),
}
ODD: list[tuple[str, bytes]] = [
    *((name, content) for name in READERS for content in (b"", b"\0", b"\xff" * 40, b"{" * 3_000)),
    ("safetensors", b"\2\0\0\0\0\0\0\0{}"),
    ("safetensors", b'\x0b\0\0\0\0\0\0\0{"a": NaN}'),
    ("tokenizer", b'{"model": 1}'),
    ("tokenizer", b"1" * 5_000),
    ("table", b'\2{"source": "\\ud800", "target": 1e999}\n'),
    ("table", b'\1a,"b\n'),
    ("model.bin", b"\6\0\0\0\1\0\0\0\0\0\0\xff\xff\xff\xff"),
]
"""By reader, bytes that are near enough to a file to be read far; what atheris finds belongs here."""


def tried(name: str, content: bytes) -> None:
    """Read bytes: that they are refused is right, and any other error is a mistake."""
    with suppress(ClearheadError):
        READERS[name][0](content)
