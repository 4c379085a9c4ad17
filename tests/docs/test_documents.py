"""What documents show is done: commands run, code runs, and prints what it says it prints."""

import io
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from clearhead.cli.main import main

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])
ELSEWHERE = {"scale.md": "tests/scale", "serving.md": "tests/serve"}
"""Documents about what a desk does not have, such as a cluster, and where that is tried."""
LONG = {"demo", "lab", "serve"}
"""Verbs that have tests of their own, because they take minutes or never end."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    kind: str
    text: str

    @property
    def commands(self) -> Iterator[tuple[str, str]]:
        """The commands of clearhead, each with the output that is shown below it, if any is."""
        if self.kind == "sh":
            for line in self.text.replace("\\\n", " ").splitlines():
                yield line, ""
        elif self.kind == "console":
            for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield command, output

    @property
    def said(self) -> list[str]:
        """What the code says that it prints."""
        return re.findall(r"^print\(.*\)\s+# (.*)$", self.text, re.MULTILINE)


def blocks_of(document: Path) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    return [Block(*found) for found in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)]


def arguments(command: str) -> list[str] | None:
    """The words of a command of clearhead that can be tried here, comments and wildcards resolved."""
    words = shlex.split(command, comments=True)
    if words[:1] != ["clearhead"] or "…" in command or words[1] in LONG:
        return None
    return [
        each
        for word in words[1:]
        for each in (sorted(map(str, Path().glob(word))) if "*" in word else [word])
    ]


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Run a command as a shell would, `<` and `>` included: its exit code and its output."""
    stdin, output = b"", io.StringIO()
    if "<" in words:
        place = words.index("<")
        stdin = Path(words[place + 1]).read_bytes()
        words = words[:place] + words[place + 2 :]
    if ">" in words:
        words = words[: words.index(">")]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))))
    with redirect_stdout(output):
        return main(words), output.getvalue()


def of(kinds: set[str]) -> pytest.MarkDecorator:
    """Each document that has such blocks."""
    here = [path for path in DOCUMENTS if path.name not in ELSEWHERE]
    found = [path for path in here if any(block.kind in kinds for block in blocks_of(path))]
    return pytest.mark.parametrize("document", found, ids=lambda path: path.name)


def test_documents_that_are_tried_elsewhere_and_their_tests_exist() -> None:
    for document, tests in ELSEWHERE.items():
        assert (ROOT / "docs" / document).exists()
        assert (ROOT / tests).is_dir()


@of({"sh", "console"})
def test_every_command_that_is_shown_works(
    document: Path, desk: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for block in blocks_of(document):
        for command, _ in block.commands:
            if words := arguments(command):
                code, _ = run(words, monkeypatch)
                assert code == 0, f"{command}\n{capfd.readouterr().err}"


@of({"python"})
def test_every_piece_of_code_that_is_shown_works(document: Path, desk: Path) -> None:
    names: dict[str, object] = {}
    for block in blocks_of(document):
        if block.kind == "python":
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(compile(block.text, document.name, "exec"), names)
            if "runs/" not in block.text and block.said:  # nothing that was trained
                assert printed.getvalue().splitlines() == block.said


def masked(output: str) -> list[str]:
    """Lines without what differs from machine to machine: numbers, shades, unlikely alternatives."""
    output = re.sub(r"\(or .*\)", "(or)", output)
    output = re.sub(r"\d[\d,.]*", "#", re.sub(r"[░▒▓█]", "", output))
    return [" ".join(line.split()) for line in output.rstrip().splitlines()]


@pytest.mark.slow
def test_outputs_that_documents_show_are_those_of_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = [sys.executable, "-m", "clearhead", "demo"]
    subprocess.run(program, cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.chdir(tmp_path)
    shutil.copytree("runs/demo", "runs/en-de")
    for document in DOCUMENTS:
        for block in blocks_of(document):
            for command, shown in block.commands:
                words = arguments(command)
                if words and shown:
                    assert masked(run(words, monkeypatch)[1]) == masked(shown), command
            if block.kind == "python" and "runs/demo" in block.text:
                printed = io.StringIO()
                with redirect_stdout(printed):
                    exec(compile(block.text, document.name, "exec"), {})
                assert printed.getvalue().splitlines() == block.said
