"""What requests share, and the way of each: a thread waits for the pool until the client leaves.

`Work` holds what is shared and counted. A route gets a `Caller`, which does its jobs in threads, or
streams their events; the jobs stop when the client leaves.
"""

import asyncio
import json
import logging
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Summary,
    disable_created_metrics,
)
from starlette.exceptions import HTTPException

from clearhead.errors import ClearheadError, RequestError
from clearhead.serve.models import ServedRun, Shelf
from clearhead.serve.pool import Ticket
from clearhead.serve.settings import ServerSettings

T = TypeVar("T")
PING = 15.0
"""Seconds of silence after which a stream says that it is still there."""
Emit = Callable[[str, Mapping[str, Any]], None]
"""Takes the name of an event and what it says."""
Job = Callable[[Any, Ticket], T]
"""Is given the run's user, which is of the class that the run was asked for."""
StreamedJob = Callable[[Any, Ticket, Emit], object]
POOL = {
    "n_waiting": ("clearhead_waiting_sentences", "Sentences that wait for room in the batch."),
    "n_inside": ("clearhead_decoded_sentences", "Sentences that are decoded together now."),
    "n_steps": ("clearhead_decoding_steps", "Steps since the model was loaded."),
    "n_tokens": ("clearhead_decoded_tokens", "Tokens since the model was loaded."),
}
"""What a pool counts, and what Prometheus calls it."""
log = logging.getLogger("clearhead.serve")
disable_created_metrics()  # type: ignore[no-untyped-call]  # twice as many series, for a date that Prometheus does not need


def event_text(event: str, data: Mapping[str, Any]) -> str:
    """An event as server-sent events have it."""
    return f"event: {event}\ndata: {json.dumps(data, allow_nan=False)}\n\n"


def as_request_error(error: Exception) -> RequestError:
    """Any error as one with an HTTP status; of one that nobody foresaw, the log knows the place."""
    match error:
        case RequestError():
            return error
        case ClearheadError():
            return RequestError(str(error), error.advice)
        case HTTPException():
            return RequestError(str(error.detail), status=error.status_code, code="http")
        case RequestValidationError():
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query"))
            return RequestError(f"Invalid request: {place}: {first['msg']}".replace(": :", ":"))
    place = "".join(traceback.format_tb(error.__traceback__))
    log.error(json.dumps({"mistake": type(error).__name__, "place": place}))
    return RequestError("A mistake of the server, not yours.", status=500, code="server_error")


def error_data(error: Exception) -> dict[str, str]:
    """An error as clearhead's own API tells it."""
    found = as_request_error(error)
    return {"error": str(found), "advice": found.advice, "code": found.code}


class Meter:
    """What Prometheus is told: labels are routes, statuses and runs, never a key, an IP or text."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "clearhead_requests_total", "Answers.", ["route", "status"], registry=self.registry
        )
        self.seconds = Summary(
            "clearhead_request_seconds", "By route.", ["route"], registry=self.registry
        )
        self.all_seconds = Histogram(
            "clearhead_seconds", "Until an answer was whole.", registry=self.registry
        )
        self.refused = Counter(
            "clearhead_refused_total",
            "Requests when all places were taken.",
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "clearhead_in_flight", "Requests that are being answered.", registry=self.registry
        )
        self.pools = {
            count: Gauge(name, text, ["run"], registry=self.registry)
            for count, (name, text) in POOL.items()
        }

    def read_pools(self, shelf: Shelf) -> None:
        """Note how full the pools are."""
        for run in shelf.runs.values():
            if run.pool:
                for count, gauge in self.pools.items():
                    gauge.labels(run.name).set(getattr(run.pool, count))

    def note(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self.requests.labels(route, status).inc()
        self.seconds.labels(route).observe(seconds)
        self.all_seconds.observe(seconds)


class Work:
    """What all requests share: the runs, the threads, the places for requests, the metrics."""

    def __init__(self, settings: ServerSettings, shelf: Shelf) -> None:
        self.settings, self.shelf, self.meter = settings, shelf, Meter()
        n_threads = settings.limits.requests * settings.limits.n
        self.threads = ThreadPoolExecutor(n_threads, thread_name_prefix="request")
        self.draining = False  # a server that stops finishes what it has, and takes nothing new
        self.in_flight = 0  # requests that are being answered
        self.n_taken = 0  # of the places for requests to models
        self.n_watching = 0  # clients that follow a training
        self.meter.in_flight.set_function(lambda: self.in_flight)

    def take_place(self) -> None:
        """Take one of the places for requests; where none is left, the client is told at once."""
        if self.n_taken >= self.settings.limits.requests:
            self.meter.refused.inc()
            raise RequestError("Slowdown: too many requests", "Ask again in a second.", 429, "busy")
        self.n_taken += 1

    def free_place(self) -> None:
        self.n_taken -= 1


class Caller:
    """A client that waits for an answer; when it leaves, all that is done for it ends."""

    def __init__(self, request: Request) -> None:
        self.request, self.gone = request, threading.Event()
        self.work: Work = request.app.state.work
        self.shelf, self.limits = self.work.shelf, self.work.settings.limits

    def do(self, run: ServedRun, job: Callable[..., T], *more: Any) -> T:
        """Do a job in this thread, with the user of a run and a ticket of its pool."""
        with self.shelf.using(run, self.gone) as (user, ticket):
            return job(user, ticket, *more)

    async def in_thread(self, task: Callable[..., T], *more: Any) -> T:
        """What a short task finds, beside the event loop; it takes no place."""
        return await asyncio.get_running_loop().run_in_executor(self.work.threads, task, *more)

    async def answer(self, run: ServedRun, job: Job[T]) -> T:
        """What the job finds, unless the client leaves before."""
        return (await self.answers(run, [job]))[0]

    async def answers(self, run: ServedRun, jobs: Sequence[Job[T]]) -> list[T]:
        """Several jobs side by side."""
        self.work.take_place()
        found = [asyncio.wrap_future(self.work.threads.submit(self.do, run, job)) for job in jobs]
        leaving = asyncio.ensure_future(disconnected(self.request))
        leaving.add_done_callback(lambda _: self.gone.set())
        try:
            return await asyncio.gather(*found)
        finally:
            self.gone.set()
            leaving.cancel()
            await asyncio.wait(found)
            self.work.free_place()

    def stream(
        self,
        run: ServedRun,
        job: StreamedJob,
        as_event: Callable[[str, Mapping[str, Any]], str] = event_text,
    ) -> "EventStream":
        """The events of a job as they come, as an API writes them."""
        self.work.take_place()  # before the first byte: a full server says so by its status
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()

        def put(text: str | None) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, text)

        def emit(event: str, data: Mapping[str, Any]) -> None:
            put(as_event(event, data))

        def task() -> None:
            try:
                self.do(run, job, emit)
            except Exception as error:
                emit("error", error_data(error))
            finally:
                put(None)
                loop.call_soon_threadsafe(self.work.free_place)

        self.work.threads.submit(task)
        return EventStream(pinging(queue), self.gone.set)


async def caller_of(request: Request) -> Caller:
    return Caller(request)


Asking = Annotated[Caller, Depends(caller_of)]
"""Who asks, as a parameter of a route."""


async def disconnected(request: Request) -> None:
    """Wait until the client leaves; its body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class EventStream(StreamingResponse):
    """Server-sent events (SSE); when they end, or the client leaves, what they hold is freed."""

    def __init__(self, events: AsyncIterator[str], free: Callable[[], None]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self.free = free

    async def __call__(self, *asgi: Any) -> None:
        try:
            await super().__call__(*asgi)
        finally:
            self.free()


async def pinging(queue: "asyncio.Queue[str | None]") -> AsyncIterator[str]:
    """What stands in a queue up to None; a comment where nothing comes for long."""
    while True:
        try:
            text = await asyncio.wait_for(queue.get(), PING)
        except TimeoutError:
            text = ": still here\n\n"
        if text is None:
            return
        yield text
