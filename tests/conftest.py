"""What holds for every test: shapes are checked, randomness is seeded, one thread computes."""

import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import jaxtyping
import pytest
import torch

from clearhead.machine import has_bf16_products

TESTS = Path(__file__).parent
ROOMS_OF_TENSORS = [f"clearhead.{room}" for room in ("model", "data", "decode", "look", "training")]

# Before any of these rooms is imported: every shape on a signature is checked whenever a test calls the function.
sys.path.insert(0, str(TESTS))
jaxtyping.install_import_hook(ROOMS_OF_TENSORS, "checked_shapes.beartyped")

# A shell that starts the tests in the background lets them ignore these, and so would the programs that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

torch.set_num_threads(1)  # the tests' tensors are too small to share

hypothesis.settings.register_profile(
    "clearhead",
    deadline=None,
    max_examples=20,
    derandomize="CI" in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("clearhead")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("bf16") and not has_bf16_products(torch.device("cpu")):
        pytest.skip(
            "products in bfloat16 do not work on this processor: a child process that tried died"
        )


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Each test begins at the same random state and leaves the default dtype as it was."""
    random.seed(0)
    torch.manual_seed(0)
    yield
    assert torch.get_default_dtype() == torch.float32


@pytest.fixture(scope="session")
def project() -> Path:
    """The project's folder."""
    return TESTS.parent
