"""Sentence pairs in translated documents: gettext, XLIFF and TMX. Pairs of terms: TBX."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from clearhead.errors import DataError
from clearhead.text.documents import decoded
from clearhead.text.documents.markup import parse, xml_parser
from clearhead.text.documents.plurals import form_of_one
from clearhead.text.documents.po import entries, header_of
from clearhead.text.documents.xliff import languages_of_xliff, segments_of

BILINGUAL = {
    ".po": "po",
    ".mo": "mo",
    ".xlf": "xliff",
    ".xliff": "xliff",
    ".sdlxliff": "xliff",
    ".tmx": "tmx",
}
"""The formats of sentence pairs, by the ends of the names of files."""

UNITS = ("tu", "termEntry", "conceptEntry")
LANGUAGES = ("tuv", "langSet", "langSec")
TEXTS = ("seg", "term", "termNote")
"""The elements of a unit, of a language, and of a text, in TMX and in both versions of TBX."""

MO_MAGIC = 0x950412DE
BLOCK_BYTES = 2**20


Triple = tuple[str, str, int]
"""A source, its target, and their line."""

OpenFile = Callable[[], AbstractContextManager[BinaryIO]]
"""Opens a document; it may be called twice."""


@dataclass
class Bilingual:
    """The pairs of a document, a stream, and how many others it has, by the reason.

    `languages` are those of source and target in BCP 47, "" if the document does not name them. The
    others are counted while the pairs are read.
    """

    languages: tuple[str, str]
    pairs: Iterable[Triple] = ()
    skipped: Counter[str] = field(default_factory=Counter)

    def both(self, triples: Iterable[Triple]) -> Iterator[Triple]:
        """Those with two sides."""
        for triple in triples:
            if triple[0].strip() and triple[1].strip():
                yield triple
            else:
                self.skipped["untranslated"] += 1


def read_bilingual(
    open_file: OpenFile, form: str, where: str, languages: tuple[str, str] = ("", "")
) -> Bilingual:
    """The pairs of a document. Of a TMX with several languages, those of the two that are given.

    Raises:
        DataError: it is no document of this format, perhaps found while the pairs are read; or a
            TMX has more than two languages.
    """
    if form == "tmx":
        return _read_tmx(open_file, where, languages)
    with open_file() as stream:
        data = stream.read()
    if form == "mo":
        found = Bilingual(languages)
        found.pairs = found.both(_messages(data, where))
        return found
    content, *_ = decoded(data, form, where)
    return (_read_po if form == "po" else _read_xliff)(content, where)


def _read_po(content: str, where: str) -> Bilingual:
    header = dict[str, str]()
    for entry in entries(content, where):
        if "msgid" in entry.strings and not entry.strings["msgid"].value:
            header = header_of(entry)
            singular, _ = form_of_one(header.get("plural-forms", ""), f"{where}:{entry.line}")
            break
    else:
        singular = 0
    found = Bilingual(("", header.get("language", "").replace("_", "-")))

    def triples() -> Iterator[Triple]:
        for entry in entries(content, where):
            strings, translations = entry.strings, entry.translations
            message = strings["msgid"].value if "msgid" in strings else ""
            if not message:
                continue
            if "fuzzy" in entry.flags:
                found.skipped["fuzzy"] += 1
            elif "msgid_plural" not in strings:
                yield message, next(iter(translations.values())).value, entry.line
            else:
                others = [form for form in translations if form != singular]
                if singular in translations and others:
                    yield message, translations[singular].value, entry.line
                form = others[-1] if others else singular
                yield strings["msgid_plural"].value, translations[form].value, entry.line

    found.pairs = found.both(triples())
    return found


def _read_xliff(content: str, where: str) -> Bilingual:
    found = Bilingual(languages_of_xliff(content, where))

    def triples() -> Iterator[Triple]:
        for source, target, line, is_done in segments_of(content, where):
            if is_done or not target:
                yield source, target, line
            else:
                found.skipped["unfinished"] += 1

    found.pairs = found.both(triples())
    return found


def _messages(data: bytes, where: str) -> Iterator[Triple]:
    """The messages of a compiled catalogue (manual of gettext, "The Format of GNU MO Files")."""
    try:
        order = "<" if struct.unpack_from("<I", data)[0] == MO_MAGIC else ">"
        magic, _, count, sources, targets = struct.unpack_from(f"{order}5I", data)
        if magic != MO_MAGIC or count > len(data) // 16:
            raise ValueError("it does not begin like one")

        def text(table: int, number: int) -> list[str]:
            length, start = struct.unpack_from(f"{order}2I", data, table + 8 * number)
            if start + length > len(data):
                raise ValueError("a message is beyond its end")
            return data[start : start + length].decode().split("\0")

        for number in range(count):
            source, target = text(sources, number), text(targets, number)
            if source[0]:
                yield source[0].rpartition("\4")[2], target[0], number + 1
                if len(source) > 1 and len(target) > 1:
                    yield source[1], target[-1], number + 1
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        what, todo = "this is no MO file of gettext", "use the .po file"
        raise DataError(what, where=where, why=str(error), todo=todo) from None


def _read_tmx(open_file: OpenFile, where: str, languages: tuple[str, str]) -> Bilingual:
    """TMX 1.4b (LISA 2005) or TBX (ISO 30042), as a stream: translation memories are large."""
    if not all(languages):
        with open_file() as stream:
            languages = _two_languages(stream, where, languages)
    found = Bilingual(languages)

    def triples() -> Iterator[Triple]:
        with open_file() as stream:
            for unit in _Memory(where).units(stream):
                one, other = (_in_language(unit.texts, each) for each in languages)
                if one is None or other is None:
                    found.skipped["in other languages"] += 1
                else:
                    yield one, other, unit.line

    found.pairs = found.both(triples())
    return found


class _Unit(NamedTuple):
    """A unit of a translation memory: its text in each language, and its line."""

    texts: dict[str, str]
    line: int


class _Memory:
    """Reads a translation memory or the terms of a TBX.

    The native code in inline elements counts as text. The terms of a concept in a language are
    joined by `|`, without those that are deprecated or superseded.

    `source` is the language of the sources, if the header names it.
    """

    def __init__(self, where: str) -> None:
        self.source = ""
        self._where = where
        self._parser = xml_parser(where)
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._units = list[_Unit]()
        self._language, self._segment = "", list[str]()
        self._is_within = False

    def units(self, stream: BinaryIO) -> Iterator[_Unit]:
        """The units of a document."""
        is_last = False
        while not is_last:
            data = stream.read(BLOCK_BYTES)
            is_last = not data
            parse(self._parser, data, is_last, self._where)
            # The last one may be open.
            done = len(self._units) if is_last else len(self._units) - 1
            if done > 0:
                yield from self._units[:done]
                del self._units[:done]

    def _start(self, name: str, names: dict[str, str]) -> None:
        if name == "header":
            self.source = names.get("srclang", "").replace("*all*", "")
        elif name in UNITS:
            self._units.append(_Unit({}, self._parser.CurrentLineNumber))
        elif name in LANGUAGES:
            self._language = names.get("xml:lang", names.get("lang", "")).replace("_", "-").lower()
        elif name in TEXTS:
            self._is_within, self._segment = True, []

    def _end(self, name: str) -> None:
        if name not in TEXTS or not self._units:
            return
        texts, text = self._units[-1].texts, "".join(self._segment)
        self._is_within = False
        if name == "termNote":
            # The status of the term before it.
            if text.strip().startswith(("deprecated", "superseded")) and self._language in texts:
                texts[self._language] = texts[self._language].rpartition("|")[0]
        elif name == "term" and texts.get(self._language):
            texts[self._language] += f"|{text}"
        elif not texts.get(self._language):
            # Of several variants in a language, the first one counts.
            texts[self._language] = text

    def _text(self, text: str) -> None:
        if self._is_within:
            self._segment.append(text)


def _two_languages(stream: BinaryIO, where: str, languages: tuple[str, str]) -> tuple[str, str]:
    """The languages that are given, or those of a document that has two."""
    memory = _Memory(where)
    units = memory.units(stream)
    names = dict.fromkeys(name.partition("-")[0] for unit in units for name in unit.texts)
    main = (languages[0] or memory.source).partition("-")[0].lower()
    target = languages[1].partition("-")[0].lower()
    others = [name for name in names if name != main and target in ("", name)]
    if main in names and len(others) == 1:
        return languages[0] or main, languages[1] or others[0]
    raise DataError(
        "it is not clear which languages of the document are source and target",
        where=where,
        why=f"it has {', '.join(sorted(names)) or 'none'}",
        todo="set data.source_language and data.target_language; for init, use the options "
        "--source-language and --target-language",
    )


def _in_language(texts: dict[str, str], wanted: str) -> str | None:
    """The text in a language, or in a variety of it."""
    wanted = wanted.replace("_", "-").lower()
    if wanted in texts:
        return texts[wanted]
    main = wanted.partition("-")[0]
    return next((text for name, text in texts.items() if name.partition("-")[0] == main), None)
