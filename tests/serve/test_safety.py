"""Promises 24, 25 (the server's half) and 26: safe by default, and metrics and logs that leak nothing."""

import logging
import re
import socket

import httpx
import pytest
from typer.testing import CliRunner

from clearhead.cli.main import main
from clearhead.errors import ConfigError
from clearhead.serve.settings import ServerSettings, hash_of
from tests.serve.conftest import serving

KEY = "open-sesame-1234"


def routes_of(served):
    """Every method and path that the application has, in its document or beside it."""
    app = served.door.app
    told = {
        (method.upper(), path) for path, own in app.openapi()["paths"].items() for method in own
    }
    other = {(m, route.path) for route in app.routes for m in getattr(route, "methods", None) or ()}
    for method, path in sorted(told | other):
        if method not in ("HEAD", "OPTIONS"):
            yield method, re.sub(r"\{[^}]*\}", "x", path)


@pytest.mark.promise(24, "127.0.0.1 alone")
def test_only_the_loopback_listens(served, process):
    _, url = process("--quiet")
    port = int(url.rpartition(":")[2])
    own = socket.gethostbyname(socket.gethostname())
    if not own.startswith("127."):
        with pytest.raises(ConnectionError):
            socket.create_connection((own, port), timeout=1).close()
    assert ServerSettings(runs=()).host == "127.0.0.1"


@pytest.mark.promise(24, "another address needs a key")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org"])
def test_another_address_without_a_key_refuses_to_start(host, runs, capsys):
    with pytest.raises(ConfigError, match="no API key"):
        ServerSettings(runs=(), host=host)
    ServerSettings(runs=(), host=host, no_auth=True)
    ServerSettings(runs=(), host=host, key_hash=hash_of("k"))
    assert main(["serve", str(runs["chat"]), "--host", host]) == 1
    assert "--api-key" in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_refused_before_an_address_is_told(runs, tmp_path, capsys):
    assert main(["serve", str(runs["chat"]), str(tmp_path), "--port", "0"]) == 1
    told = capsys.readouterr().err
    assert str(tmp_path) in told
    assert "http://" not in told


@pytest.mark.promise(24, "a foreign Host is refused")
@pytest.mark.parametrize(
    "name", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "[::2]:80"]
)
def test_a_foreign_host_is_refused(served, name):
    for path in ("/healthz", "/api/runs", "/"):
        assert served.client.get(path, headers={"host": name}).status_code == 403
    for own in ("localhost", "LOCALHOST:99", "127.0.0.1:8000", "[::1]:8000"):
        assert served.client.get("/healthz", headers={"host": own}).status_code == 200


@pytest.mark.promise(24, "every route but one needs the key")
def test_every_route_but_one_needs_the_key(runs):
    with serving(runs["chat"], key_hash=hash_of(KEY)) as served:
        found = list(routes_of(served))
        assert len(found) > 25
        for method, path in found:
            status = served.client.request(method, path).status_code
            assert status == (200 if path == "/healthz" else 401), (method, path)
            for wrong in ("x", KEY[:-1], KEY + "x"):
                headers = {"authorization": f"Bearer {wrong}"}
                answer = served.client.request(method, path, headers=headers)
                assert answer.status_code in ((200,) if path == "/healthz" else (401, 403))
        right = {"authorization": f"Bearer {KEY}"}
        assert served.client.get("/v1/models", headers=right).status_code == 200
        assert served.client.get("/languages", params={"api_key": KEY}).status_code == 200
        body = {"q": "x", "source": "en", "target": "de"}
        for kind in ("json", "data"):
            answer = served.client.post("/translate", **{kind: {**body, "api_key": KEY}})
            assert answer.status_code == 400  # there is no translator; the key was right
        wrong = served.client.post("/translate", json={**body, "api_key": "x"})
        assert (wrong.status_code, wrong.json()) == (403, {"error": "Invalid API key"})


def test_a_browser_shows_its_key_once(runs):
    with serving(runs["chat"], key_hash=hash_of(KEY)) as served:
        assert served.client.get("/", params={"api_key": KEY}).status_code == 200
        cookie = served.client.cookies.jar
        assert [each.name for each in cookie] == ["clearhead_key"]
        assert served.client.get("/main.js").status_code == 200
        assert served.client.get("/api/runs").status_code == 200
        served.client.cookies.clear()
        assert served.client.get("/main.js").status_code == 401


def test_the_page_may_run_its_own_scripts_only(served):
    kinds = {"/": "text/html", "/main.js": "text/javascript", "/views/map.js": "text/javascript"}
    for path, kind in {**kinds, "/look.css": "text/css"}.items():
        answer = served.client.get(path)
        assert answer.headers["content-type"].startswith(kind)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = served.client.get(path, headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    for path in (
        "/../html.py",
        "/%2e%2e/html.py",
        "/views/../../html.py",
        "//etc/passwd",
        "/none.js",
    ):
        assert served.client.get(path).status_code == 404
    assert (
        "access-control-allow-origin"
        not in served.client.get("/", headers={"origin": "http://a.b"}).headers
    )


def test_only_listed_pages_of_others_may_ask(runs):
    with serving(runs["chat"], origins=("https://mine.example",)) as served:
        for origin, is_allowed in (
            ("https://mine.example", True),
            ("https://other.example", False),
        ):
            headers = served.client.get("/healthz", headers={"origin": origin}).headers
            assert ("access-control-allow-origin" in headers) == is_allowed


@pytest.mark.promise(26, "no text, key or address")
def test_metrics_and_logs_hold_no_text_key_or_address(runs, caplog):
    secret = "xylophone-serendipity"
    caplog.set_level(logging.INFO, "clearhead.serve")
    with serving(runs["en-de"], runs["chat"], key_hash=hash_of(KEY)) as served:
        headers = {"authorization": f"Bearer {KEY}", "x-forwarded-for": "203.0.113.9"}
        for number in range(100):
            path = (
                "/translate",
                "/api/chat",
                f"/{secret}",
                "/v1/chat/completions",
                "/api/translate",
            )[number % 5]
            body = {"q": secret, "source": "en", "target": "de", "turns": [secret], "text": secret}
            served.client.post(path, json=body, headers=headers, params={"x": secret})
            served.client.request(f"X{number}", "/translate", headers=headers)
        metrics = served.client.get("/metrics", headers=headers).text
    series = [line for line in metrics.splitlines() if not line.startswith("#")]
    assert len(series) <= 200
    assert 'route="/translate",status="200"' in metrics
    told = metrics + caplog.text
    assert len(caplog.records) >= 200
    for leak in (secret, KEY, hash_of(KEY), "203.0.113.9"):
        assert leak not in told
    assert "127.0.0.1" not in "".join(record.getMessage() for record in caplog.records)


def test_the_command_line_explains_itself():
    from clearhead.cli.verb import app

    found = CliRunner().invoke(app, ["serve", "--help"])
    assert "clearhead serve runs/en-de" in found.output


def test_health_is_told(served):
    for path in ("/healthz", "/health", "/v2/health/live", "/readyz", "/v2/health/ready"):
        assert httpx.get(f"{served.url}{path}").status_code == 200
