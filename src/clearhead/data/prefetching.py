"""Work done ahead of time, by a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar, cast

PREPARED_BATCHES = 4
"""Batches that training keeps ready."""

T = TypeVar("T")


def prefetch(items: Iterator[T], ahead: int) -> Iterator[T]:
    """The same items, made by another thread up to `ahead` items before they are asked for."""
    ready: queue.Queue[tuple[str, T | BaseException | None]] = queue.Queue(ahead)
    stopped = threading.Event()

    def put(kind: str, item: T | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                ready.put((kind, item), timeout=0.1)
            except queue.Full:
                continue
            return

    def produce() -> None:
        try:
            for item in items:
                put("item", item)
                if stopped.is_set():
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    thread = threading.Thread(target=produce, name="clearhead-batches", daemon=True)
    thread.start()
    try:
        while True:
            kind, item = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise cast(BaseException, item)
            yield cast(T, item)
    finally:
        stopped.set()
        thread.join()
