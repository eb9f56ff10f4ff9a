"""The API of DeepL, version 2, for its clients."""

from __future__ import annotations

import asyncio
import csv
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, BeforeValidator, Field

from clearhead.api.service import LimitError
from clearhead.errors import DataError
from clearhead.serve.bodies import JSON, MULTIPART, URLENCODED, Fields, File
from clearhead.serve.documents import Documents
from clearhead.serve.foreign import choose, choose_for_document, document_format, translate
from clearhead.serve.models import UnknownError
from clearhead.serve.server import Server
from clearhead.serve.store import FullError
from clearhead.text.documents import Format, Reader, html
from clearhead.text.documents.plain import LINES, PARAGRAPHS, WHOLE, read_text
from clearhead.text.documents.xml import read_xml
from clearhead.text.languages import base, name_of
from clearhead.text.units import Document

KIND = "glossary"

MOST_GLOSSARIES, LARGEST_GLOSSARY = 1000, 100_000
"""Glossaries of a server, and bytes of one: they stay until somebody deletes them."""

CHARACTER_LIMIT = 10**12
"""The limit that clients are shown; there is none."""

REGIONS = {"en": ("EN-GB", "EN-US"), "pt": ("PT-BR", "PT-PT")}
"""Languages that clients name with a region if they are the target."""


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _tags(value: object) -> object:
    return value.split(",") if isinstance(value, str) else value


Code = Annotated[str, Field(max_length=50)]
Text = Annotated[str, Field(max_length=1_000_000)]
Texts = Annotated[list[Text], BeforeValidator(_listed), Field(min_length=1, max_length=1000)]
Tags = Annotated[list[Code], BeforeValidator(_tags), Field(max_length=1000)]
Ids = Annotated[list[Code], BeforeValidator(_tags), Field(max_length=10)]
Split = Annotated[Literal["0", "1", "nonewlines"], BeforeValidator(str)]


class TranslateFields(Fields):
    """Texts to translate."""

    text: Texts
    source_lang: Code | None = Field(None, description="by default the text shows it")
    target_lang: Code
    split_sentences: Split | None = Field(
        None, description="0: no; 1: also at line breaks; nonewlines: not at line breaks"
    )
    tag_handling: Literal["xml", "html"] | None = None
    outline_detection: bool = Field(
        True, description="whether an element of XML without text beside it ends a sentence"
    )
    ignore_tags: Tags = Field([], description="elements whose content stays as it is")
    splitting_tags: Tags = Field([], description="elements of XML that end a sentence")
    non_splitting_tags: Tags = Field([], description="elements of XML within a sentence")
    glossary_id: Code | None = None
    glossary_ids: Ids = Field([], description="of several entries for a term, the first counts")
    context: str | None = Field(None, description="ignored: models read single sentences")
    formality: str | None = Field(None, description="ignored")


class LanguageFields(Fields):
    """Which side of the translators is listed."""

    type: Literal["source", "target"] = "source"


class GlossaryFields(Fields):
    """A glossary."""

    name: Annotated[str, Field(min_length=1, max_length=1000)]
    source_lang: Code
    target_lang: Code
    entries: str
    entries_format: Literal["tsv", "csv"] = "tsv"


class UploadFields(Fields):
    """A document to translate."""

    file: File
    filename: Annotated[str, Field(max_length=1000)] | None = None
    source_lang: Code | None = None
    target_lang: Code
    glossary_id: Code | None = None
    glossary_ids: Ids = Field([])
    output_format: Code | None = Field(None, description="only that of the document")


class KeyFields(Fields):
    """What the upload of a document has answered."""

    document_key: Code


class Translation(BaseModel):
    """The translation of a text."""

    detected_source_language: str
    text: str
    billed_characters: int


class TranslateAnswer(BaseModel):
    """The translations of all texts."""

    translations: list[Translation]


class Language(BaseModel):
    """A language."""

    language: str
    name: str
    supports_formality: bool = False


class Usage(BaseModel):
    """Characters of texts that this process has translated since its start."""

    character_count: int
    character_limit: int


class GlossaryPair(BaseModel):
    """Languages that a glossary may have."""

    source_lang: str
    target_lang: str


class GlossaryPairs(BaseModel):
    """All pairs of languages that a glossary may have."""

    supported_languages: list[GlossaryPair]


class Glossary(GlossaryPair):
    """A glossary without its entries."""

    glossary_id: str
    name: str
    ready: bool = True
    creation_time: str
    entry_count: int


class GlossaryList(BaseModel):
    """All glossaries."""

    glossaries: list[Glossary]


class Handle(BaseModel):
    """What names an uploaded document."""

    document_id: str
    document_key: str


class Status(BaseModel):
    """The state of a document."""

    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    billed_characters: int | None = None
    error_message: str | None = None


class Problem(BaseModel):
    """An error."""

    message: str


ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "model": Problem,
        "description": "400: a field is missing or wrong; 403: the key is missing or wrong; 404: "
        "there is no such document or glossary; 413: the text is too long; 429: the server is "
        "busy, or the client sends too much. There are no quotas, so 456 does not occur.",
    }
}


async def client_of(request: Request) -> str:
    """The client that sent a request, by `Authorization: DeepL-Auth-Key KEY` if keys are needed."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    server: Server = request.app.state.server
    return server.client(request, key.strip() if scheme.lower() == "deepl-auth-key" else None)


Client = Annotated[str, Depends(client_of)]


def router(server: Server, documents: Documents) -> APIRouter:
    """The routes of DeepL's API."""
    api = APIRouter(prefix="/v2", tags=["DeepL"], responses=ERRORS)
    glossaries = Glossaries(server)
    used = 0

    @api.post("/translate", openapi_extra=TranslateFields.described(JSON, URLENCODED))
    async def translate_(
        request: Request,
        client: Client,
        fields: Annotated[TranslateFields, Depends(TranslateFields.of)],
    ) -> TranslateAnswer:
        """Translate texts. Fields that are not described have no effect."""
        nonlocal used
        terms = await asyncio.to_thread(glossaries.terms, client, fields)
        languages = fields.source_lang, fields.target_lang
        found = await translate(
            server, request, client, fields.text, languages, format_of(fields), terms=terms
        )
        used += sum(map(len, fields.text))
        return TranslateAnswer(
            translations=[
                Translation(
                    detected_source_language=base(chosen.source).upper(),
                    text=best.data.decode("utf-8", "replace"),
                    billed_characters=len(text),
                )
                for text, (chosen, (best, *_)) in zip(fields.text, found, strict=True)
            ]
        )

    @api.get("/languages", openapi_extra=LanguageFields.in_query())
    def languages(
        client: Client, fields: Annotated[LanguageFields, Depends(LanguageFields.of)]
    ) -> list[Language]:
        """The source languages or the target languages."""
        if fields.type == "source":
            codes = dict.fromkeys(base(source) for source, _ in server.models.pairs)
            return [Language(language=each.upper(), name=name_of(each)) for each in codes]
        targets = (target for _, target in server.models.pairs)
        codes = (REGIONS.get(target.lower(), (target.upper(),)) for target in targets)
        found = dict.fromkeys(code for each in codes for code in each)
        return [Language(language=code, name=name_of(code)) for code in found]

    @api.get("/usage")
    def usage(client: Client) -> Usage:
        """Characters of texts that this process has translated since its start; no limit counts."""
        return Usage(character_count=used, character_limit=CHARACTER_LIMIT)

    @api.get("/glossary-language-pairs")
    def glossary_pairs(client: Client) -> GlossaryPairs:
        """The pairs of languages that a glossary may have."""
        pairs = dict.fromkeys((base(a), base(b)) for a, b in server.models.pairs)
        return GlossaryPairs(
            supported_languages=[GlossaryPair(source_lang=a, target_lang=b) for a, b in pairs]
        )

    @api.post(
        "/glossaries", status_code=201, openapi_extra=GlossaryFields.described(JSON, URLENCODED)
    )
    def create_glossary(
        client: Client, fields: Annotated[GlossaryFields, Depends(GlossaryFields.of)]
    ) -> Glossary:
        """Keep a glossary; with API keys, only their owner can use it."""
        return glossaries.add(client, fields)

    @api.get("/glossaries")
    def list_glossaries(client: Client) -> GlossaryList:
        """All glossaries of a client."""
        return GlossaryList(glossaries=glossaries.all(client))

    @api.get("/glossaries/{id}")
    def glossary(client: Client, id: str) -> Glossary:
        """A glossary without its entries."""
        return glossaries.one(client, id)

    @api.get(
        "/glossaries/{id}/entries",
        response_class=Response,
        responses={200: {"content": {"text/tab-separated-values": {"schema": {"type": "string"}}}}},
    )
    def entries(client: Client, id: str) -> Response:
        """The entries of a glossary, as tab-separated values."""
        content = glossaries.entries(client, id)
        return Response(content, media_type="text/tab-separated-values")

    @api.delete("/glossaries/{id}", status_code=204)
    def delete_glossary(client: Client, id: str) -> None:
        """Delete a glossary."""
        glossaries.one(client, id)
        server.store.remove(KIND, id)

    @api.post("/document", openapi_extra=UploadFields.described(MULTIPART))
    async def upload(
        request: Request,
        client: Client,
        fields: Annotated[UploadFields, Depends(UploadFields.of)],
    ) -> Handle:
        """Upload a document to translate; ask for its status until it is done."""
        name, content = fields.filename or fields.file.name, fields.file.content
        form = document_format(name)
        if fields.output_format and document_format(f"x.{fields.output_format}") != form:
            raise DataError("a document is translated into its own format only")
        terms = await asyncio.to_thread(glossaries.terms, client, fields)
        document = content, form, name, fields.source_lang, fields.target_lang
        chosen = await asyncio.to_thread(choose_for_document, server, *document)
        server.note(request, chosen.name)
        key = documents.start(chosen.service, client, content, name, form, terms=terms)
        half = len(key) // 2
        return Handle(document_id=key[:half], document_key=key[half:])

    @api.post(
        "/document/{id}",
        response_model_exclude_none=True,
        openapi_extra=KeyFields.described(JSON, URLENCODED),
    )
    def status(
        client: Client, id: str, fields: Annotated[KeyFields, Depends(KeyFields.of)]
    ) -> Status:
        """The state of a document."""
        key = id + fields.document_key
        state = documents.state(key)
        is_done = state["state"] == "done"
        return Status(
            document_id=id,
            status="queued" if state["state"] == "waiting" else state["state"],
            billed_characters=documents.characters(key) if is_done else None,
            error_message=state["error"],
        )

    @api.post(
        "/document/{id}/result",
        response_class=Response,
        responses={
            200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}},
            503: {"model": Problem, "description": "the document is not translated yet"},
        },
        openapi_extra=KeyFields.described(JSON, URLENCODED),
    )
    def result(
        client: Client, id: str, fields: Annotated[KeyFields, Depends(KeyFields.of)]
    ) -> Response:
        """The translated document, when it is done."""
        key = id + fields.document_key
        if documents.state(key)["state"] in ("waiting", "translating"):
            return JSONResponse({"message": "the document is not translated yet"}, 503)
        return documents.answer(key)

    return api


class Glossaries:
    """The glossaries of a server, which all its processes share."""

    def __init__(self, server: Server) -> None:
        self._server, self._store = server, server.store

    def add(self, client: str, fields: GlossaryFields) -> Glossary:
        """Keep a glossary.

        Raises:
            DataError: an entry is wrong, or there is no translator of these languages.
            LimitError: it is too large.
            FullError: there are too many.
        """
        languages = base(fields.source_lang), base(fields.target_lang)
        choose(self._server, "", *languages)
        found = dict[str, str]()
        for source, target in _rows(fields):
            if not source or not target or source in found:
                why = "a side is empty, or the term is there twice"
                raise DataError(f"the entry of {source!r} is wrong", why=why)
            found[source] = target
        if not found:
            raise DataError("the glossary has no entries")
        content = "".join(f"{source}\t{target}\n" for source, target in found.items()).encode()
        if len(content) > LARGEST_GLOSSARY:
            raise LimitError(f"the glossary has more than {LARGEST_GLOSSARY:,} bytes")
        if sum(1 for _ in self._store.entries(KIND)) >= MOST_GLOSSARIES:
            raise FullError("the server keeps too many glossaries", todo="delete one")
        seconds = time.time()
        created = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        entry = {
            "owner": self._owner(client),
            "name": fields.name,
            "source_lang": languages[0],
            "target_lang": languages[1],
            "creation_time": f"{created}.{int(1e6 * (seconds % 1)):06}Z",
            "entry_count": len(found),
        }
        return _glossary(self._store.add(KIND, entry, {"entries": content}), entry)

    def all(self, client: str) -> list[Glossary]:
        """The glossaries of a client."""
        owner = self._owner(client)
        found = self._store.entries(KIND)
        return [_glossary(key, entry) for key, entry in found if entry["owner"] == owner]

    def one(self, client: str, key: str) -> Glossary:
        """A glossary; an `UnknownError` if there is none."""
        entry = self._store.entry(KIND, key)
        if entry["owner"] != self._owner(client):
            raise UnknownError(f"there is no such {KIND}")
        return _glossary(key, entry)

    def entries(self, client: str, key: str) -> bytes:
        """The entries of a glossary, a line each; an `UnknownError` if there is none."""
        self.one(client, key)
        return self._store.read(KIND, key, "entries")

    def terms(self, client: str, fields: TranslateFields | UploadFields) -> dict[str, str]:
        """The terms of the glossaries that a request names.

        Raises:
            DataError: a glossary is of other languages, or the request has no source language.
            UnknownError: there is no such glossary.
        """
        wanted = base(fields.source_lang or ""), base(fields.target_lang)
        keys = [fields.glossary_id] if fields.glossary_id is not None else fields.glossary_ids
        terms = dict[str, str]()
        for key in keys:
            found = self.one(client, key)
            if (own := (found.source_lang, found.target_lang)) != wanted:
                what = f"the glossary is of {own[0]} and {own[1]}"
                raise DataError(what, todo="give both as the languages")
            for line in self.entries(client, key).decode().splitlines():
                source, _, target = line.partition("\t")
                terms.setdefault(source, target)
        return terms

    def _owner(self, client: str) -> str:
        """Who can use the glossaries of a client: without API keys, everybody."""
        return client if self._server.keys else ""


def _glossary(key: str, entry: dict[str, Any]) -> Glossary:
    return Glossary(glossary_id=key, **{name: entry[name] for name in entry if name != "owner"})


def _rows(fields: GlossaryFields) -> Iterator[tuple[str, str]]:
    """The source and the target of each entry, without white space around them."""
    lines = [line for line in fields.entries.splitlines() if line.strip()]
    try:
        rows = [*csv.reader(lines)] if fields.entries_format == "csv" else None
    except csv.Error as error:
        raise DataError("the entries are no CSV", why=str(error)) from None
    for row in rows or (line.split("\t") for line in lines):
        # In CSV, the languages may follow.
        if len(row) != 2 and not (rows and len(row) == 4):
            raise DataError("an entry has no source and target", why=f"it has {len(row)} columns")
        source, target = (" ".join(side.split()) for side in row[:2])
        yield source, target


def format_of(fields: TranslateFields) -> Format:
    """How the texts of a request are divided into units."""
    kept, splitting, inline = (
        frozenset(name.strip().rpartition(":")[2] for name in names)
        for names in (fields.ignore_tags, fields.splitting_tags, fields.non_splitting_tags)
    )
    readers: list[Reader]
    if fields.tag_handling == "html":
        lower = frozenset(map(str.lower, kept))
        readers = [html.read_attributes, partial(html.read_html, kept=lower)]
    elif fields.tag_handling == "xml":
        chosen = {"splitting": splitting, "outline": fields.outline_detection}
        readers = [partial(read_xml, kept=kept, inline=inline, **chosen)]
    else:
        parts = {"0": WHOLE, "nonewlines": PARAGRAPHS}.get(fields.split_sentences or "1", LINES)
        readers = [partial(read_text, parts=parts)]
    if fields.split_sentences == "0":
        readers = [partial(_read_whole, reader) for reader in readers]
    return Format((), tuple(readers))


def _read_whole(reader: Reader, content: str, where: str, target_language: str = "") -> Document:
    """A document whose units are one sentence each."""
    found = reader(content, where, target_language)
    slots = [slot._replace(unit=replace(slot.unit, whole=True, soft=True)) for slot in found.slots]
    return replace(found, slots=slots)
