"""The API of LibreTranslate, for its clients."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from clearhead.errors import DataError
from clearhead.serve.bodies import EVERY, MULTIPART, Fields, File
from clearhead.serve.documents import Documents
from clearhead.serve.foreign import choose_for_document, document_format, translate
from clearhead.serve.server import Server, has_gone
from clearhead.text.documents import FORMATS
from clearhead.text.languages import name_of

Text = Annotated[str, Field(max_length=1_000_000)]
Code = Annotated[str, Field(max_length=50)]


class WithKey(Fields):
    """Fields with an API key; any is accepted if the server needs none."""

    api_key: str | None = None


class TranslateFields(WithKey):
    """Texts to translate."""

    q: Text | Annotated[list[Text], Field(min_length=1, max_length=1000)]
    source: Code = Field(description="source language, or `auto` to detect it")
    target: Code
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, le=10, description="further translations of each text")


class DetectFields(WithKey):
    """A text whose language is detected."""

    q: Text


class FileFields(WithKey):
    """A document to translate."""

    file: File
    source: Code
    target: Code


class Detected(BaseModel):
    """A language, and its probability in percent."""

    confidence: float
    language: str


class TranslateAnswer(BaseModel):
    """The translation of a text, or the translations of a list."""

    translatedText: str | list[str]  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: Detected | list[Detected] | None = None  # noqa: N815


class FileAnswer(BaseModel):
    """Where the translated document is."""

    translatedFileUrl: str  # noqa: N815


class Named(BaseModel):
    """A language."""

    code: str
    name: str


class Source(Named):
    """A source language, and the languages into which it is translated."""

    targets: list[str]


class Pair(BaseModel):
    """The languages that a page shows first."""

    source: Named
    target: Named


class Settings(BaseModel):
    """What a page needs to know of this server."""

    charLimit: int  # noqa: N815
    frontendTimeout: int  # noqa: N815
    apiKeys: bool  # noqa: N815
    keyRequired: bool  # noqa: N815
    suggestions: bool
    filesTranslation: bool  # noqa: N815
    supportedFilesFormat: list[str]  # noqa: N815
    language: Pair


class Problem(BaseModel):
    """An error."""

    error: str


ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "model": Problem,
        "description": "400: a field is missing or wrong, or the text is too long; 403: the API "
        "key is missing or wrong; 429: the server is busy, or the client sends too much",
    }
}


def router(server: Server, documents: Documents) -> APIRouter:
    """The routes of LibreTranslate's API."""
    api = APIRouter(tags=["LibreTranslate"], responses=ERRORS)

    @api.post(
        "/translate",
        response_model_exclude_none=True,
        openapi_extra=TranslateFields.described(*EVERY),
    )
    async def translate_(
        request: Request, fields: Annotated[TranslateFields, Depends(TranslateFields.of)]
    ) -> TranslateAnswer:
        """Translate a text, or a list of texts. The fields may also be in the query string."""
        client = server.client(request, fields.api_key)
        is_list = isinstance(fields.q, list)
        texts = fields.q if isinstance(fields.q, list) else [fields.q]
        languages = _source(fields.source), fields.target
        extra = {"alternatives": fields.alternatives}
        found = await translate(server, request, client, texts, languages, fields.format, **extra)
        all_texts = [[each.data.decode("utf-8", "replace") for each in ranks] for _, ranks in found]
        best = [each[0] for each in all_texts]
        others = [[x for x in dict.fromkeys(each[1:]) if x != each[0]] for each in all_texts]
        detected = [_detected(each.source, each.probability or 0.0) for each, _ in found]
        return TranslateAnswer(
            translatedText=best if is_list else best[0],
            alternatives=(others if is_list else others[0]) if fields.alternatives else None,
            detectedLanguage=None
            if languages[0] is not None
            else (detected if is_list else detected[0]),
        )

    @api.post("/detect", openapi_extra=DetectFields.described(*EVERY))
    async def detect(
        request: Request, fields: Annotated[DetectFields, Depends(DetectFields.of)]
    ) -> list[Detected]:
        """The languages of a text among those that this server translates, the best one first."""
        server.client(request, fields.api_key)
        found = await asyncio.to_thread(server.models.detect, fields.q)
        return [_detected(*each) for each in found]

    @api.get("/languages")
    def languages() -> list[Source]:
        """The languages of this server."""
        targets = dict[str, list[str]]()
        for source, target in server.models.pairs:
            targets.setdefault(source, []).append(target)
        return [
            Source(code=each, name=name_of(each), targets=targets.get(each, []))
            for each in dict.fromkeys([*targets, *(b for _, b in server.models.pairs)])
        ]

    @api.post("/translate_file", openapi_extra=FileFields.described(MULTIPART))
    async def translate_file(
        request: Request, fields: Annotated[FileFields, Depends(FileFields.of)]
    ) -> FileAnswer:
        """Translate a document; the answer comes when the translation can be downloaded."""
        client = server.client(request, fields.api_key)
        file = fields.file
        form = document_format(file.name)
        languages = _source(fields.source), fields.target
        document = file.content, form, file.name
        chosen = await asyncio.to_thread(choose_for_document, server, *document, *languages)
        server.note(request, chosen.name)
        key = documents.start(chosen.service, client, file.content, file.name, form)
        gone = asyncio.create_task(has_gone(request))
        try:
            while (state := documents.state(key))["state"] in ("waiting", "translating"):
                await asyncio.wait({gone}, timeout=0.1)
                if gone.done():
                    documents.remove(key)
        finally:
            gone.cancel()
        if state["error"] is not None:
            raise DataError(state["error"])
        host, root = request.headers.get("host", ""), request.scope.get("root_path", "")
        ending = FORMATS[form].endings[0]
        url = f"{request.scope['scheme']}://{host}{root}/download_file/{key}{ending}"
        return FileAnswer(translatedFileUrl=url)

    @api.get(
        "/download_file/{name}",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}},
    )
    def download_file(name: str) -> Response:
        """A translated document, for an hour."""
        return documents.answer(name.partition(".")[0])

    @api.post("/suggest")
    def suggest() -> Response:
        """Refused: this server keeps no suggestions, which `/frontend/settings` says, too."""
        raise HTTPException(403, "this server keeps no suggestions")

    @api.get("/frontend/settings")
    def settings() -> Settings:
        """What a page needs to know of this server."""
        source, target = next(iter(server.models.pairs), ("", ""))
        return Settings(
            charLimit=server.settings.characters,
            frontendTimeout=500,
            apiKeys=bool(server.keys),
            keyRequired=bool(server.keys),
            suggestions=False,
            filesTranslation=True,
            supportedFilesFormat=[each for form in FORMATS.values() for each in form.endings],
            language=Pair(
                source=Named(code=source, name=name_of(source)),
                target=Named(code=target, name=name_of(target)),
            ),
        )

    @api.get("/spec", include_in_schema=False)
    def spec(request: Request) -> Response:
        """The description of all APIs of this server."""
        return JSONResponse(request.app.openapi())

    return api


def _source(language: str) -> str | None:
    return None if language.lower() == "auto" else language


def _detected(language: str, probability: float) -> Detected:
    return Detected(confidence=round(100 * probability, 1), language=language)
