"""Documents that nobody here wrote: files of installed packages, and generated ones.

Other programs judge the result: polib, lxml, pysubs2, python-docx, json.
"""

from __future__ import annotations

import io
import json
import string
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import docx
import polib
import pysubs2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from clearhead.errors import DataError
from clearhead.text.documents import translate_data
from clearhead.text.documents.bilingual import read_bilingual
from clearhead.text.documents.markup import html_tokens
from clearhead.text.paragraphs import Done
from clearhead.text.units import Unit

PLACES = (Path(sys.prefix), Path("/usr/share"), Path("/usr/lib/node_modules"))
MOST, LARGEST, FEWEST = 40, 300_000, 10


def found(ending: str) -> list[Path]:
    """Some files of installed packages; the test is skipped if there are fewer than ten."""
    files = [
        path
        for place in PLACES
        for path in sorted(place.rglob(f"*{ending}"))
        if path.is_file() and 0 < path.stat().st_size < LARGEST
    ]
    if len(files) < FEWEST:
        pytest.skip(f"fewer than {FEWEST} installed packages have a {ending} file")
    return files[:: max(1, len(files) // MOST)][:MOST]


def left(units: Sequence[Unit]) -> list[Done]:
    return [Done(None) for _ in units]


def the_same(units: Sequence[Unit]) -> list[Done]:
    return [Done(unit) for unit in units]


def in_capitals(units: Sequence[Unit]) -> list[Done]:
    def text(unit: Unit) -> str:
        kept = {i for start, end in unit.keep for i in range(start, end)}
        letters = string.ascii_lowercase
        return "".join(
            c.upper() if c in letters and i not in kept else c for i, c in enumerate(unit.text)
        )

    return [Done(replace(unit, text=text(unit))) for unit in units]


def texts_of(data: bytes, form: str) -> list[str]:
    texts = list[str]()

    def read(units: Sequence[Unit]) -> list[Done]:
        texts.extend(unit.text for unit in units)
        return left(units)

    assert translate_data(data, form, "file", read).data == data
    return texts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "form"), [(".md", "markdown"), (".json", "json"), (".txt", "text")]
)
def test_text_files_of_packages(ending: str, form: str) -> None:
    read = 0
    for path in found(ending):
        data = path.read_bytes()
        try:
            texts = texts_of(data, form)
        except DataError:  # no UTF-8, or JSON with comments
            continue
        read += 1
        again = translate_data(data, form, "file", the_same).data
        assert texts_of(again, form) == texts
        capitals = translate_data(data, form, "file", in_capitals).data
        assert len(texts_of(capitals, form)) == len(texts)
        if form == "json":
            json.loads(capitals)
    assert read >= FEWEST


@pytest.mark.slow
def test_pages_of_packages() -> None:
    def tags(content: str) -> list[tuple[str, str]]:
        return [(token.kind, token.name) for token in html_tokens(content) if token.kind != "text"]

    read = 0
    for path in found(".html"):
        data = path.read_bytes()
        try:
            texts = texts_of(data, "html")
        except DataError:
            continue
        read += 1
        capitals = translate_data(data, "html", "file", in_capitals).data
        assert len(texts_of(capitals, "html")) == len(texts)
        assert tags(capitals.decode(errors="replace")) == tags(data.decode(errors="replace"))
    assert read >= FEWEST


@pytest.mark.slow
def test_catalogues_of_packages() -> None:
    for path in found(".mo"):
        try:
            catalogue = polib.mofile(str(path))
        except (OSError, UnicodeDecodeError):
            continue
        pairs = list(read_bilingual(partial(open, path, "rb"), "mo", "file").pairs)
        entries = [e for e in catalogue if e.msgstr and e.msgid.strip() and not e.msgid_plural]
        assert {(e.msgid, e.msgstr) for e in entries if e.msgstr.strip()} <= {p[:2] for p in pairs}
        # The same catalogue without its translations, as a .po file.
        for entry in catalogue:
            entry.msgstr = ""
            entry.msgstr_plural = dict.fromkeys(entry.msgstr_plural, "")
        content = str(catalogue).encode()
        assert len(texts_of(content, "po")) >= len(entries)
        done = polib.pofile(translate_data(content, "po", "file", in_capitals).data.decode())
        assert [entry.msgid for entry in done] == [entry.msgid for entry in catalogue]
        assert all(
            entry.translated() for entry in done if entry.msgid.strip() and not entry.obsolete
        )


WORDS = st.text(alphabet="ab c.,&<>'\"é", min_size=1, max_size=12)


CUES = st.text(alphabet="ab c.,'\"é", min_size=1, max_size=12)


@given(st.lists(st.tuples(CUES, st.booleans(), st.sampled_from(["", "i", "b"])), max_size=6))
def test_subtitles(cues: list[tuple[str, bool, str]]) -> None:
    subtitles = pysubs2.SSAFile()
    for number, (text, two, tag) in enumerate(cues):
        shown = (f"{{\\{tag}1}}{text}{{\\{tag}0}}" if tag else text) + ("\\Nx" if two else "")
        event = pysubs2.SSAEvent(start=1000 * number, end=1000 * number + 900, text=shown)
        subtitles.append(event)
    for form in ("srt", "vtt"):
        content = subtitles.to_string(form).encode()
        try:
            done = translate_data(content, form, "file", in_capitals).data.decode()
        except DataError:
            assert "-->" not in content.decode()
            continue
        before = pysubs2.SSAFile.from_string(content.decode(), form)
        after = pysubs2.SSAFile.from_string(done, form)
        assert [(e.start, e.end) for e in after] == [(e.start, e.end) for e in before]
        joined = ["".join("".join(e.plaintext for e in each).split()) for each in (before, after)]
        assert joined[1].lower() == joined[0].lower()


@given(
    st.lists(
        st.tuples(WORDS, st.sampled_from(["", "g", "x", "mrk"]), WORDS), min_size=1, max_size=5
    ),
    st.sampled_from(["1.2", "2.0"]),
)
def test_xliff(units: list[tuple[str, str, str]], version: str) -> None:
    is_first = version == "1.2"
    root = etree.Element("xliff", version=version)
    file = etree.SubElement(root, "file", id="f")
    for number, (text, inline, tail) in enumerate(units):
        name = "trans-unit" if is_first else "unit"
        unit = etree.SubElement(file, name, id=str(number))
        segment = unit if is_first else etree.SubElement(unit, "segment")
        source = etree.SubElement(segment, "source")
        source.text = text
        if inline:
            element = etree.SubElement(source, inline, id="1")
            element.text = None if inline == "x" else "in"
            element.tail = tail
    data = etree.tostring(root)
    assert translate_data(data, "xliff", "file", left).data == data
    done = etree.fromstring(translate_data(data, "xliff", "file", in_capitals).data)
    for source in done.iter("source"):
        target = source.getparent().find("target")
        if not "".join(source.itertext()).strip():
            assert target is None
            continue
        assert [each.tag for each in target] == [each.tag for each in source]
        texts = ["".join("".join(each.itertext()).split()) for each in (source, target)]
        assert texts[1].lower() == texts[0].lower()


@given(st.lists(st.lists(st.tuples(WORDS, st.booleans(), st.booleans()), max_size=5), max_size=5))
def test_word_documents(paragraphs: list[list[tuple[str, bool, bool]]]) -> None:
    document = docx.Document()
    for runs in paragraphs:
        paragraph = document.add_paragraph()
        for text, bold, italic in runs:
            run = paragraph.add_run(text)
            run.bold, run.italic = bold or None, italic or None
    saved = io.BytesIO()
    document.save(saved)
    done = translate_data(saved.getvalue(), "docx", "file", in_capitals).data
    for before, after in zip(
        document.paragraphs, docx.Document(io.BytesIO(done)).paragraphs, strict=True
    ):
        assert after.text.lower() == before.text.lower()

        def styled(paragraph: object) -> list[tuple[str, object, object]]:
            runs = paragraph.runs  # type: ignore[attr-defined]
            return [
                (c, run.bold, run.italic) for run in runs for c in run.text.lower() if c.strip()
            ]

        assert styled(after) == styled(before)
