"""A small run, and children to be killed in the parent's stead."""

import os
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from clearhead.config import Config, ModelConfig, TokenizerConfig
from clearhead.errors import ClearheadError
from clearhead.folder import Inheritance, RunFolder, RunPlan
from clearhead.model import Transformer
from clearhead.text import Tokenizer

TOKENIZER = Tokenizer.learn(["hello world"] * 5, TokenizerConfig(method="characters"))
CONFIG = Config(
    model=ModelConfig(
        family="decoder",
        vocab_size=TOKENIZER.vocab_size,
        d_model=4,
        d_ff=4,
        n_heads=2,
        n_decoder_layers=1,
    )
)
PLAN = RunPlan(
    steps=100,
    seconds=60.5,
    reasons=("tiny: it is fast",),
    n_examples=1_000,
    examples="0123abcd",
    inherited=Inheritance(run="runs/a", taken=("a", "b"), left=(), new=("c",), known_tokens=0.5),
    corrections=((10, 0.1, 120), (20, 0.25, 90)),
)
CRASHED = 99
"""Exit code of a child that met an error which is not ours."""


@cache
def weights(seed: int) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    return Transformer(CONFIG.model).state_dict()


def checkpoint_of(step: int) -> tuple[int, dict[str, dict[str, Tensor]], dict[str, object]]:
    """What is saved at a step, the same whenever it is asked for."""
    moments = {
        "tokens.weight/step": torch.tensor(float(step)),
        "tokens.weight/seen": torch.arange(step),
    }
    return (
        step,
        {"weights": weights(step), "optimizer": moments},
        state_of(step),
    )


def state_of(step: int) -> dict[str, object]:
    """The numbers of a checkpoint as training saves them."""
    counters = {
        "step": step,
        "tokens": 7 * step,
        "batches": step,
        "seconds": 0.1 + step,
        "best": None,
    }
    rest = {"best_step": None, "waited": 0, "validated": 0, "splits": 1, "skipped": 0}
    return {
        "counters": counters | rest,
        "steps": 100,
        "corrections": (),
        "average_updates": 0,
        "circumstances": {"torch": "2", "threads": 1, "processes": 1},
    }


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(
        torch.equal(a[name], b[name]) and a[name].dtype == b[name].dtype for name in a
    )


def strays(path: Path) -> list[Path]:
    return [found for found in path.rglob("*") if ".tmp-" in found.name]


def is_whole(found: object, step: int) -> bool:
    """Whether a checkpoint holds what was saved at the step, to the bit."""
    _, files, state = checkpoint_of(step)
    return (
        found.step == step
        and found.state == state
        and all(same(found.tensors(name), files[name]) for name in files)
    )


def in_child(act: Callable[[], object]) -> tuple[int, str]:
    """Exit code and error message of a forked process that does something, and ends as a command would."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # newer Pythons warn of forks beside threads
        pid = os.fork()
    if pid == 0:
        code = CRASHED
        try:
            act()
            code = 0
        except ClearheadError as error:
            os.write(writer, error.whole.encode())
            code = error.exit_code
        except BaseException:
            os.write(writer, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        message = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code != CRASHED, message
    return code, message


def created(path: Path) -> RunFolder:
    run = RunFolder.create(path, CONFIG, TOKENIZER)
    run.write_weights(weights(0))
    return run


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where the system has one: thousands of flushes would wear a disk out."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
    else:
        with tempfile.TemporaryDirectory(dir=memory) as path:
            yield Path(path)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run with weights and no checkpoint."""
    return created(tmp_path / "run")


@pytest.fixture(scope="session")
def steady_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run whose weights file a test may overwrite as it likes."""
    return created(tmp_path_factory.mktemp("steady") / "run")
