"""What the APIs of LibreTranslate and DeepL share: how they choose translators."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi import Request

from clearhead.api.service import Service, Ticket
from clearhead.errors import DataError
from clearhead.serve.documents import beginning
from clearhead.serve.models import UnknownError
from clearhead.serve.server import Server
from clearhead.text.documents import FORMATS, Format, Result, format_of


class Chosen(NamedTuple):
    """The translator of a text, the source language, and its probability if it was detected."""

    name: str
    service: Service
    source: str
    probability: float | None = None


def choose(server: Server, text: str, source: str | None, target: str) -> Chosen:
    """The translator of a text; without a source language, by the language that it is in.

    Raises:
        DataError: there is none.
    """
    probability = None
    if source is None:
        source, probability = next(iter(server.models.detect(text, target)), ("any language", 0.0))
    try:
        return Chosen(*server.models.translating(source, target), source, probability)
    except UnknownError as error:
        raise DataError(error.what, why=error.why) from None


async def translate(
    server: Server,
    request: Request,
    client: str,
    texts: Sequence[str],
    languages: tuple[str | None, str],
    format: str | Format,
    **options: Any,
) -> list[tuple[Chosen, list[Result]]]:
    """Each text in the target language; its translator, and what `Service.translate_texts` gives.

    Raises:
        DataError: there is no translator.
    """

    def choose_each() -> list[Chosen]:
        return [choose(server, text, *languages) for text in texts]

    chosen = await asyncio.to_thread(choose_each)
    results = dict[int, list[Result]]()
    for name, service in {each.name: each.service for each in chosen}.items():
        numbers = [n for n, each in enumerate(chosen) if each.name == name]
        own = [texts[n] for n in numbers]
        server.note(request, name, own)

        def work(ticket: Ticket, service: Service = service, own: list[str] = own) -> Any:
            normalise = server.settings.normalise
            return service.translate_texts(
                own, format, normalise=normalise, ticket=ticket, **options
            )

        found = await server.run(request, service, client, work)
        results.update(zip(numbers, found, strict=True))
    return [(each, results[n]) for n, each in enumerate(chosen)]


def choose_for_document(
    server: Server, content: bytes, form: str, name: str, source: str | None, target: str
) -> Chosen:
    """The translator of a document; as in `choose`."""
    return choose(server, "" if source else beginning(content, form, name), source, target)


def document_format(name: str) -> str:
    """The format of a document, by its name.

    Raises:
        DataError: the name shows none.
    """
    if (found := format_of(name)) is None:
        raise DataError("the name shows no format", why=f"the formats are {', '.join(FORMATS)}")
    return found
