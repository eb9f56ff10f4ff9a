"""What every request passes: limits of its size and time, headers of safety, the log, metrics."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Collection
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from clearhead.serve.metrics import Metrics

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""The page loads nothing from elsewhere, and runs no script within its text."""

HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]

SLOWEST, LONGEST = 30.0, 120.0
"""Seconds in which a part of a request must arrive, or a part of an answer must be taken; and
seconds in which the whole request must arrive."""

PART = 65_536
"""Bytes of an answer that are sent at a time."""

POLLS = "/v2/document/"
"""Requests with this path only ask for the state of a document, so they are never refused."""


class Guard:
    """The application with what every request passes, in ASGI.

    It is around everything else, so that a refusal costs little.

    Args:
        app: what answers; its `state` is that of the guard.
        body: bytes of a request at most.
        metrics: count the requests.
        refuse: gives seconds to wait if no request can be accepted now.
        hosts: the names by which clients may call the server, so that a page of a stranger cannot
            reach it by a name of its own (DNS rebinding); empty: any.
    """

    def __init__(
        self,
        app: Starlette,
        *,
        body: int,
        metrics: Metrics,
        refuse: Callable[[], int | None],
        hosts: Collection[str] = (),
    ) -> None:
        self.state = app.state
        self._app, self._body, self._metrics = app, body, metrics
        self._refuse, self._hosts = refuse, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status, received, is_complete = time.monotonic(), 0, 0, False
        too_large = f"the request has more than {self._body:,} bytes"
        scope["notes"] = dict[str, Any]()  # of the request, for its line in the log

        async def limited_receive() -> Message:
            nonlocal received, is_complete
            # After the body, the next message comes when the client goes away.
            if is_complete:
                return await receive()
            left = begin + LONGEST - time.monotonic()
            try:
                message = await asyncio.wait_for(receive(), max(0.0, min(SLOWEST, left)))
            except TimeoutError:
                raise HTTPException(408, "the request did not arrive in time") from None
            received += len(message.get("body", b""))
            is_complete = not message.get("more_body")
            if received > self._body:
                raise HTTPException(413, too_large)
            return message

        async def safe_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            # A reader that takes nothing must not keep the answer in memory for ever. The server
            # waits for the part before it sends the next one.
            body = message.get("body", b"")
            for start in range(0, len(body) - PART, PART):
                part = {**message, "body": body[start : start + PART], "more_body": True}
                await asyncio.wait_for(send(part), SLOWEST)
                message = {**message, "body": body[start + PART :]}
            await asyncio.wait_for(send(message), SLOWEST)

        try:
            headers = dict(scope["headers"])
            length = headers.get(b"content-length", b"0")
            takes = scope["method"] == "POST" and not scope["path"].startswith(POLLS)
            if self._hosts and name_in(headers.get(b"host", b"")) not in self._hosts:
                await answer(safe_send, scope, 403, "the server has another name")
            elif takes and (seconds := self._refuse()) is not None:
                await answer(safe_send, scope, 503, "the server is busy", seconds)
            elif length.isdigit() and int(length) > self._body:
                await answer(safe_send, scope, 413, too_large)
            else:
                await self._app(scope, limited_receive, safe_send)
        except (ConnectionError, TimeoutError):
            pass  # the client has gone, or takes nothing
        finally:
            self._record(scope, status, time.monotonic() - begin)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request, and print its line of the log."""
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.request(scope["method"], route, status, seconds)
        if route not in ("/health", "/ready", "/metrics"):
            line = {
                "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
                "method": scope["method"],
                "route": route,
                "status": status,
                "ms": round(1000 * seconds, 1),
                **scope["notes"],
            }
            print(json.dumps(line, ensure_ascii=False), file=sys.stderr, flush=True)


def name_in(host: bytes) -> str:
    """The name in a Host header, without the port."""
    name = host.decode("latin-1").lower()
    return name.partition("]")[0] + "]" if name.startswith("[") else name.partition(":")[0]


async def answer(
    send: Send, scope: Scope, status: int, what: str, retry_after: int | None = None
) -> None:
    """Send an error in the form of the API that the path belongs to."""
    status, headers, content = error_answer(scope["path"], status, {"what": what}, retry_after)
    body = json.dumps(content).encode()
    start = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    start += [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def error_answer(
    path: str, status: int, error: dict[str, Any], retry_after: int | None = None
) -> tuple[int, dict[str, str], dict[str, Any]]:
    """The status, the headers and the content of an error, as the API of the path has them.

    `error` has what, where, why and todo.
    """
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    if path.startswith("/v1/") or path in ("/health", "/ready", "/metrics"):
        return status, headers, {"error": error}
    message = "; ".join(str(error[part]) for part in ("what", "why", "todo") if error.get(part))
    status = {503: 429, 401: 403}.get(status, status)
    if path.startswith("/v2/"):
        return status, headers, {"message": message}
    return 400 if status == 413 else status, headers, {"error": message}
