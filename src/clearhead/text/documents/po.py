"""GNU gettext's PO files: messages of a program, each with its translation.

The manual of gettext (section "The Format of PO Files") describes the format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from clearhead.errors import DataError
from clearhead.text.documents.plurals import form_of_one, plural_rule
from clearhead.text.spans import SOFTWARE, count_kept
from clearhead.text.units import Document, Edit, Skipped, Slot, Unit, check_target

_KEYWORD = re.compile(r'(?P<name>msgctxt|msgid_plural|msgid|msgstr(?:\[(?P<form>\d+)\])?)\s*(?=")')
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)")
_ASCII = re.compile(r"charset=(CHARSET|(?:US-)?ASCII)\b", re.IGNORECASE)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_WRITTEN = {"\\": "\\\\", '"': '\\"'} | {text: f"\\{name}" for name, text in _NAMED.items()}


class Text(NamedTuple):
    """A string of an entry; content[start:end] has its quoted parts."""

    value: str
    start: int
    end: int


@dataclass
class Entry:
    """A message: its strings by keyword (`msgid`, `msgstr[0]`), its flags, and its first line."""

    line: int
    strings: dict[str, Text] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)

    @property
    def translations(self) -> dict[int, Text]:
        """The translation of each plural form; without plural, of form 0."""
        found = {"msgstr": 0} | {f"msgstr[{form}]": form for form in range(10)}
        return {found[name]: text for name, text in self.strings.items() if name in found}


def entries(content: str, where: str) -> Iterator[Entry]:
    """The entries of a PO file, without obsolete ones.

    Raises:
        DataError: a line is neither a comment nor a part of an entry.
    """
    entry, position, current = Entry(1), 0, ""
    for number, line in enumerate(re.split(r"(?<=\n)", content), start=1):
        text = line.strip()
        keyword = _KEYWORD.match(text)
        name = keyword["name"] if keyword else ""
        is_new = text.startswith("#") or name in ("msgid", "msgctxt")
        if is_new and entry.translations:
            yield entry
            entry, current = Entry(number), ""
        if text.startswith("#~"):
            entry.flags.clear()  # those before belong to the obsolete entry
        elif text.startswith("#,"):
            entry.flags |= {flag.strip() for flag in text[2:].split(",")}
        elif keyword or text.startswith('"'):
            found = _STRING.search(line)
            if found is None or line[found.end() :].strip() or not (name or current):
                raise _unreadable(where, number)
            value, start, end = (
                unescaped(found[1]),
                position + found.start(),
                position + found.end(),
            )
            if not name:
                before = entry.strings[current]
                value, start = before.value + value, before.start
            elif name in entry.strings:
                raise _unreadable(where, number)
            if not entry.strings:
                entry.line = number
            current = name or current
            entry.strings[current] = Text(value, start, end)
        elif text and not text.startswith("#"):
            raise _unreadable(where, number)
        position += len(line)
    if entry.translations:
        yield entry


def _unreadable(where: str, line: int) -> DataError:
    what, todo = "this is no line of a PO file", "check the file with msgfmt -c"
    return DataError(what, where=f"{where}:{line}", todo=todo)


def unescaped(written: str) -> str:
    """A string without its escapes, which are those of C."""

    def character(found: re.Match[str]) -> str:
        name = found[1]
        if name[0] == "x" and len(name) > 1:
            return chr(int(name[1:], 16))
        if name[0] in "01234567":
            return chr(int(name, 8) & 255)
        return _NAMED.get(name, name)

    return _ESCAPE.sub(character, written)


def quoted(text: str, line_end: str = "\n") -> str:
    """A text as the quoted strings of an entry: one string for each of several lines."""
    written = "".join(_WRITTEN.get(character, character) for character in text)
    lines = re.findall(r".*?\\n|.+$", re.sub(r"\\\\", "\0", written), re.DOTALL)
    parts = [line.replace("\0", r"\\") for line in lines]
    if len(parts) < 2:
        return f'"{written}"'
    return line_end.join(['""', *(f'"{part}"' for part in parts)])


def header_of(entry: Entry) -> dict[str, str]:
    """The fields of the header, which is the translation of the empty message."""
    text = entry.strings["msgstr"].value if "msgstr" in entry.strings else ""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def read_po(content: str, where: str, target_language: str = "") -> Document:
    """The messages without a translation.

    If the header has no rule of plural forms, as in a template, the rule of the target language is
    set, and each message gets as many forms.

    Raises:
        DataError: it is no PO file, it is in another language, or its rule of plural forms is
            wrong.
    """
    slots, edits, skipped = list[Slot](), list[Edit](), list[Skipped]()
    line_end = "\r\n" if "\r\n" in content else "\n"
    # The form that the number 1 has, whether no other has it, and how many forms a new rule has.
    singular, is_only_one, count = 0, True, 0
    for entry in entries(content, where):
        if "msgid" not in entry.strings:
            raise _unreadable(where, entry.line)
        message = entry.strings["msgid"].value
        place = f"{where}:{entry.line}"
        if not message:
            header = header_of(entry)
            check_target(header.get("language", ""), target_language, place)
            rule, known = header.get("plural-forms", ""), plural_rule(target_language)
            is_open = not rule or "EXPRESSION" in rule
            if is_open and target_language and not known:
                why = f"Plural-Forms is not set, and its rule for {target_language} is not known"
                skipped.append(Skipped(place, why))
            elif is_open and known:
                rule, count = known, int(known[len("nplurals=")])
                edits += _field(content, entry, "Plural-Forms", f"{known};", line_end)
            singular, is_only_one = form_of_one(rule, place)
            text = entry.strings.get("msgstr")
            found = text and _ASCII.search(content, text.start, text.end)
            if found:
                edits.append(Edit(*found.span(1), "UTF-8"))
            if target_language and not header.get("language"):
                language = target_language.replace("-", "_")
                edits += _field(content, entry, "Language", language, line_end)
        elif "fuzzy" in entry.flags:
            skipped.append(Skipped(place, "fuzzy"))
        elif done := [text for text in entry.translations.values() if text.value]:
            is_whole = len(done) == len(entry.translations)
            skipped.append(Skipped(place, "translated already" if is_whole else "half translated"))
        elif (plural := entry.strings.get("msgid_plural")) is None:
            text = next(iter(entry.translations.values()))
            slots += _slots(message, text, place, line_end)
        else:
            forms = entry.translations
            total = count or len(forms)
            # "One file" is no form of 21, unless it has the placeholders of "%d files".
            kept = count_kept(SOFTWARE, [message], [plural.value])
            fits = is_only_one or kept.exact == kept.sentences
            texts = [text for form, text in sorted(forms.items()) if form < total]
            for form in range(total):
                source = message if form == singular and total > 1 and fits else plural.value
                if form < len(texts):
                    slots += _slots(source, texts[form], place, line_end)
                else:
                    new = Text("", texts[-1].end, texts[-1].end)
                    slots += _slots(source, new, place, line_end, f"{line_end}msgstr[{form}] ")
            edits += (
                Edit(forms[form - 1].end, forms[form].end, "") for form in forms if form >= total
            )
    return Document(content, slots, edits, skipped)


def _slots(source: str, text: Text, place: str, line_end: str, keyword: str = "") -> Iterator[Slot]:
    """The slot of a string, with its keyword if it is new.

    A translation begins and ends with a line break if its message does.
    """

    def write(unit: Unit) -> str:
        found = unit.marked().strip("\n")
        lead = "\n" if source.startswith("\n") else ""
        tail = "\n" if source.endswith("\n") else ""
        return keyword + quoted(lead + found + tail, line_end)

    if source.strip():
        yield Slot(text.start, text.end, Unit(source, place), write)


def _field(content: str, entry: Entry, name: str, value: str, line_end: str) -> Iterator[Edit]:
    """The change that sets a field of the header."""
    text = entry.strings["msgstr"]
    found = re.compile(rf"(?<=[\"n]){name}:[^\\\"]*").search(content, text.start, text.end)
    if found:
        yield Edit(*found.span(), f"{name}: {value}")
    elif text.value.endswith("\n"):
        yield Edit(text.end, text.end, f'{line_end}"{name}: {value}\\n"')
