"""What docs/serving.md shows is done, by a server whose models say other words."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from clearhead.cli.verb import app

DOCUMENT = (Path(__file__).parent.parent.parent / "docs" / "serving.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8000"


def test_its_code_runs(served, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        names: dict[str, object] = {}
        exec(compile(block.replace(ADDRESS, served.url), "serving.md", "exec"), names)
        if "client" in names:
            names["client"].close()
    assert capsys.readouterr().out.strip()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_its_commands_answer_in_the_shape_that_is_shown(served):
    found = re.findall(r"^\$ (curl .*)\n(.*)$", DOCUMENT, re.MULTILINE)
    assert len(found) == 3
    for command, shown in found:
        words = shlex.split(command.replace(ADDRESS, served.url))
        answer = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
        assert shape(answer) == shape(json.loads(shown))


def shape(value):
    """Names and kinds, without what models say; of a list the first stands for all."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    return list(map(shape, value[:1])) if isinstance(value, list) else type(value)


def test_every_option_that_it_names_is_one_of_the_command():
    from typer.main import get_command

    command = get_command(app).commands["serve"]
    options = {name for parameter in command.params for name in parameter.opts}
    assert set(re.findall(r"`(--[a-z0-9-]+)", DOCUMENT)) <= options
