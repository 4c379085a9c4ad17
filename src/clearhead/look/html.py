"""One HTML file that holds a look: its numbers and the scripts that draw them; nothing is fetched.

The page's modules are plain files under page/, which a server can hand out as they are. Here they
become one script, so that the file works from a disk; a content policy (CSP) allows this script and
no other.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from posixpath import dirname, join, normpath
from typing import Any

from numpy.typing import NDArray

from clearhead.tensors import tensor_bytes

PAGE = files("clearhead.look") / "page"
IMPORT = re.compile(r'^import \{ ([^}]+) \} from "([^"]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)


def page(meta: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> str:
    script, style = bundle("main.js"), (PAGE / "look.css").read_text(encoding="utf-8")
    numbers = base64.b64encode(tensor_bytes(tensors)).decode()
    parts = {
        '<meta charset="utf-8">\n': f'<meta charset="utf-8">\n{policy(script, style)}\n',
        '<link rel="stylesheet" href="look.css">': f"<style>{style}</style>",
        '<script type="module" src="main.js"></script>': (
            f'<script type="application/json" id="look-meta">{inert(meta)}</script>\n'
            f'<script type="text/plain" id="look-tensors">{numbers}</script>\n'
            f'<script type="module">{script}</script>'
        ),
    }
    html = (PAGE / "look.html").read_text(encoding="utf-8")
    for place, filling in parts.items():
        assert place in html, f"look.html has no {place}"
        html = html.replace(place, filling, 1)
    return html


def framed(page: str, text: str) -> str:
    """A page for a notebook, in an iframe so that nothing in it meets the rest; else the text."""
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts allow-downloads" '
        f'title="A look inside" style="width: 100%; height: 720px; border: 0">'
        f"<pre>{escape(text)}</pre></iframe>"
    )


def inert(meta: Mapping[str, Any]) -> str:
    """JSON in which no text can end the script element or mean anything to HTML."""
    text = json.dumps(meta, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode(errors="surrogatepass").decode(errors="replace")


def policy(script: str, style: str) -> str:
    """Only this very script and style may act; nothing may be fetched, sent or framed."""
    rules = (
        f"default-src 'none'; script-src {policy_hash(script)}; style-src {policy_hash(style)}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'


def policy_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def bundle(first: str) -> str:
    """A module and all that it needs, each in a function of its own and after those it imports."""
    made: dict[str, str] = {}
    add(first, made)
    return "\n".join(made.values())


def add(name: str, made: dict[str, str]) -> None:
    text = (PAGE / name).read_text(encoding="utf-8")
    wants = []
    for names, path in IMPORT.findall(text):
        other = normpath(join(dirname(name), path))
        if other not in made:
            add(other, made)
        wants.append(f"const {{ {names} }} = {js_variable(other)};")
    gives = ", ".join(found for _, found in EXPORT.findall(text))
    body = EXPORT.sub(r"\1", IMPORT.sub("", text))
    foreign = re.search(r"^(import|export)\b", body, re.MULTILINE)
    assert not foreign, f"{name} imports or exports in another form"
    inside = f"{' '.join(wants)}\n{body}\nreturn {{ {gives} }};"
    made[name] = f"const {js_variable(name)} = (() => {{\n{inside}\n}})();"


def js_variable(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))
