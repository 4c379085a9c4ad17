"""The door: what is refused before anything is read, and what is counted after it was answered.

A plain ASGI layer around the application. It looks at the name that the server is called by, the
key, the size of the body while it comes in, and whether JSON is what it may be; it adds headers that
make the page safe, counts and times, and writes a line of the log that holds no text.
"""

import json
import logging
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from clearhead.errors import RequestError
from clearhead.serve.work import Work

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Refusal = Callable[[str, RequestError], tuple[int, dict[str, str], bytes]]
"""Makes status, headers and body of a refusal, for a path."""
OPEN = ("/healthz",)
"""What answers without a key, and while the server stops."""
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
COOKIE = "clearhead_key={}; Path=/; HttpOnly; SameSite=Strict"
log = logging.getLogger("clearhead.serve")


class Door:
    def __init__(self, app: App, work: Work, error: Refusal) -> None:
        self.app, self.work, self.error = app, work, error
        self.settings, self.gate, self.meter = work.settings, work.gate, work.meter

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begun, number = time.perf_counter(), uuid.uuid4().hex
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        answer = {"status": 500, "bytes": 0}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer["status"] = message["status"]
                extra = HEADERS | {"x-request-id": number}
                extra |= {"connection": "close"} if self.gate.draining else {}
                extra |= (
                    {"set-cookie": COOKIE.format(key)} if (key := scope.get("shown_key")) else {}
                )
                message = {**message, "headers": [*message["headers"], *encoded(extra)]}
            answer["bytes"] += len(message.get("body", b""))
            await send(message)

        self.enter()
        try:
            self.check_head(scope, headers)
            body = await self.read(headers, receive)
            self.check_key(scope, headers, body)
            await self.app(scope, replayed(body, receive), sending)
        except RequestError as error:
            await respond(sending, *self.error(scope["path"], error))
        except ConnectionError:  # the client has left
            answer["status"] = 499
        except Exception:  # which the application has logged and answered, and raises once more
            if answer["status"] != 500:
                raise
        finally:
            self.leave()
            self.note(scope, answer, time.perf_counter() - begun, number)

    def enter(self) -> None:
        self.gate.in_flight += 1
        self.gate.idle.clear()
        self.meter.in_flight.set(self.gate.in_flight)

    def leave(self) -> None:
        self.gate.in_flight -= 1
        self.meter.in_flight.set(self.gate.in_flight)
        if not self.gate.in_flight:
            self.gate.idle.set()

    def check_head(self, scope: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        name = headers.get("host", "").lower()
        name = name.rpartition(":")[0] if not name.endswith("]") and ":" in name else name
        if name not in self.settings.names:
            raise RequestError(
                "The server is not known by this name.",
                "Call it localhost, or start it with --allow-host NAME.",
                403,
                "host",
            )
        if self.gate.draining and scope["path"] not in (*OPEN, "/readyz"):
            raise RequestError("The server is stopping.", "Ask another one.", 503, "draining")
        if int_of(headers.get("content-length", "0")) > self.settings.limits.body:
            raise self.too_large()

    async def read(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        """The body, counted while it comes; JSON must be whole, plain and finite."""
        parts, n_bytes = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError
            parts.append(message.get("body", b""))
            n_bytes += len(parts[-1])
            if n_bytes > self.settings.limits.body:
                raise self.too_large()
            if not message.get("more_body"):
                break
        body = b"".join(parts)
        kind = headers.get("content-type", "")
        if body and ("json" in kind or not kind):
            check_json(body, self.settings.limits.depth)
        return body

    def too_large(self) -> RequestError:
        limit = self.settings.limits.body
        return RequestError(
            f"The request is larger than {limit:,} bytes.", "Send less at once.", 413, "too_large"
        )

    def check_key(
        self, scope: MutableMapping[str, Any], headers: Mapping[str, str], body: bytes
    ) -> None:
        """A key in the header, or where LibreTranslate's clients put it."""
        if not self.settings.key_hash or scope["path"] in OPEN:
            return
        key = headers.get("authorization", "").removeprefix("Bearer ").strip()
        key = key or body_key(headers.get("content-type", ""), body)
        query = parse_qs(scope["query_string"].decode("latin-1")).get("api_key", [""])[0]
        key = key or query or cookie_key(headers.get("cookie", ""))
        if not key:
            raise RequestError(
                "This server needs an API key.",
                "Send it in the header: Authorization: Bearer KEY",
                401,
                "api_key_missing",
            )
        if not self.settings.opens(key):
            raise RequestError("Invalid API key", "", 401, "invalid_api_key")
        if query and scope["path"] == "/":  # a browser sends no header of ours with what it loads
            scope["shown_key"] = quote(query)

    def note(
        self, scope: Mapping[str, Any], answer: Mapping[str, int], seconds: float, number: str
    ) -> None:
        """Count and log; a path that nobody serves is not repeated, for it may hold anything."""
        route = getattr(scope.get("route"), "path", "none")
        status = answer["status"]
        self.meter.requests.labels(route, status).inc()
        self.meter.seconds.labels(route).observe(seconds)
        self.meter.all_seconds.observe(seconds)
        log.info(
            json.dumps(
                {
                    "request": number,
                    "route": route,
                    "status": status,
                    "bytes": answer["bytes"],
                    "seconds": round(seconds, 4),
                }
            )
        )


def cookie_key(cookies: str) -> str:
    pairs = dict(each.strip().partition("=")[::2] for each in cookies.split(";"))
    return unquote(pairs.get("clearhead_key", ""))


def body_key(kind: str, body: bytes) -> str:
    if "json" in kind and body.lstrip().startswith(b"{"):
        found = json.loads(body).get("api_key", "")
    elif "urlencoded" in kind:
        found = parse_qs(body.decode("latin-1")).get("api_key", [""])[0]
    else:
        found = ""
    return found if isinstance(found, str) else ""


def check_json(body: bytes, depth: int) -> None:
    """Refuse what Python's reader would take and no client means: UTF-16, NaN, 1e400, half a pair
    of surrogates, lists in lists in lists.
    """
    try:
        value = json.loads(body.decode(), parse_constant=infinite, parse_float=finite)
    except UnicodeDecodeError as error:
        raise bad_json(f"it is not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise bad_json(f"it is deeper than {depth}") from None
    except ValueError as error:
        at = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise bad_json(f"it cannot be read{at}") from None
    level = [value]
    for _ in range(depth):
        level = [each for outer in level for each in inside(outer)]
    if level:
        raise bad_json(f"it is deeper than {depth}")


def inside(value: Any) -> list[Any]:
    """What a value holds; text must be text."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise bad_json(f"a text has half a character at {error.start}") from None
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError
    return value


def infinite(_: str) -> float:
    raise ValueError


def bad_json(reason: str) -> RequestError:
    return RequestError(f"Invalid request: the JSON is refused, because {reason}.", "", 400, "json")


def int_of(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


async def respond(send: Send, status: int, headers: Mapping[str, str], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": encoded(headers)})
    await send({"type": "http.response.body", "body": body})


def replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more, for the application; then what the client says, which is that it left."""
    is_new = True

    async def again() -> Message:
        nonlocal is_new
        if is_new:
            is_new = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
