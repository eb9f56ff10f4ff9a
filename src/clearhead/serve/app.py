"""The application: all routes, and what every request passes."""

from __future__ import annotations

import os
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from clearhead.api.service import BusyError, LateError, LimitError, StoppedError
from clearhead.device import keep_freed_memory
from clearhead.errors import ClearheadError, ConfigError, DataError, SearchError, TextWarning
from clearhead.serve import deepl, explaining, inside, libretranslate, own, page
from clearhead.serve.documents import Documents
from clearhead.serve.guard import Guard, error_answer
from clearhead.serve.models import UnknownError
from clearhead.serve.server import AccessError, RateError, Server
from clearhead.serve.settings import ServeSettings
from clearhead.serve.store import FullError
from clearhead.version import __version__

STATUSES: dict[type[ClearheadError], int] = {
    UnknownError: 404,
    LimitError: 413,
    AccessError: 401,
    RateError: 429,
    FullError: 429,
    BusyError: 503,
    LateError: 503,
    StoppedError: 503,
    DataError: 400,
    SearchError: 400,
    ConfigError: 400,
}
"""The status of each kind of error; others are 500."""


class Health(BaseModel):
    """Whether the server runs."""

    status: str


def create(settings: ServeSettings) -> Guard:
    """The application with these settings.

    Raises:
        ClearheadError: the settings are wrong, or a model folder cannot be read.
    """
    server = Server(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        warnings.simplefilter("ignore", TextWarning)  # answers have them; the log has no texts
        server.start()
        yield
        server.close()

    app = FastAPI(
        title="clearhead",
        version=__version__,
        description="Models that were trained with clearhead.",
        lifespan=lifespan,
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.server = server
    documents = Documents(server)
    for each in (own, libretranslate, deepl):
        app.include_router(each.router(server, documents))
    if settings.inspect:
        for each in (explaining, inside):
            app.include_router(each.router(server))
    if settings.page:
        app.include_router(page.router(settings))
    _add_operations(app, server)
    _add_errors(app)
    return Guard(
        app,
        body=settings.body,
        metrics=server.metrics,
        refuse=server.refusal,
        hosts=settings.hosts,
    )


def from_environment() -> Guard:
    """The application of a process of its own, with the settings in its environment."""
    keep_freed_memory()
    return create(ServeSettings.from_environment())


def _add_operations(app: FastAPI, server: Server) -> None:
    @app.get("/health", tags=["operations"])
    async def health() -> Health:
        """Whether the server runs."""
        return Health(status="ok")

    @app.get("/ready", tags=["operations"], responses=own.PROBLEMS)
    async def ready() -> Health:
        """Whether every model has translated or classified a text since the start."""
        if not server.is_ready:
            raise StoppedError("the models are not loaded yet")
        return Health(status="ready")

    @app.get(
        "/metrics", tags=["operations"], response_class=PlainTextResponse, responses=own.PROBLEMS
    )
    def metrics(request: Request) -> Response:
        """What the server has done, for Prometheus."""
        if server.keys:
            server.client(request, request.headers.get("authorization", "").partition(" ")[2])
        return Response(server.counts(), media_type="text/plain; version=0.0.4")


def _add_errors(app: FastAPI) -> None:
    """Turn errors into answers of the API that a path belongs to."""

    def answer(
        request: Request, status: int, error: dict[str, Any], retry_after: int | None = None
    ) -> Response:
        path = request.scope["path"]
        status, headers, content = error_answer(path, status, error, retry_after)
        return JSONResponse(content, status, headers)

    @app.exception_handler(ClearheadError)
    async def of_ours(request: Request, error: ClearheadError) -> Response:
        kinds = (kind for kind in type(error).__mro__ if kind in STATUSES)
        status = STATUSES.get(next(kinds, ClearheadError), 500)
        parts = {"what": error.what, "where": error.where, "why": error.why, "todo": error.todo}
        found = {name: str(value) for name, value in parts.items() if value is not None}
        if os.path.isabs(found.get("where", "")):
            del found["where"]  # paths of the server are not for clients
        if status == 500:
            request.scope["notes"]["error"] = str(error)
        return answer(request, status, found, getattr(error, "retry_after", None))

    @app.exception_handler(RequestValidationError)
    async def of_requests(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        found = {"what": f"{place or 'the request'}: {first['msg']}"}
        return answer(request, 400, found)

    @app.exception_handler(HTTPException)
    async def of_routes(request: Request, error: HTTPException) -> Response:
        found = answer(request, error.status_code, {"what": str(error.detail)})
        found.headers.update(error.headers or {})
        return found
