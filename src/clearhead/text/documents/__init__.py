"""Documents of many formats: their parts, their text, and what a translation is written into."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from typing import Any, NamedTuple

from clearhead.errors import ConfigError, DataError, Remark, nearest
from clearhead.text.documents import docx, html, markdown
from clearhead.text.documents.plain import read_column, read_json_strings, read_text
from clearhead.text.documents.po import read_po
from clearhead.text.documents.subtitles import read_subtitles
from clearhead.text.documents.xliff import read_xliff
from clearhead.text.paragraphs import Done, Pair
from clearhead.text.units import Document, Skipped, Unit

Reader = Callable[[str, str, str], Document]
"""Reads a content, with its name for people, and the language into which it is translated."""


class Format(NamedTuple):
    """A format: the ends of the names of its files, and its readers.

    A document with several readers is translated with one after the other, because the texts of the
    first are within those of the next. `declared` finds the name of the encoding.
    """

    endings: tuple[str, ...]
    readers: tuple[Reader, ...]
    declared: str = r"(?!)"
    escape: str = "strict"


_XML = r"^\s*<\?xml[^>]*\bencoding\s*=\s*[\"']([\w.-]+)"

FORMATS: Mapping[str, Format] = {
    "po": Format((".po", ".pot"), (read_po,), r"charset=([\w-]+)"),
    "html": Format(
        (".html", ".htm", ".xhtml"),
        (html.read_attributes, html.read_html),
        rf"<meta[^>]*charset\s*=\s*[\"']?([\w-]+)|{_XML}",
        "xmlcharrefreplace",
    ),
    "markdown": Format((".md", ".markdown"), (markdown.read_attributes, markdown.read_markdown)),
    "srt": Format((".srt",), (read_subtitles,)),
    "vtt": Format((".vtt",), (read_subtitles,)),
    "xliff": Format((".xlf", ".xliff", ".sdlxliff"), (read_xliff,), _XML, "xmlcharrefreplace"),
    "json": Format((".json",), (read_json_strings,)),
    "docx": Format((".docx",), (docx.read_part,)),
    "text": Format((".txt",), (read_text,)),
    "csv": Format((".csv",), (partial(read_column, separator=","),)),
    "tsv": Format((".tsv",), (partial(read_column, separator="\t"),)),
}


def format_of(path: str) -> str | None:
    """The format that the end of a file's name shows, if any."""
    ending = PurePath(path.lower()).suffix
    return next((name for name, form in FORMATS.items() if ending in form.endings), None)


def check_format(name: str) -> None:
    """Raise a `ConfigError` unless there is a format of this name."""
    if name not in FORMATS:
        close = nearest(name, FORMATS)
        raise ConfigError(
            f"there is no format {name!r}",
            why=f"the formats are {', '.join(FORMATS)}",
            todo=f"did you mean {close}?" if close else "name one of them",
        )


@dataclass
class Result:
    """A translated document.

    `texts` are translated, `remembered` of them by a memory. `remarks` have the place and the text
    of each; `skipped` are the texts that stay. `confidences` have the place of each translated text
    and its confidence, from 0 to 1: the least of those of its sentences. Texts without one are left
    out. `sentences` are those of the translated texts.
    """

    data: bytes = b""
    texts: int = 0
    remembered: int = 0
    remarks: list[tuple[str, Remark]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    confidences: list[tuple[str, float]] = field(default_factory=list)
    sentences: list[Pair] = field(default_factory=list)


def translate_data(
    data: bytes | str,
    form: str,
    where: str,
    translate: Callable[[Sequence[Unit]], Sequence[Done]],
    target_language: str = "",
    **options: Any,
) -> Result:
    """A document in another language; `translate` gives the translation of each of its units.

    A document that is a `str` is in UTF-8 in the result, whatever it declares. `options` are those
    of the readers: `column`.

    Raises:
        DataError: it is no document of this format, or cannot be written in its encoding.
    """
    if isinstance(data, str):
        return translate_texts([data], form, where, translate, target_language, **options)[0]
    result = Result()

    def translated(contents: Sequence[str]) -> list[str]:
        results = [result] * len(contents)
        readers = [partial(reader, **options) for reader in FORMATS[form].readers]
        return _translated(contents, results, readers, where, translate, target_language)

    if form == "docx":
        parts = docx.parts_of(data, where)
        texts = dict(zip(parts, translated([*parts.values()]), strict=True))
        result.data = docx.with_parts(data, texts, where)
    else:
        content, encoding, mark = decoded(data, form, where)
        result.data = mark + _encoded(translated([content])[0], encoding, form, where)
    return result


def translate_texts(
    texts: Sequence[str],
    form: str | Format,
    where: str,
    translate: Callable[[Sequence[Unit]], Sequence[Done]],
    target_language: str = "",
    **options: Any,
) -> list[Result]:
    """Texts in another language, as `translate_data` gives each; all units are translated together.

    A format is a name of `FORMATS`, or one of its own.
    """
    results = [Result() for _ in texts]
    found = FORMATS[form] if isinstance(form, str) else form
    readers = [partial(reader, **options) for reader in found.readers]
    done = _translated(texts, results, readers, where, translate, target_language)
    for result, text in zip(results, done, strict=True):
        result.data = text.encode("utf-8", "surrogatepass")
    return results


def _translated(
    contents: Sequence[str],
    results: Sequence[Result],
    readers: Sequence[Reader],
    where: str,
    translate: Callable[[Sequence[Unit]], Sequence[Done]],
    target_language: str,
) -> list[str]:
    """The contents in another language; what is known of each is added to its result."""
    contents = [*contents]
    for reader in readers:
        documents = [reader(content, where, target_language) for content in contents]
        every = iter(translate([slot.unit for each in documents for slot in each.slots]))
        for number, (document, result) in enumerate(zip(documents, results, strict=True)):
            done = [next(every) for _ in document.slots]
            for slot, each in zip(document.slots, done, strict=True):
                result.texts += each.unit is not None
                result.remembered += each.remembered
                result.sentences += each.sentences
                result.remarks += ((slot.unit.place, remark) for remark in each.remarks)
                if each.confidence is not None:
                    result.confidences.append((slot.unit.place, each.confidence))
            result.skipped += document.skipped
            contents[number] = document.translated([each.unit for each in done])
    return contents


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks, and the encodings that they show."""


def decoded(data: bytes, form: str, where: str) -> tuple[str, str, bytes]:
    """The text of a file, its encoding and its mark; by the mark, by what it declares, or UTF-8.

    Raises:
        DataError: it is in another encoding.
    """
    named = re.search(FORMATS[form].declared, data[:4096].decode("latin-1"), re.IGNORECASE)
    declared = next(filter(None, named.groups()), "utf-8") if named else "utf-8"
    mark, encoding = next((each for each in _MARKS if data.startswith(each[0])), (b"", declared))
    try:
        is_template = encoding.upper() == "CHARSET"
        if is_template or (form == "po" and codecs.lookup(encoding).name == "ascii"):
            encoding = "utf-8"  # which the reader writes into the header
        content = data[len(mark) :].decode(encoding)
    except (UnicodeError, LookupError) as error:
        raise DataError(
            f"the file is not in the encoding {encoding}",
            where=where,
            why=str(error),
            todo="convert it: iconv -f ENCODING -t utf-8 FILE > NEW_FILE",
        ) from None
    if "\0" in content:
        raise DataError("this is no text", where=where, why="it has a NUL")
    return content, encoding, mark


def _encoded(content: str, encoding: str, form: str, where: str) -> bytes:
    try:
        return content.encode(encoding, FORMATS[form].escape)
    except UnicodeEncodeError as error:
        raise DataError(
            f"the encoding {encoding} lacks a character of the translation",
            where=where,
            why=str(error),
            todo="convert the document to UTF-8, and declare it there",
        ) from None
