"""What the tests of whole runs share."""

from collections.abc import Iterator

import pytest

from training.runs import Nursery


@pytest.fixture(scope="package")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """A process that runs the command line in forked children."""
    nursery = Nursery(tmp_path_factory.mktemp("runs"))
    yield nursery
    nursery.end()
