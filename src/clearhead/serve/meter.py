"""What is counted: requests for the drain, and all that Prometheus is told."""

import asyncio
from dataclasses import dataclass, field

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Summary,
    disable_created_metrics,
)

from clearhead.serve.models import Shelf

POOL = {
    "waiting_sentences": "Sentences that wait for room in the batch.",
    "decoded_sentences": "Sentences that are decoded together now.",
    "decoding_steps": "Steps since the model was loaded.",
    "decoded_tokens": "Tokens since the model was loaded.",
}

disable_created_metrics()  # type: ignore[no-untyped-call]  # twice as many series, for a date that Prometheus does not need


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
            name: Gauge(f"clearhead_{name}", text, ["run"], registry=self.registry)
            for name, text in POOL.items()
        }

    def read(self, shelf: Shelf) -> None:
        """Note how full the pools are."""
        for run in shelf.runs.values():
            if run.pool:
                values = (
                    len(run.pool.waiting),
                    run.pool.n_inside,
                    run.pool.n_steps,
                    run.pool.n_tokens,
                )
                for gauge, value in zip(self.pools.values(), values, strict=True):
                    gauge.labels(run.name).set(value)


@dataclass
class Gate:
    """Whether the server takes requests, and how many it has."""

    draining: bool = False
    in_flight: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event)
