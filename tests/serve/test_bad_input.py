"""Promise 16: never a 500 for bad input; and an OpenAPI document that is true."""

import contextlib

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

BODIES = {
    "lone surrogate": rb'{"text": "\ud800", "q": "\ud800", "inputs": "\ud800", "prompt": "\udfff"}',
    "surrogate in a key": rb'{"\ud800": 1}',
    "NaN": b'{"text": "a", "temperature": NaN, "q": NaN}',
    "infinity": b'{"text": "a", "temperature": Infinity}',
    "minus infinity": b'{"text": "a", "temperature": -Infinity}',
    "1e400": b'{"text": "a", "temperature": 1e400, "alternatives": 1e400}',
    "many digits": b'{"text": "a", "seed": ' + b"9" * 5_000 + b"}",
    "large number": b'{"text": "a", "turns": ["a"], "seed": 99999999999999999999, "n": 1e30}',
    "deep": b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep enough": b'{"text": ' + b"[" * 40 + b"]" * 40 + b"}",
    "UTF-16": '{"text": "a", "q": "a"}'.encode("utf-16"),
    "UTF-32": '{"text": "a"}'.encode("utf-32"),
    "BOM": b'\xef\xbb\xbf{"text": "a"}',
    "Latin-1": b'{"text": "\xe9", "q": "\xe9"}',
    "NUL": rb'{"text": "a\u0000b", "q": "\u0000", "turns": ["\u0000"], "inputs": "\u0000"}',
    "cut off": b'{"text": "a',
    "nothing": b"",
    "null": b"null",
    "number": b"1",
    "list": b"[[]]",
    "twice": b'{"text": "a", "text": "b", "q": "a", "q": 1}',
    "wrong kinds": b'{"text": 1, "q": {"a": 1}, "source": [], "target": 7, "turns": "a", "messages": [1]}',
    "control": b'{"text": "\x01\x02"}',
}


def posts(served):
    return [path for path, own in served.door.app.openapi()["paths"].items() if "post" in own]


@pytest.mark.promise(16, "bodies that break others")
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(
    "kind", ["application/json", "text/plain", "application/x-www-form-urlencoded"]
)
def test_no_body_breaks_the_server(served, name, kind):
    for path in posts(served):
        answer = served.client.post(path, content=BODIES[name], headers={"content-type": kind})
        assert answer.status_code < 500, (path, answer.text)
        assert answer.headers["content-type"].startswith("application/json") or answer.is_success
        if answer.status_code >= 400:
            assert "error" in answer.json()


def test_text_that_people_write_is_kept(served):
    """NUL and control characters are text; what looks like a special token is text."""
    for text in ("a\0b", "<s> </s> <pad>", "\u2028x\x85", "‮abc", "<|im_end|>", "👩‍👩‍👧‍👦" * 20):
        asked = {"/api/translate": "text", "/api/classify": "text", "/predict": "inputs"}
        for path, name in asked.items():
            assert served.post(path, **{name: text}).status_code == 200, (path, text)


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.mark.promise(16, "schemathesis: 200 examples for every operation (4 at each change)")
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")  # the server's threads may
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("n_examples", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_the_document_is_true_whatever_is_sent(served, mode, n_examples):
    document = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    limits = settings(max_examples=n_examples, suppress_health_check=list(HealthCheck))
    for found in document.get_all_operations():
        operation = found.ok()

        @limits
        @given(operation.as_strategy(generation_mode=mode))
        def holds(case):
            case.validate_response(case.call(timeout=60), checks=CHECKS)

        with contextlib.suppress(Unsatisfiable):  # what takes nothing cannot be asked wrongly
            holds()


def test_errors_have_the_shape_of_their_api(served):
    wrong = {"content": b"{", "headers": {"content-type": "application/json"}}
    found = {path: served.client.post(path, **wrong).json() for path in posts(served)}
    assert set(found["/v1/chat/completions"]["error"]) == {"message", "type", "param", "code"}
    assert set(found["/predict"]) == {"error", "error_type"}
    assert set(found["/translate"]) == {"error"}
    assert set(found["/api/translate"]) == {"error", "advice", "code"}
    assert httpx.get(f"{served.url}/v1/nothing").json()["error"]["type"] == "invalid_request_error"
