"""What script/measure counts, in a package small enough to count by hand."""

import runpy
from pathlib import Path

import pytest

MEASURE = runpy.run_path(str(Path(__file__).parent.parent / "script" / "measure"))


@pytest.fixture
def modules(tmp_path):
    files = {
        "__init__.py": "",
        "room/__init__.py": "from house.room.one import show\n",
        "room/one.py": "import house.room.two\n\ndef show(): return 1\n\ndef saved(file): file.write(1)\n",
        "room/two.py": "def later():\n    from house.room import one\n    f(1, 2, 3, 4, 5, 6)\n",
        "hall.py": "from house.room.two import later\n\nclass show: ...\n\ndef stored(): return 2\n",
    }
    for name, text in files.items():
        (tmp_path / "house" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "house" / name).write_text(text)
    return MEASURE["modules_of"](tmp_path / "house")


def test_every_statement_counts_once_wherever_it_stands(modules):
    counts = {module.name: module.n_statements for module in modules}
    assert counts == {
        "house": 0,
        "house.hall": 5,
        "house.room": 1,
        "house.room.one": 5,
        "house.room.two": 3,
    }
    assert sum(module.n_import_lines for module in modules) == 4
    assert sum(module.n_positional_calls for module in modules) == 1


def test_a_cycle_is_found_also_through_an_import_inside_a_function(modules):
    doors = MEASURE["doors_of"](modules)
    assert MEASURE["cycles"](doors) == [["house.room.one", "house.room.two"]]
    doors["house.room.two"] = set()
    assert MEASURE["cycles"](doors) == []


def test_rooms_that_import_each_other_are_named_once(modules):
    doors = MEASURE["doors_of"](modules)
    assert MEASURE["both_ways"](modules, doors) == []
    doors["house.room.one"].add("house.hall")
    assert MEASURE["both_ways"](modules, doors) == [("house.hall", "house.room")]


def test_names_in_several_modules_and_values_that_write_are_listed(modules):
    assert MEASURE["clashes"](modules) == {"show": ["house.hall", "house.room.one"]}
    assert MEASURE["participles"](modules) == ["house.room.one:saved (write)"]
