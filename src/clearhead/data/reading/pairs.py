"""Sentence pairs from files, as a stream.

`PAIR_FORMATS` has the formats of files with both sides. Two files with other names are parallel:
line n of the second is the translation of line n of the first. Several corpora (such files, or twos
of parallel ones) are read one after the other. For the names of built-in data see `phrasebook`.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

from clearhead.data.reading.labelled import join_lines
from clearhead.data.reading.lines import (
    Format,
    Formats,
    has_ending,
    open_unpacked,
    read_texts_in_lines,
)
from clearhead.data.reading.phrasebook import PHRASEBOOK, Part, phrasebook_pairs
from clearhead.data.reading.tables import open_table, read_jsonl, string_of
from clearhead.errors import DataError
from clearhead.settings import DataConfig
from clearhead.settings.data import language_in
from clearhead.text.documents.bilingual import BILINGUAL, Bilingual, read_bilingual


class Pair(NamedTuple):
    """A sentence, its translation, and the number of its line in the files (from 1).

    In the files of corpus k, counted from 0, the number is larger by k * `CORPUS_LINES`.
    """

    source: str
    target: str
    line: int


CORPUS_LINES = 2**40  # no file has so many

SIDES = ("source", "target")
HEADERS = (SIDES, ("src", "tgt"), ("src", "trg"))
"""Line 1 of a `.tsv` file with one of these, in any case, is no pair."""


def read_pairs(
    files: Sequence[str], part: Part = "train", languages: tuple[str, str] = ("", "")
) -> Iterator[Pair]:
    """The pairs of parallel files, of files with both sides, or of the phrasebook.

    `part` is the part of a phrasebook that is named without one, `languages` are those of source
    and target for a document with several.

    Raises:
        DataError: a file cannot be used; or parallel files differ in length, which is known only at
            the end of the shorter one.
    """
    if not files:
        raise DataError("there are no files of sentence pairs")
    first, *others = (_read_corpus(corpus, part, languages) for corpus in corpora_of(files))
    further = (
        pair._replace(line=pair.line + number * CORPUS_LINES)
        for number, pairs in enumerate(others, start=1)
        for pair in pairs
    )
    return itertools.chain(first, further) if others else first


def corpora_of(files: Sequence[str]) -> list[Sequence[str]]:
    """The names of the files of each corpus: one with both sides, or source and target."""
    rest, corpora = list(map(str, files)), list[Sequence[str]]()
    while rest:
        size = 1 if holds_pairs(rest[0]) else 2
        corpora.append(rest[:size])
        rest = rest[size:]
    return corpora


def _read_corpus(files: Sequence[str], part: Part, languages: tuple[str, str]) -> Iterator[Pair]:
    match files:
        case [name] if name.startswith(PHRASEBOOK):
            return _read_phrasebook(name, part)
        case [name]:
            two_files = "name two parallel files, source and target"
            return PAIR_FORMATS.reader(name, "sentence pairs", two_files)(name, languages)
        case [source, target] if holds_pairs(target):
            what, why = "this file has both sides", f"the file before it, {source}, has one side"
            raise DataError(what, where=target, why=why, todo="name the targets after the sources")
        case _:
            return _read_parallel(*files)


def holds_pairs(name: str) -> bool:
    """Whether this is the name of a phrasebook or of a file with both sides."""
    return name.startswith(PHRASEBOOK) or PAIR_FORMATS.of(name) is not None


def place(files: Sequence[str], line: int, in_target: bool = False) -> str:
    """The place of a pair, or of its target, for reports: `train.de:17`."""
    corpus, line = divmod(line, CORPUS_LINES)
    return f"{short_name(corpora_of(files)[corpus][-1 if in_target else 0], files)}:{line}"


def short_name(file: str, files: Sequence[str]) -> str:
    """As much of the path of one of the files as distinguishes it from the others."""
    path, others = file.split("/"), [str(other).split("/") for other in files if other != file]
    parts = 1
    while parts < len(path) and any(path[-parts:] == other[-parts:] for other in others):
        parts += 1
    return "/".join(path[-parts:])


def _read_phrasebook(name: str, part: Part) -> Iterator[Pair]:
    for number, (source, target) in enumerate(phrasebook_pairs(name, part), start=1):
        yield Pair(source, target, number)


def _read_parallel(source: str, target: str) -> Iterator[Pair]:
    with (
        closing(read_texts_in_lines(source)) as sources,
        closing(read_texts_in_lines(target)) as targets,
    ):
        for count, (left, right) in enumerate(itertools.zip_longest(sources, targets), start=1):
            if left is None or right is None:
                rest = count + sum(1 for _ in (targets if left is None else sources))
                counts = (count - 1, rest) if left is None else (rest, count - 1)
                raise DataError(
                    "the files differ in length, so their lines do not belong together",
                    where=f"{source}, {target}",
                    why=f"{counts[0]:,} lines and {counts[1]:,} lines",
                    todo="name files whose lines n are translations of each other",
                )
            yield Pair(left, right, count)


def _read_tsv(path: str, languages: tuple[str, str]) -> Iterator[Pair]:
    is_empty = True
    with open_table(path, SIDES) as table:
        first, second = table.names
        names = (first.strip().lower(), second.strip().lower())
        if names[::-1] in HEADERS:
            todo = "exchange the columns"
            raise DataError("the target comes before the source", where=table.where, todo=todo)
        has_header = names in HEADERS or _languages(first, second) is not None
        for line, (source, target) in table.rows(header=has_header):
            is_empty = False
            yield Pair(join_lines(source), join_lines(target), line)
    if is_empty:
        raise DataError("the file has a header and no pair", where=path)


def _languages(source: str, target: str) -> tuple[str, str] | None:
    """The two languages that the cells of a header name, such as `en` and `pt-BR`, or None."""
    names = source.strip(), target.strip()
    first, second = (language_in(name) or language_in(name.lower()) for name in names)
    return (first, second) if first and second and first != second else None


def languages_of(files: Sequence[str]) -> tuple[str, str]:
    """The languages of pairs, by the names of their files or a header; "": unknown."""
    match files:
        case [name, *_] if has_ending(name, *BILINGUAL):
            named = _document(name, ("", "")).languages
            of_name = DataConfig(train=tuple(files)).languages
            return named[0] or of_name[0], named[1] or of_name[1]
        case [name] if PAIR_FORMATS.of(name) is PAIR_FORMATS[".tsv"]:
            with open_table(name, SIDES) as table:
                return _languages(*table.names) or ("", "")
        case _:
            return DataConfig(train=tuple(files)).languages


def _read_jsonl(path: str, languages: tuple[str, str]) -> Iterator[Pair]:
    for line, record in read_jsonl(path):
        source, target = (string_of(record, key, f"{path}:{line}") for key in SIDES)
        yield Pair(join_lines(source), join_lines(target), line)


def _document(path: str, languages: tuple[str, str]) -> Bilingual:
    """The pairs of a translated document."""
    forms = {**BILINGUAL, ".tbx": "tmx"}
    form = next(form for ending, form in forms.items() if has_ending(path, ending))
    return read_bilingual(partial(open_unpacked, path), form, path, languages)


def _read_document(path: str, languages: tuple[str, str]) -> Iterator[Pair]:
    document, is_empty = _document(path, languages), True
    for source, target, line in document.pairs:
        is_empty = False
        # A pair is on one line: a line break is written as in C, which can be protected.
        one, other = (side.strip().replace("\n", r"\n") for side in (source, target))
        yield Pair(one, other, line)
    if is_empty:
        found = ", ".join(f"{count:,} {reason}" for reason, count in document.skipped.items())
        raise DataError(
            "there is no translated entry",
            where=path,
            why=f"it has {found or 'none at all'}",
            todo="name a document with translations",
        )


def left_out(files: Sequence[str], languages: tuple[str, str] = ("", "")) -> Iterator[str]:
    """A line for each translated document that has entries which are no pairs."""
    for path in files:
        if not has_ending(path, *BILINGUAL):
            continue
        document = _document(path, languages)
        deque(document.pairs, maxlen=0)
        if document.skipped:
            listed = ", ".join(f"{count:,} {reason}" for reason, count in document.skipped.items())
            yield f"{short_name(path, files)}: left out: {listed}"


ReadPairs = Callable[[str, tuple[str, str]], Iterator[Pair]]
"""Reads the pairs of a file, of which the document formats need the languages."""

PAIR_FORMATS: Formats[ReadPairs] = Formats(
    {
        ".tsv": Format(_read_tsv, "source, tab, target"),
        ".jsonl": Format(_read_jsonl, "keys source and target"),
        **{ending: Format(_read_document, "translations") for ending in BILINGUAL},
    }
)

TERM_FORMATS: Formats[ReadPairs] = Formats(
    {**PAIR_FORMATS, ".tbx": Format(_read_document, "terms and their translations")}
)
"""The formats of glossaries."""
