"""A load for a server: clients that keep a connection and send one request after another.

    .venv/bin/python benchmarks/load.py --port 8000 --clients 64 --seconds 10 < sentences.txt

Prints a JSON object: requests, refusals, errors, percentiles of the latency in milliseconds, and
the CPU seconds of this process. With `--rate` requests are sent at that rate in all, whether the
server keeps up or not; a request that no connection is free for is counted as `unsent`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any


@dataclass
class Load:
    """What clients have seen."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    unsent: int = 0
    items: int = 0

    def summary(self) -> dict[str, Any]:
        """The figures, in milliseconds."""
        return {
            "requests": len(self.latencies),
            "a_second": round(len(self.latencies) / self.seconds, 1),
            "items_a_second": round(self.items / self.seconds, 1),
            **{f"p{q}": percentile(self.latencies, q) for q in (50, 95, 99)},
            "refused": len(self.refusals),
            "refused_p99": percentile(self.refusals, 99),
            "errors": {s: n for s, n in self.statuses.items() if s not in (200, 429, 503)},
            "unsent": self.unsent,
            "cpu_seconds": round(time.process_time(), 2),
        }


def percentile(values: Sequence[float], q: float) -> float | None:
    """A percentile of seconds, in milliseconds."""
    if not values:
        return None
    ordered = sorted(values)
    return round(1000 * ordered[min(len(ordered) - 1, int(len(ordered) * q / 100))], 2)


def request_of(path: str, body: dict[str, Any]) -> bytes:
    """A request as it is sent."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(content) + content


Bodies = Iterator[tuple[bytes, int]]
"""Requests, and how many items each has."""


async def client(
    host: str, port: int, bodies: Bodies, load: Load, end: float, wait: asyncio.Queue[None] | None
) -> None:
    """Send requests over one connection until the end."""
    reader, writer = await asyncio.open_connection(host, port)
    while time.monotonic() < end:
        if wait is not None:
            await wait.get()
        request, items = next(bodies)
        begin = time.monotonic()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        await reader.readexactly(int(fields[b"content-length"]))
        seconds = time.monotonic() - begin
        load.statuses[status] += 1
        if status == 200:
            load.latencies.append(seconds)
            load.items += items
        elif status in (429, 503):
            load.refusals.append(seconds)
        if fields.get(b"connection") == b"close":
            writer.close()
            reader, writer = await asyncio.open_connection(host, port)
    writer.close()


async def paced(rate: float, end: float, load: Load, wait: asyncio.Queue[None]) -> None:
    """Let requests be sent at a rate."""
    begin, sent = time.monotonic(), 0
    while (now := time.monotonic()) < end:
        due = int((now - begin) * rate)
        for _ in range(due - sent):
            if wait.full():
                load.unsent += 1
            else:
                wait.put_nowait(None)
        sent = due
        await asyncio.sleep(0.002)


async def run(
    host: str, port: int, bodies: Bodies, clients: int, seconds: float, rate: float = 0
) -> Load:
    """The load of so many clients for so long."""
    load, begin = Load(), time.monotonic()
    end = begin + seconds
    wait = asyncio.Queue[None](clients) if rate else None
    tasks = [client(host, port, bodies, load, end, wait) for _ in range(clients)]
    running = [asyncio.ensure_future(task) for task in tasks]
    if wait is not None:
        await paced(rate, end, load, wait)
        for _ in range(clients):
            await asyncio.sleep(0)
            if not wait.full():
                wait.put_nowait(None)
    await asyncio.wait(running, timeout=seconds + 60)
    for each in running:
        each.cancel()
    load.seconds = time.monotonic() - begin
    return load


APIS = {
    "clearhead": ("/v1/translate", "text"),
    "libretranslate": ("/translate", "q"),
}


"""The path and the field of the texts of each API."""


def bodies_of(
    api: str, sentences: Sequence[str], size: int, languages: Sequence[str] | None
) -> Bodies:
    """Requests with so many sentences each, again and again."""
    path, name = APIS[api]
    named = dict(zip(("source", "target"), languages or (), strict=False))
    parts = [sentences[i : i + size] for i in range(0, len(sentences), size)]
    return cycle(
        [
            (request_of(path, {name: part if size > 1 else part[0], **named}), len(part))
            for part in parts
        ]
    )


def main(words: list[str] | None = None) -> None:
    """Send the load, and print what was seen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--list", type=int, default=1, help="sentences of a request")
    parser.add_argument("--api", choices=tuple(APIS), default="clearhead")
    parser.add_argument("--languages", nargs=2, help="source and target")
    options = parser.parse_args(words)
    sentences = [line.rstrip("\n") for line in sys.stdin]
    bodies = bodies_of(options.api, sentences, options.list, options.languages)
    load = asyncio.run(
        run(options.host, options.port, bodies, options.clients, options.seconds, options.rate)
    )
    print(json.dumps(load.summary()))


if __name__ == "__main__":
    main()
