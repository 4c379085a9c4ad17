"""Imports only go down: no room sees a room of its own floor or of a higher one."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "clearhead"
FLOORS = [
    {"errors"},
    {"disk"},
    {"config", "machine", "tensors"},
    {"text", "metrics"},
    {"model"},
    {"data", "decode", "look"},
    {"training", "folder", "doctor"},
    {"tasks"},
    {"exchange", "serve", "lab", "demo", "scale"},
    {"cli"},
    {"__main__"},
]


def room_of(module: Path) -> str:
    return module.relative_to(SOURCE).parts[0].removesuffix(".py")


def floor(room: str) -> int:
    return next(level for level, rooms in enumerate(FLOORS) if room in rooms)


def rooms_imported_by(module: Path) -> set[str]:
    """Rooms named in any import of the module, wherever it stands."""
    names = []
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, (
                f"{module.name} imports relatively: absolute imports say where they go"
            )
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("clearhead.")} - {"__version__"}


@pytest.mark.parametrize(
    "module", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_imports_only_go_down(module):
    if module == SOURCE / "__init__.py":
        return  # the front door: it opens every room, lazily
    for room in rooms_imported_by(module) - {room_of(module)}:
        assert floor(room) < floor(room_of(module)), f"{module.name} may not import {room}"


def test_the_floors_in_the_document_are_those_of_the_list():
    document = (SOURCE.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = document.partition("```text\n")[2].partition("```")[0].splitlines()
    written = [set(line.partition(" " * 4)[0].split()) for line in reversed(lines)]
    assert [*written, {"__main__"}] == FLOORS
