"""The way of a request: a thread of its own waits for the pool, and stops when the client leaves."""

import asyncio
import json
import logging
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import StreamingResponse

from clearhead.errors import ClearheadError, RequestError
from clearhead.serve.meter import Gate, Meter
from clearhead.serve.models import ServedRun, Shelf
from clearhead.serve.pool import Ticket
from clearhead.serve.settings import ServerSettings
from clearhead.tasks import User

T = TypeVar("T")
PING = 15.0
"""Seconds of silence after which a stream says that it is still there."""
Emit = Callable[[str, Mapping[str, Any]], None]
"""Takes the name of an event and what it says."""
Job = Callable[[User, Ticket], T]
StreamedJob = Callable[[User, Ticket, Emit], None]
Write = Callable[[str, Mapping[str, Any]], str]
"""How an API writes an event of a stream."""
log = logging.getLogger("clearhead.serve")


def written(event: str, data: Mapping[str, Any]) -> str:
    """An event as server-sent events have it."""
    return f"event: {event}\ndata: {json.dumps(data, allow_nan=False)}\n\n"


class EventStream(StreamingResponse):
    """Server-sent events; when they end, or the client leaves, what they hold is given back."""

    def __init__(self, events: AsyncIterator[str], free: Callable[[], None]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self.free = free

    async def __call__(self, *asgi: Any) -> None:
        try:
            await super().__call__(*asgi)
        finally:
            self.free()


class Caller:
    """A client and the tickets that are taken for it; when it leaves, so do all of them."""

    def __init__(self) -> None:
        self.tickets: list[Ticket] = []
        self.has_left = False

    def add(self, ticket: Ticket) -> None:
        self.tickets.append(ticket)
        if self.has_left:
            ticket.leave()

    def leave(self) -> None:
        self.has_left = True
        for ticket in self.tickets:
            ticket.leave()


@dataclass
class Work:
    """What all routes need: the runs, the threads, and the places for requests."""

    settings: ServerSettings
    shelf: Shelf
    gate: Gate
    meter: Meter

    def __post_init__(self) -> None:
        n_threads = self.settings.limits.requests * self.settings.limits.n
        self.threads = ThreadPoolExecutor(n_threads, thread_name_prefix="request")
        self.looking = threading.Lock()
        self.n_taken = 0

    def take_place(self) -> None:
        """Take one of the places for requests; where none is left, the client is told at once."""
        if self.n_taken >= self.settings.limits.requests:
            self.meter.refused.inc()
            raise RequestError("Slowdown: too many requests", "Ask again in a second.", 429, "busy")
        self.n_taken += 1

    def free_place(self) -> None:
        self.n_taken -= 1

    @contextmanager
    def used(self, run: ServedRun, caller: Caller) -> Iterator[tuple[User, Ticket]]:
        with self.shelf.using(run) as (user, ticket):
            caller.add(ticket)
            yield user, ticket

    async def in_thread(self, work: Callable[[], T]) -> T:
        """What a short piece of work finds, beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    async def answer(self, request: Request, run: ServedRun, job: Job[T]) -> T:
        """What the job finds, unless the client leaves before."""
        return (await self.answers(request, run, [job]))[0]

    async def answers(self, request: Request, run: ServedRun, jobs: list[Job[T]]) -> list[T]:
        """Several jobs side by side, for one client."""
        self.take_place()
        caller = Caller()

        def work(job: Job[T]) -> T:
            with self.used(run, caller) as (user, ticket):
                return job(user, ticket)

        found = [asyncio.wrap_future(self.threads.submit(work, job)) for job in jobs]
        gone: asyncio.Future[Any] = asyncio.ensure_future(left(request))
        try:
            whole: asyncio.Future[list[T]] = asyncio.gather(*found)
            either: list[asyncio.Future[Any]] = [whole, gone]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                caller.leave()
            return await whole
        finally:
            caller.leave()
            gone.cancel()
            await asyncio.wait(found)
            self.free_place()

    def stream(self, run: ServedRun, job: StreamedJob, write: Write = written) -> EventStream:
        """The events of a job as they come."""
        self.take_place()  # before the first byte: a full server says so by its status
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()
        caller = Caller()

        def put(text: str | None) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, text)

        def emit(event: str, data: Mapping[str, Any]) -> None:
            put(write(event, data))

        def work() -> None:
            try:
                with self.used(run, caller) as (user, ticket):
                    job(user, ticket, emit)
            except Exception as error:
                emit("error", told(error))
            finally:
                put(None)
                loop.call_soon_threadsafe(self.free_place)

        self.threads.submit(work)
        return EventStream(pinging(queue), caller.leave)


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


async def to_the_end(events: AsyncIterator[str]) -> AsyncIterator[str]:
    """Events; if an error ends them, it is the last: the status was sent before the first."""
    try:
        async for event in events:
            yield event
    except Exception as error:
        yield written("error", told(error))


async def left(request: Request) -> None:
    """Returns when the client leaves; its body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def told(error: Exception) -> dict[str, str]:
    """What a client may know of an error; of one that nobody foresaw, the log knows the place."""
    if isinstance(error, ClearheadError):
        code = error.code if isinstance(error, RequestError) else "invalid_request"
        return {"error": str(error), "advice": error.advice, "code": code}
    place = "".join(traceback.format_tb(error.__traceback__))
    log.error(json.dumps({"mistake": type(error).__name__, "place": place}))
    return {"error": "A mistake of the server, not yours.", "advice": "", "code": "server_error"}
