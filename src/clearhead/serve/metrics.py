"""What a server has done, in the format of Prometheus. No label has a text or a key."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from clearhead.api.service import Batch

MULTIPLE = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder in which several processes count together."""

SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The counters of a process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "clearhead_requests_total",
            "Requests",
            ["method", "route", "status"],
            registry=registry,
        )
        self._duration = Histogram(
            "clearhead_request_seconds",
            "Time from a request to its answer",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self._waiting = Gauge(
            "clearhead_waiting_requests",
            "Requests that a model has accepted and not finished",
            ["model"],
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._items = Histogram(
            "clearhead_batch_items",
            "Sentences or inputs that were computed together",
            ["model"],
            buckets=SIZES,
            registry=registry,
        )
        self._tokens = Counter(
            "clearhead_source_tokens_total", "Source tokens", ["model"], registry=registry
        )
        self._seconds = Counter(
            "clearhead_batch_seconds_total", "Time in the model", ["model"], registry=registry
        )

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; `status` is 0 if it had no answer."""
        method = method if method in METHODS else "other"
        self._requests.labels(method, route, status).inc()
        self._duration.labels(route).observe(seconds)

    def batch(self, model: str, batch: Batch) -> None:
        """Count what a model has computed."""
        self._items.labels(model).observe(batch.items)
        self._tokens.labels(model).inc(batch.tokens)
        self._seconds.labels(model).inc(batch.seconds)

    def waiting(self, model: str, count: int) -> None:
        """Set how many requests a model has."""
        self._waiting.labels(model).set(count)

    def text(self) -> bytes:
        """All counters, of all processes."""
        if MULTIPLE not in os.environ:
            return generate_latest(self._registry)
        for path in Path(os.environ[MULTIPLE]).glob("gauge_live*.db"):
            process = int(path.stem.rpartition("_")[2])
            if not _runs(process):
                with suppress(FileNotFoundError):  # another process has done it
                    mark_process_dead(process)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
        return generate_latest(registry)


def _runs(process: int) -> bool:
    """Whether a process still runs."""
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True
