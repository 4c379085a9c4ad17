"""A desk on which documents can be tried: files and runs under the names that documents use, all of them small."""

import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.config import Given, layered
from clearhead.demo.show import shipped
from clearhead.folder import RunFolder
from clearhead.tasks import training

SMALL: Given = {
    "model": {
        "d_model": 16,
        "d_ff": 16,
        "n_heads": 4,
        "n_encoder_layers": 2,
        "n_decoder_layers": 2,
    },
    "data": {"batch_tokens": 256, "window": 32},
    "train": {"threads": 1},
    "decode": {"beam": 2, "max_length": 6, "guard": False},
}
RUNS: dict[str, dict[str, Any]] = {
    "en-de": {"files": ["train.en", "train.de"]},
    "chat": {"files": ["talks.jsonl"], "task": "chat"},
    "mood": {"files": ["reviews.tsv"], "task": "classification"},
    "bard": {"files": ["books/one.txt"], "task": "writing"},
    "books": {"files": ["books/one.txt"], "task": "pretraining", "objective": "masked"},
}


def write_files(folder: Path) -> None:
    """The files that documents speak of, each a part of what the demos are trained on."""
    content = {
        "train.en": shipped("translation.en")[0][:300],
        "train.de": shipped("translation.de")[0][:300],
        "val.en": shipped("translation.en")[1][:20],
        "val.de": shipped("translation.de")[1][:20],
        "test.en": shipped("translation.en")[2][:8],
        "test.de": shipped("translation.de")[2][:8],
        "talks.jsonl": shipped("chat.jsonl")[0][:40],
        "test.jsonl": shipped("chat.jsonl")[2][:8],
        "reviews.tsv": shipped("classification.tsv")[0][:80],
        "test.tsv": shipped("classification.tsv")[2][:8],
        "books/one.txt": shipped("writing.txt")[0][:60],
        "test.txt": shipped("writing.txt")[2][:8],
    }
    content["pairs.tsv"] = [
        "\t".join(pair) for pair in zip(content["train.en"], content["train.de"], strict=True)
    ]
    content["reviews.txt"] = [line.partition("\t")[2] for line in content["test.tsv"]]
    content["in.txt"] = content["test.en"]
    for name, lines in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for name in (
        "in.txt",
        *(f"{part}.{side}" for part in ("train", "val", "test") for side in ("en", "de")),
    ):
        packed = f"{name.replace('test', 'test2016')}.gz"
        (folder / packed).write_bytes(gzip.compress((folder / name).read_bytes()))
    (folder / "terms.tsv").write_text("bike\tFahrrad\n")


def request(*asked: Any, budget: str | None = None, **others: Any) -> training.TrainingRequest:
    """What is asked for, with a model and a budget so small that it is done in a moment."""
    files, into, *_ = asked
    if files and into and RunFolder(into).exists() and str(files[0]) != str(into):
        shutil.rmtree(into)  # a document begins at the beginning
    first = whole_request(*asked, budget="2 steps", **others)
    if RunFolder(first.into).exists():  # it goes on, with more time if that is asked for
        more = {"budget": "4 steps"} if budget else {}
        return whole_request(*asked, **more, **others)
    return first._replace(given=layered(first.given, SMALL))


whole_request = training.request


def train_small(patch: pytest.MonkeyPatch) -> None:
    """Make every training small for as long as the patch lasts, which other tests must not see."""
    patch.setattr(training, "request", request)


@pytest.fixture(scope="session")
def whole_desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    write_files(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        train_small(patch)
        for name, asked in RUNS.items():
            files = asked["files"]
            others = {key: value for key, value in asked.items() if key != "files"}
            for _ in clearhead.watch(*files, into=f"runs/{name}", **others):
                pass
        shutil.copytree("runs/en-de", "runs/demo")
        Path("runs/demo-data").mkdir()
        for part, side in ((part, side) for part in ("train", "test") for side in ("en", "de")):
            shutil.copy(f"{part}.{side}", "runs/demo-data")
    return folder


@pytest.fixture
def desk(whole_desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to work in, where all that is trained is small; the working directory."""
    folder = tmp_path / "desk"
    shutil.copytree(whole_desk, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    train_small(monkeypatch)
    return folder
