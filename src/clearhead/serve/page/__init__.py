"""The page of a server: one HTML file, plain ES modules, and the modules of the report.

All files are read when the server starts, so that no path of a request reaches the file system.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response

from clearhead.inspect.report import page as report_page
from clearhead.serve.settings import ServeSettings
from clearhead.text.documents import FORMATS

FOLDER = Path(__file__).parent

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
}


def router(settings: ServeSettings) -> APIRouter:
    """The routes of the page: `/`, and `/page/…` with its files."""
    pages = APIRouter(include_in_schema=False)
    contents = {**_files(), "settings.json": json.dumps(_public(settings)).encode()}
    files = {name: (TYPES[Path(name).suffix], content) for name, content in contents.items()}

    def answer(request: Request, name: str) -> Response:
        if name not in files:
            return Response("there is no such file", 404, media_type="text/plain")
        kind, content = files[name]
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    @pages.get("/")
    def page(request: Request) -> Response:
        return answer(request, "page.html")

    @pages.get("/page/{name:path}")
    def file(request: Request, name: str) -> Response:
        return answer(request, name)

    return pages


def _public(settings: ServeSettings) -> dict[str, object]:
    """The settings that the page has to know."""
    return {
        "characters": settings.characters,
        "bytes": settings.body,
        "normalise": settings.normalise,
        "inspect": settings.inspect,
        "endings": sorted(ending for each in FORMATS.values() for ending in each.endings),
    }


def _files() -> dict[str, bytes]:
    """The files by their names: our own, and those of the report below `report/`."""
    found = {path.name: path for path in FOLDER.iterdir() if path.suffix in TYPES}
    for path in report_page.FOLDER.iterdir():
        if path.suffix in (".js", ".css"):
            found[f"report/{path.name}"] = path
    return {name: path.read_bytes() for name, path in found.items()}
