"""The application: all routes, one shape of errors for each API, the page, and the server's health."""

import json
import mimetypes
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
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
from clearhead.serve.models import BackendFor, Shelf
from clearhead.serve.settings import ServerSettings
from clearhead.serve.work import Asking, Work, as_request_error, error_data

RETRY = "1"
"""Seconds after which a client that was told to slow down may ask again."""
PAGE_FOLDER = Path(str(PAGE))
FILES = {
    path.relative_to(PAGE_FOLDER).as_posix(): path
    for path in PAGE_FOLDER.rglob("*")
    if path.is_file()
}
"""The page's files by the paths that a browser asks for."""
FIRST = "index.html" if "index.html" in FILES else "look.html"
TEI_PATHS = {getattr(route, "path", "") for route in tei.api.routes}
LIBRETRANSLATE_PATHS = {
    "/health",
    *(getattr(route, "path", "") for route in libretranslate.api.routes),
}
mimetypes.add_type("text/javascript", ".js")  # some systems call it application/javascript

health = APIRouter(tags=["health"])
page = APIRouter(include_in_schema=False)


def create_app(settings: ServerSettings, backend_for: BackendFor) -> Door:
    """The whole application behind its door."""
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
    for routes in (own.api, libretranslate.api, openai.api, tei.api, health, page):
        app.include_router(routes)
    app.state.work = Work(settings, Shelf(settings, backend_for))
    return Door(app, app.state.work, refusal)


async def refuse(request: Request, error: Exception) -> Response:
    return refusal(request.scope["path"], as_request_error(error))


def refusal(path: str, error: RequestError) -> Response:
    """An error as an answer; nothing that was sent is repeated as it was."""
    # LibreTranslate's clients know a wrong key by another status.
    is_wrong_key = error.code == "invalid_api_key" and path in LIBRETRANSLATE_PATHS
    status = 403 if is_wrong_key else error.status
    headers = {"x-should-retry": "false"}
    if status in (429, 503):
        headers = {"x-should-retry": "true", "retry-after": RETRY, "retry-after-ms": f"{RETRY}000"}
    body = json.dumps(error_body(path, error))
    return Response(body, status, headers, media_type="application/json")


def error_body(path: str, error: RequestError) -> dict[str, Any]:
    """An error in the shape that the clients of a path know."""
    whole = f"{error} {error.advice}".strip()
    if path.startswith("/v1/"):
        kind = "server_error" if error.status >= 500 else "invalid_request_error"
        return openai.openai_error(whole, kind, error.code)
    if path in TEI_PATHS:
        kind = "Validation" if error.status < 500 else "Backend"
        return {"error": whole, "error_type": tei.ERROR_TYPES.get(error.code, kind)}
    return {"error": whole} if path in LIBRETRANSLATE_PATHS else dict(error_data(error))


@health.get("/v2/health/live", name="healthz")
@health.get("/health", name="healthz")
@health.get("/healthz", name="healthz")
async def tell_life() -> dict[str, str]:
    """Whether the process lives."""
    return {"status": "ok"}


@health.get("/v2/health/ready", name="readyz")
@health.get("/readyz", name="readyz")
async def tell_readiness(caller: Asking) -> JSONResponse:
    """Whether it takes requests: models are loaded, their threads live, it is not stopping."""
    runs = caller.shelf.runs.values()
    dead = [run.name for run in runs if run.pool and not run.pool.is_alive]
    is_ready = not (dead or caller.work.draining)
    return JSONResponse({"ready": is_ready, "dead": dead}, 200 if is_ready else 503)


@health.get("/metrics", name="metrics", response_class=PlainTextResponse)
async def tell_metrics(caller: Asking) -> Response:
    """Counts and times for Prometheus."""
    meter = caller.work.meter
    meter.read_pools(caller.shelf)
    return Response(generate_latest(meter.registry), media_type=CONTENT_TYPE_LATEST)


@page.get("/{path:path}")
@page.get("/")
async def send_file(request: Request, path: str = FIRST) -> Response:
    """A file of the page as it is; a browser asks each time whether it has changed."""
    if path not in FILES:
        raise HTTPException(404, "There is nothing here.")
    content = FILES[path].read_bytes()
    tag = f'"{sha256(content).hexdigest()[:16]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=mimetypes.guess_type(path)[0])
