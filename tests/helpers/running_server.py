"""A server of the application on a free port, in a thread."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from clearhead.serve.app import create
from clearhead.serve.server import Server
from clearhead.serve.settings import ServeSettings


@dataclass(frozen=True)
class Answer:
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class RunningServer:
    """A server that runs, and what it has."""

    url: str
    server: Server
    stop: Callable[[], None] = lambda: None

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        content = json.dumps(body).encode()
        return self.ask("POST", path, content, {"content-type": "application/json", **headers})

    def ask(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        request = urllib.request.Request(self.url + path, content, dict(headers), method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as found:
                return Answer(found.status, dict(found.headers), found.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, dict(error.headers), error.read())


@contextmanager
def running(*folders: Path, storage: Path, **settings: Any) -> Iterator[RunningServer]:
    """A server of model folders."""
    app = create(ServeSettings(tuple(map(str, folders)), str(storage), **settings))
    config = uvicorn.Config(app, port=0, log_level="warning", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    end = time.monotonic() + 60
    while not (server.started and app.state.server.is_ready):
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < end
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]

    def stop() -> None:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()

    try:
        yield RunningServer(f"http://127.0.0.1:{port}", app.state.server, stop)
    finally:
        stop()
