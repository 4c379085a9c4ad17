"""Ways to break a file: one of its values, its bytes, or what it is."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from clearhead.disk import sha256_of
from clearhead.folder.checkpoints import MANIFEST, manifest

KINDS = (
    "set",
    "drop",
    "add",
    "line",
    "flip",
    "cut",
    "empty",
    "bytes",
    "gone",
    "folder",
    "link",
    "pipe",
)
"""`set`, `drop` and `add` change a value of a JSON or TOML file, the others any file."""
OF_FOLDERS = ("gone", "moved", "link")
"""Ways that may befall a folder too."""


def edit(place: Path, order: dict) -> None:
    """Do as told; `pick` chooses among the places where it can be done."""
    path, how, pick = place / order["path"], order["how"], order["pick"]
    if how == "made":
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(order["value"].encode(errors="surrogatepass"))
        return
    if path.is_symlink() or (not path.is_file() and not (path.is_dir() and how in OF_FOLDERS)):
        return  # an edit before this one has made it something else
    if how == "moved":
        path.rename(path.with_name("elsewhere"))
        return
    if how in ("gone", "folder", "link", "pipe"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        {
            "gone": lambda: None,
            "folder": path.mkdir,
            "link": lambda: path.symlink_to(order["value"] or Path.cwd().parent / "outside"),
            "pipe": lambda: os.mkfifo(path),
        }[how]()
        return
    content = path.read_bytes()
    path.write_bytes(changed(content, path.suffix, how, pick, value=order["value"]))
    if order.get("signed") and path.parent.parent.name == "checkpoints":
        sign(path.parent)


def changed(content: bytes, suffix: str, how: str, pick: int, *, value: str) -> bytes:
    """The content with one thing wrong with it; `value` is JSON, or else text."""
    if how == "empty":
        return b""
    if how == "bytes":
        return value.encode(errors="surrogatepass") or b"\0\xff\n"
    if how == "cut":
        return content[: pick % max(1, len(content))]
    if how == "flip":
        at = pick % max(1, len(content))
        return (
            content[:at]
            + bytes(b ^ (1 << pick % 8) for b in content[at : at + 1])
            + content[at + 1 :]
        )
    lines = content.decode(errors="replace").split("\n")
    at = pick % len(lines)
    if how == "line" or suffix not in (".json", ".jsonl", ".toml"):
        lines[at] = value
    elif suffix == ".toml":
        name, equals, _ = lines[at].partition(" = ")
        lines[at] = {
            "set": f"{name} = {value}" if equals else value,
            "drop": "",
            "add": f"{lines[at]}\nadded = {value}",
        }[how]
    elif suffix == ".json":
        return in_json("\n".join(lines), how, pick, value).encode(errors="surrogatepass")
    else:
        lines[at] = in_json(lines[at] or "{}", how, pick // len(lines), value)
    return "\n".join(lines).encode(errors="surrogatepass")


def in_json(text: str, how: str, pick: int, value: str) -> str:
    try:
        whole = [json.loads(text)]
    except ValueError:  # an edit before this one has made it something else
        return value
    parent, key = nodes(whole)[pick % len(nodes(whole))]
    new = json.loads(value)
    if how == "drop":
        del parent[key]
    elif how == "add" and isinstance(parent, dict):
        parent["added"] = new
    elif how == "add":
        parent.append(new)
    else:
        parent[key] = new
    return json.dumps(whole[0] if whole else new)


def nodes(tree: Any) -> list[tuple[Any, Any]]:
    """Every value in a JSON document, as the parent and the key."""
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    own = [(tree, key) for key in keys]
    below = [
        node for key in keys if isinstance(tree[key], dict | list) for node in nodes(tree[key])
    ]
    return own + below


def sign(checkpoint: Path) -> None:
    """Have the manifest vouch for what is there now: a file that is whole, and wrong."""
    files = {
        path.name: {"size": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(checkpoint.iterdir())
        if path.name != MANIFEST and path.is_file()
    }
    (checkpoint / MANIFEST).write_bytes(manifest(int(checkpoint.name), files))
