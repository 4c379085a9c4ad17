"""A process that tries the command line in forked children, for all tests of this folder."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hostile.cases import case
from hostile.fuzz import parents


@pytest.fixture(scope="package")
def tried() -> Iterator[Callable[..., dict[str, Any]]]:
    """Tries one command line on whole runs, or on runs with edits; answers with what became of it."""
    with parents(1) as free:
        process = free.get()

        def answer(args: list[str], *edits: dict[str, Any], **streams: Any) -> dict[str, Any]:
            order = case(args, "mt", edits=edits, **streams)
            order["runs"] += [each["path"].split("/")[1] for each in edits if "/" in each["path"]]
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield answer
