"""The package as a whole: what it imports, what it never does, and documents that agree with the code."""

import ast
import importlib
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import clearhead
from promises import NOT_YET, PROMISES

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "clearhead"
MODULES = sorted(SOURCE.rglob("*.py"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
each_module = pytest.mark.parametrize(
    "module", MODULES, ids=lambda path: str(path.relative_to(SOURCE))
)
each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)


@pytest.mark.parametrize("room", ["", ".errors", ".config", ".text", ".metrics"])
def test_imports_without_torch(room):
    if room and not list(SOURCE.glob(room[1:] + "*")):
        pytest.skip(f"there is no {room[1:]} yet")
    code = f"import sys, clearhead{room}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# Each of these runs code out of a file, or lets a file say more than data.
FORBIDDEN_MODULES = {
    "pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "yaml",
}
FORBIDDEN_CALLS = {"eval", "exec", "torch.load", "torch.save", "os.system", "os.popen"}


def dangers(tree: ast.AST) -> list[str]:
    """What a module does that none of ours may."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [
                alias.name for alias in node.names if alias.name.split(".")[0] in FORBIDDEN_MODULES
            ]
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found += [
                name
                for name in names
                if name.split(".")[0] in FORBIDDEN_MODULES or name in FORBIDDEN_CALLS
            ]
        elif isinstance(node, ast.Call):
            found += [ast.unparse(node.func)] * (ast.unparse(node.func) in FORBIDDEN_CALLS)
            for word in node.keywords:
                is_off = isinstance(word.value, ast.Constant) and not word.value.value
                found += [f"{word.arg}="] * (word.arg in ("allow_pickle", "shell") and not is_off)
    return found


@each_module
def test_nothing_runs_code_out_of_files(module):
    assert dangers(ast.parse(module.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle", "from pickle import loads", "import yaml", "from joblib import load", "torch.load(p)",
        "from torch import load", "np.load(p, allow_pickle=True)", "np.load(p, allow_pickle=flag)", "eval(x)",
        "exec(x)", "run(c, shell=True)",
    ],
)  # fmt: skip
def test_what_runs_code_out_of_files_would_be_found(line):
    assert dangers(ast.parse(line))
    assert not dangers(
        ast.parse("model.eval(); np.load(p, allow_pickle=False); run(c, shell=False)")
    )


@each_module
def test_every_module_says_what_it_is_and_has_a_name_of_the_trade(module):
    assert ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
    assert not {"utils", "helpers", "common", "base", "manager"} & set(module.with_suffix("").parts)


def test_every_public_name_of_the_model_is_there_and_says_what_it_is():
    room = importlib.import_module("clearhead.model")
    for name in set(room.__all__) - {"Edit"}:  # a type's other name
        assert getattr(room, name).__doc__, name


def test_the_version_is_one():
    assert (
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
        == clearhead.__version__
    )


# Documents


@pytest.fixture(scope="module")
def docs():
    """What script/docs writes."""
    return runpy.run_path(str(ROOT / "script" / "docs"))


@pytest.mark.parametrize("page", ["settings", "reliability", "commands", "sizes", "code", "python"])
def test_what_documents_take_from_the_code_is_what_the_code_says(docs, page):
    written = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert written == docs["pages"]()[f"{page}.md"], "run script/docs"


def test_every_promise_has_a_test_or_is_named_as_not_kept_yet(docs):
    kept = docs["marks"]()
    assert kept.keys() <= PROMISES.keys()
    assert PROMISES.keys() - kept.keys() == NOT_YET.keys()


def test_the_tree_of_the_code_names_every_module(docs):
    tree = docs["tree"]()
    for module in MODULES:
        name = (
            module.name
            if module.name != "__init__.py" or module.parent == SOURCE
            else f"{module.parent.name}/"
        )
        assert re.search(rf"^ +{re.escape(name)}", tree, re.MULTILINE), name


def test_every_public_name_is_described(docs):
    for name in set(clearhead.__all__) - {"__version__"}:
        assert f"### {name}\n" in docs["objects"](), name
        assert getattr(clearhead, name).__doc__, name
    assert {*dir(clearhead)} >= {*clearhead.__all__}, "completion offers them"


@each_document
def test_links_between_documents_lead_somewhere(document):
    links = re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)", document.read_text(encoding="utf-8"))
    for target, place in links:
        other = document.parent / target if target else document
        assert other.exists(), target
        headings = re.findall(
            r"^#+ (.*)$", other.read_text(encoding="utf-8") if place else "", re.M
        )
        assert not place or place in map(anchor, headings), f"{target}#{place}"


def anchor(heading):
    """The name by which a heading is linked to."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_word_of_the_glossary_stands_in_a_file_that_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Words")[2]
    files = re.findall(r"\| `([\w/]+\.py)` \|$", text, re.MULTILINE)
    assert len(files) == text.count("\n| ") - 1
    for name in files:
        assert (SOURCE / name).exists(), name


@each_document
def test_scripts_and_tests_that_documents_name_exist(document):
    for name in re.findall(r"\b(?:script|tests)/[\w./]*\w", document.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name


def test_windows_is_refused_in_one_sentence():
    code = "import sys; sys.platform = 'win32'; import clearhead"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert (
        last == "ImportError: clearhead runs on Linux and macOS; on Windows, install it inside WSL."
    )
