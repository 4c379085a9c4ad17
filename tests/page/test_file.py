"""The file itself: whole, small, and nothing in it that a text could break."""

import base64
import json
import re

import pytest
from safetensors.numpy import load

from clearhead.config import ModelConfig
from clearhead.look.html import PAGE, bundle, inert

KILOBYTE, MEGABYTE = 1_000, 1_000_000


def modules():
    return [
        path
        for folder in (PAGE, PAGE / "views", PAGE / "tour", PAGE / "use")
        for path in folder.iterdir()
        if path.name.endswith(".js")
    ]


def test_the_modules_are_small_and_depend_on_nothing():
    style = (PAGE / "look.css").read_text(encoding="utf-8")
    assert size(bundle("main.js") + style) < 275 * KILOBYTE
    assert size(bundle("app.js") + style) < 330 * KILOBYTE
    for path in modules():
        text = path.read_text(encoding="utf-8")
        assert max(map(len, text.splitlines())) <= 100, path
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), path
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text
        ), path
        assert all(name.startswith(".") for name in re.findall(r'from "([^"]+)"', text)), path


def size(text):
    """Bytes without indentation."""
    return sum(len(line.strip().encode()) for line in text.splitlines())


def test_every_module_is_in_the_file_once_or_belongs_to_the_server():
    found = []
    for first in ("main.js", "app.js"):
        script = bundle(first)
        found.append(re.findall(r"^const (\$\w+) = \(", script, re.MULTILINE))
        assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    file, server = map(set, found)
    assert len(file) == len(found[0])
    assert len(file | server) == len(modules())
    assert file - server == {"$main"}, "the server's page has all that the file has"
    assert not any(name.startswith(("$use", "$api")) for name in file), "a file asks nobody"


def test_json_in_a_page_is_the_same_json_and_inert():
    meta = {"text": "</script><!--&\u2028\u2029", "lone": "\ud800", "number": [0, -1.5]}
    text = inert(meta)
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text)["text"] == meta["text"]
    assert text.encode()


def test_the_file_holds_the_numbers_bit_for_bit(look_at):
    look = look_at()
    content = re.search(r'id="look-tensors">([^<]*)<', look.html())[1]
    found = load(base64.b64decode(content))
    assert all((found[name] == value).all() for name, value in look.tensors().items())
    assert set(found) == set(look.tensors())


@pytest.mark.parametrize(("preset", "limit"), [("tiny", 2.4 * MEGABYTE), ("base", 10.5 * MEGABYTE)])
def test_thirty_tokens_fit_and_can_be_used_within_a_second(visit, look_at, preset, limit, file_of):
    look = look_at(30, 30, **ModelConfig.preset(preset).size())
    assert file_of(look).stat().st_size <= limit
    waits = []
    for _ in range(4):  # the machine may be busy with something else
        tab = visit(look)
        begun = tab.evaluate("performance.getEntriesByType('navigation')[0].responseStart")
        waits.append(
            tab.evaluate("performance.getEntriesByName('look-ready')[0].startTime") - begun
        )
        if waits[-1] < 1_000:
            break
    assert min(waits) < 1_000
