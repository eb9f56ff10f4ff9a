"""Documents that are uploaded, translated in the background, and downloaded."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from fastapi.responses import Response

from clearhead.api.service import Service, Ticket
from clearhead.errors import ClearheadError, DataError
from clearhead.serve.server import Server
from clearhead.text.documents import decoded, docx

KIND = "document"

READ, DETECTED = 100_000, 4000
"""Characters of a document, and of its text without tags, by which its language is detected."""


class Documents:
    """The documents of a server."""

    def __init__(self, server: Server) -> None:
        self._server, self._store = server, server.store

    def start(
        self,
        service: Service,
        client: str,
        content: bytes,
        name: str,
        form: str,
        normalise: bool | None = None,
        **options: Any,
    ) -> str:
        """Begin to translate a document; returns its id.

        Raises:
            BusyError: there are too many requests.
            FullError: there is no space.
        """
        entry = {
            "state": "waiting",
            "name": translated_name(name, service.folder.config.data.languages[1]),
            "process": self._store.process,
            "done": 0,
            "total": 0,
            "texts": 0,
            "characters": 0,
            "error": None,
            "warnings": [],
        }
        key = self._store.add(KIND, entry, {}, expected=2 * len(content))

        def work(ticket: Ticket) -> None:
            def progress(done: int, total: int) -> None:
                entry.update(state="translating", done=done, total=total)
                if not self._store.update(KIND, key, entry):
                    ticket.cancel()  # somebody has removed it

            try:
                (found,) = service.translate_data(
                    content,
                    form,
                    where=name,
                    normalise=self._server.normalise(normalise),
                    progress=progress,
                    ticket=ticket,
                    **options,
                )
                if ticket.is_over:
                    raise ticket.error
                self._store.write(KIND, key, "result", found.data)
                warnings = [
                    {"kind": remark.kind, "text": remark.text, "place": place}
                    for place, remark in found.remarks
                ]
                characters = sum(len(pair.source) for pair in found.sentences)
                entry.update(state="done", texts=found.texts, warnings=warnings[:1000])
                entry.update(done=entry["total"], characters=characters)
            except ClearheadError as error:
                entry.update(state="error", error=str(error))
            except Exception:
                entry.update(state="error", error="the server failed")
                raise
            finally:
                self._store.update(KIND, key, entry)

        try:
            self._server.run_document(service, client, work)
        except ClearheadError:
            self._store.remove(KIND, key)
            raise
        return key

    def state(self, key: str) -> dict[str, Any]:
        """The state of a document."""
        entry = self._store.entry(KIND, key)
        process = entry.pop("process")
        if entry["state"] in ("waiting", "translating") and not self._store.runs(process):
            entry.update(state="error", error="the server was interrupted; send it again")
        return {key: entry[key] for key in entry if key != "characters"}

    def characters(self, key: str) -> int:
        """The number of characters that were translated."""
        return self._store.entry(KIND, key)["characters"]

    def answer(self, key: str) -> Response:
        """The translated document as a download.

        Raises:
            DataError: it is not done.
        """
        entry = self._store.entry(KIND, key)
        if entry["state"] != "done":
            raise DataError(entry["error"] or "the document is not translated yet")
        content = self._store.read(KIND, key, "result")
        disposition = f"attachment; filename*=UTF-8''{quote(entry['name'])}"
        return Response(
            content,
            media_type="application/octet-stream",
            headers={"content-disposition": disposition},
        )

    def remove(self, key: str) -> None:
        """Remove a document."""
        self._store.remove(KIND, key)


def beginning(content: bytes, form: str, name: str) -> str:
    """The beginning of a document's text, by which its language is detected.

    Raises:
        DataError: it is no document of its format.
    """
    if form == "docx":
        text = docx.parts_of(content, name)["word/document.xml"]
    else:
        text = decoded(content, form, name)[0]
    return re.sub(r"<[^<>]*>", " ", text[:READ])[:DETECTED]


def translated_name(name: str, language: str) -> str:
    """The name of a translated document: `letter.docx` becomes `letter.de.docx`."""
    path = PurePosixPath(re.sub(r"[\\/\x00-\x1f]", "_", name)[-200:])
    return f"{path.stem}.{language}{path.suffix}" if language else path.name
