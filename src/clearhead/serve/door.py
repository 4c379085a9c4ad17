"""The door: what is refused before anything is read, and what is counted after it was answered.

An ASGI middleware around the application. It looks at the name that the server is called by, the
key, the size of the body while it comes in, and whether JSON is what it may be; it adds headers that
make the page safe, counts and times, and writes a line of the log that holds no text.
"""

import json
import math
import re
import time
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clearhead.errors import RequestError
from clearhead.serve.work import Work, log

OPEN = ("/healthz",)
"""What answers without a key, and while the server stops."""
HEADERS = Headers(
    {
        "content-security-policy": (
            "default-src 'self'; script-src 'self'; style-src 'self'; "
            "img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
            "frame-ancestors 'none'"
        ),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
    }
).raw
"""What every answer says, so that the page is safe."""
COOKIE = "clearhead_key"


class Door:
    def __init__(
        self, app: ASGIApp, work: Work, refusal: Callable[[str, RequestError], Response]
    ) -> None:
        self.app, self.work, self.refusal = app, work, refusal
        self.settings = work.settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, begun = Request(scope, receive), time.perf_counter()
        extra = {"x-request-id": uuid.uuid4().hex}
        answer = {"status": 500, "bytes": 0}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer["status"] = message["status"]
                closing = {"connection": "close"} if self.work.draining else {}
                added = [*HEADERS, *Headers(extra | closing).raw]
                message = {**message, "headers": [*message["headers"], *added]}
            answer["bytes"] += len(message.get("body", b""))
            await send(message)

        self.work.in_flight += 1
        try:
            self.check_head(request)
            body = await self.read(request)
            if self.settings.key_hash and request.scope["path"] not in OPEN:
                extra |= self.check_key(request, body)
            await self.app(scope, replaying(body, receive), sending)
        except RequestError as error:
            await self.refusal(scope["path"], error)(scope, receive, sending)
        except ClientDisconnect:
            answer["status"] = 499
        except Exception:  # which the application has logged and answered, and raises once more
            if answer["status"] != 500:
                raise
        finally:
            self.work.in_flight -= 1
            self.note(scope, answer, time.perf_counter() - begun, extra["x-request-id"])

    def check_head(self, request: Request) -> None:
        """Refuse a foreign host (DNS rebinding), what comes too late, and what is too large."""
        name = re.sub(r":\d*$", "", request.headers.get("host", "").lower())
        if name not in self.settings.names:
            raise RequestError(
                "The server is not known by this name.",
                "Call it localhost, or start it with --allow-host NAME.",
                403,
                "host",
            )
        if self.work.draining and request.scope["path"] not in (*OPEN, "/readyz"):
            raise RequestError("The server is stopping.", "Ask another one.", 503, "draining")
        self.check_size(int(request.headers.get("content-length", 0)))

    def check_size(self, n_bytes: int) -> None:
        limit = self.settings.limits.body
        if n_bytes > limit:
            raise RequestError(
                f"The request is larger than {limit:,} bytes.",
                "Send less at once.",
                413,
                "too_large",
            )

    async def read(self, request: Request) -> bytes:
        """The body, counted while it comes; JSON must be whole, plain and finite."""
        body = bytearray()
        async for part in request.stream():
            body += part
            self.check_size(len(body))
        kind = request.headers.get("content-type", "")
        if body and ("json" in kind or not kind):
            check_json(body, self.settings.limits.depth)
        return bytes(body)

    def check_key(self, request: Request, body: bytes) -> dict[str, str]:
        """Refuse a wrong key; the answer to a browser that shows a right one sets a cookie."""
        shown = request.query_params.get("api_key", "")
        key = (
            request.headers.get("authorization", "").removeprefix("Bearer ").strip()
            or body_key(request.headers.get("content-type", ""), body)
            or shown
            or unquote(request.cookies.get(COOKIE, ""))
        )
        if not key:
            raise RequestError(
                "This server needs an API key.",
                "Send it in the header: Authorization: Bearer KEY",
                401,
                "api_key_missing",
            )
        if not self.settings.opens(key):
            raise RequestError("Invalid API key", "", 401, "invalid_api_key")
        if not shown or request.scope["path"] != "/":
            return {}
        # A browser sends no header of ours with what it loads.
        return {"set-cookie": f"{COOKIE}={quote(shown)}; Path=/; HttpOnly; SameSite=Strict"}

    def note(self, scope: Scope, answer: dict[str, int], seconds: float, number: str) -> None:
        """Count and log; a path that nobody serves is not repeated, for it may hold anything."""
        route = getattr(scope.get("route"), "path", "none")
        self.work.meter.note(route, answer["status"], seconds)
        told = {"request": number, "route": route, **answer, "seconds": round(seconds, 4)}
        log.info(json.dumps(told))


def body_key(kind: str, body: bytes) -> str:
    """The key where LibreTranslate's clients put it."""
    found: Any = ""
    if "json" in kind and body.lstrip().startswith(b"{"):
        found = json.loads(body).get("api_key", "")
    elif "urlencoded" in kind:
        found = parse_qs(body.decode("latin-1")).get("api_key", [""])[0]
    return found if isinstance(found, str) else ""


def check_json(body: bytes | bytearray, depth: int) -> None:
    """Refuse what Python's reader would take and no client means: UTF-16, NaN, 1e400, half a pair
    of surrogates, lists in lists in lists.
    """
    try:
        level = [json.loads(body.decode())]
    except UnicodeDecodeError as error:
        raise bad_json(f"it is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise bad_json(f"it cannot be read at character {error.pos}") from None
    except RecursionError:
        raise bad_json(f"it is deeper than {depth}") from None
    except ValueError:  # an integer of thousands of digits
        raise bad_json("it cannot be read") from None
    for _ in range(depth):
        level = [each for outer in level for each in inside(outer)]
    if level:
        raise bad_json(f"it is deeper than {depth}")


def inside(value: Any) -> list[Any]:
    """What a value holds; text must be text, and numbers finite."""
    if isinstance(value, float) and not math.isfinite(value):
        raise bad_json("it cannot be read")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise bad_json(f"a text has half a character at {error.start}") from None
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def bad_json(reason: str) -> RequestError:
    return RequestError(f"Invalid request: the JSON is refused, because {reason}.", "", 400, "json")


def replaying(body: bytes, receive: Receive) -> Receive:
    """The body once more, for the application; then what the client says, which is that it left."""
    parts = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def again() -> Message:
        return next(parts, None) or await receive()

    return again
