"""The application: all routes, one shape of errors for each API, the page, and the server's health."""

import json
import mimetypes
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources.abc import Traversable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from clearhead import __version__
from clearhead.errors import ClearheadError, RequestError
from clearhead.look.html import PAGE
from clearhead.serve import libretranslate, openai, own, tei
from clearhead.serve.door import Door
from clearhead.serve.meter import Gate, Meter
from clearhead.serve.models import BackendFor, Load, Shelf, no_backend
from clearhead.serve.settings import ServerSettings
from clearhead.serve.work import Work, told
from clearhead.tasks import load

RETRY = "1"
"""Seconds after which a client that was told to slow down may ask again."""
TEI_KINDS = {
    "busy": "Overloaded",
    "empty": "Empty",
    "draining": "Unhealthy",
    "unloadable": "Unhealthy",
}
TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
}


def error_body(path: str, error: RequestError) -> dict[str, Any]:
    """An error in the shape that the clients of a path know."""
    whole = f"{error} {error.advice}".strip()
    if path.startswith("/v1/"):
        kind = "server_error" if error.status >= 500 else "invalid_request_error"
        return {"error": {"message": whole, "type": kind, "param": None, "code": error.code}}
    if path in tei.PATHS:
        kind = TEI_KINDS.get(error.code, "Validation" if error.status < 500 else "Backend")
        return {"error": whole, "error_type": kind}
    if path in libretranslate.PATHS:
        return {"error": whole}
    return {"error": str(error), "advice": error.advice, "code": error.code}


def status_of(path: str, error: RequestError) -> int:
    """LibreTranslate's clients know a wrong key by another status."""
    is_wrong_key = error.code == "invalid_api_key" and path in libretranslate.PATHS
    return 403 if is_wrong_key else error.status


def answered(path: str, error: RequestError) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a refusal; nothing that was sent is repeated as it was."""
    status = status_of(path, error)
    headers = {"content-type": "application/json"}
    if status in (429, 503):
        headers |= {"retry-after": RETRY, "retry-after-ms": f"{RETRY}000"}
    headers |= {"x-should-retry": "true" if status in (429, 503) else "false"}
    body = json.dumps(error_body(path, error)).encode()
    return status, headers | {"content-length": str(len(body))}, body


def as_refusal(error: Exception) -> RequestError:
    """Any error as one that says its status."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query"))
        return RequestError(f"Invalid request: {place}: {first['msg']}".replace(": :", ":"))
    if isinstance(error, HTTPException):
        return RequestError(str(error.detail), status=error.status_code, code="http")
    if isinstance(error, ClearheadError):
        return RequestError(str(error), error.advice)
    return RequestError(told(error)["error"], status=500, code="server_error")


async def refuse(request: Request, error: Exception) -> Response:
    status, headers, body = answered(request.url.path, as_refusal(error))
    return Response(body, status, headers)


def create_app(
    settings: ServerSettings, load: Load = load, backend_for: BackendFor = no_backend
) -> Door:
    """The whole application behind its door; `load` opens a run folder, and may be another's."""
    shelf = Shelf(
        settings.runs,
        load,
        settings.memory,
        settings.limits.seconds,
        backend_for,
        n_servers=settings.workers,
        n_decoders=settings.n_decoders,
    )
    work = Work(settings, shelf, Gate(), Meter())
    app = FastAPI(
        title="clearhead",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        responses={"default": {"description": "A refusal, in the shape of the API."}},
    )
    for kind in (ClearheadError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, refuse)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.origins, allow_methods=["*"], allow_headers=["*"]
        )
    for api in (own, libretranslate, openai, tei):
        app.include_router(api.routes(work))
    add_health(app, work)
    add_page(app)
    drop_unused_answers(app.openapi())
    return Door(app, work, answered)


def drop_unused_answers(document: dict[str, Any]) -> None:
    """The framework documents an answer (422) that is never given here: bad requests are 400."""
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)


def add_health(app: FastAPI, work: Work) -> None:
    @app.get("/healthz", tags=["health"])
    async def healthz() -> dict[str, str]:
        """Whether the process lives."""
        return {"status": "ok"}

    app.get("/health", tags=["health"])(healthz)
    app.get("/v2/health/live", tags=["health"])(healthz)

    @app.get("/v2/health/ready", tags=["health"])
    @app.get("/readyz", tags=["health"])
    async def readyz() -> JSONResponse:
        """Whether it takes requests: models are loaded, their threads live, it is not stopping."""
        runs = work.shelf.runs.values()
        dead = [run.name for run in runs if run.pool and not run.pool.is_alive]
        is_ready = not (dead or work.gate.draining)
        return JSONResponse({"ready": is_ready, "dead": dead}, 200 if is_ready else 503)

    @app.get("/metrics", tags=["health"], response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Counts and times for Prometheus."""
        work.meter.read(work.shelf)
        return Response(generate_latest(work.meter.registry), media_type=CONTENT_TYPE_LATEST)


def add_page(app: FastAPI) -> None:
    """The page's files as they are; a browser asks each time whether they have changed."""
    files = dict(page_files(PAGE))
    first = "index.html" if "index.html" in files else "look.html"

    async def page(request: Request, path: str = first) -> Response:
        if path not in files:
            raise HTTPException(404, "There is nothing here.")
        content = files[path].read_bytes()
        tag = f'"{sha256(content).hexdigest()[:16]}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        kind = TYPES.get(path[path.rfind(".") :]) or mimetypes.guess_type(path)[0]
        return Response(content, headers=headers, media_type=kind)

    app.get("/", include_in_schema=False)(page)
    app.get("/{path:path}", include_in_schema=False)(page)


def page_files(folder: Traversable, before: str = "") -> Iterator[tuple[str, Traversable]]:
    for file in folder.iterdir():
        if file.is_dir():
            yield from page_files(file, f"{before}{file.name}/")
        else:
            yield f"{before}{file.name}", file
