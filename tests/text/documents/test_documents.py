"""Documents: what is translated, what stays byte for byte, and what is written."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import replace

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import DataError
from clearhead.text.documents import FORMATS, decoded, docx, format_of, translate_data
from clearhead.text.documents.markup import xml_tokens
from clearhead.text.paragraphs import Done
from clearhead.text.units import Unit


def in_capitals(units: Sequence[Unit]) -> list[Done]:
    """Each unit in capitals, but for what is kept."""

    def text(unit: Unit) -> str:
        kept = {i for start, end in unit.keep for i in range(start, end)}
        return "".join(c if i in kept else c.upper() for i, c in enumerate(unit.text))

    return [Done(replace(unit, text=text(unit))) for unit in units]


def left(units: Sequence[Unit]) -> list[Done]:
    return [Done(None) for _ in units]


def translated(form: str, text: str, **options: object) -> str:
    return translate_data(text.encode(), form, "file", in_capitals, "de", **options).data.decode()


PO = """\
# Comment
msgid ""
msgstr ""
"Language: \\n"
"Plural-Forms: nplurals=3; plural=(n==1 ? 1 : 0);\\n"

#: a.c:1
#, c-format
msgctxt "menu"
msgid "open \\"it\\"\\n"
"now\\n"
msgstr ""

msgid "one file"
msgid_plural "many files"
msgstr[0] ""
msgstr[1] ""

#, fuzzy
msgid "close"
msgstr "zu"

msgid "done"
msgstr "fertig"

#~ msgid "gone"
#~ msgstr ""
"""


def test_po() -> None:
    assert translated("po", PO) == (
        PO.replace("Language: \\n", "Language: de\\n")
        .replace('now\\n"\nmsgstr ""', 'now\\n"\nmsgstr ""\n"OPEN \\"IT\\"\\n"\n"NOW\\n"')
        .replace('msgstr[0] ""', 'msgstr[0] "MANY FILES"')
        .replace('msgstr[1] ""', 'msgstr[1] "ONE FILE"')
    )


def test_what_is_translated_already_is_counted() -> None:
    result = translate_data(PO.encode(), "po", "file", in_capitals)
    assert result.texts == 3
    assert result.skipped == [("file:20", "fuzzy"), ("file:23", "translated already")]


@pytest.mark.parametrize(
    ("form", "text", "wanted"),
    [
        ("html", '<p title="a">b <i>c</i><br>d</p>', '<p title="A">B <i>C</i><br>D</p>'),
        ("html", "<p>x &amp; <code>a &lt; b</code> y", "<p>X &amp; <code>a &lt; b</code> Y"),
        ("html", "<script>a</script><pre>b</pre>c", "<script>a</script><pre>b</pre>C"),
        (
            "html",
            '<p translate="no">a</p><b class="notranslate">b</b> c',
            '<p translate="no">a</p><b class="notranslate">b</b> C',
        ),
        ("html", "<html lang=en><img alt=b title=c>d", '<html lang=de><img alt="B" title="C">D'),
        ("html", '<html lang="en"><p>a<img alt="b">c', '<html lang="de"><p>A<img alt="B">C'),
        ("html", "<p>a <b>b <p>c</b>", "<p>A <b>B <p>C</b>"),
        ("markdown", "![a](b \"c\") [d](e 'f')", "![A](b \"C\") [D](e 'F')"),
        ("markdown", "# a\n\n*b* `c`\n\n```\nd\n```\n", "# A\n\n*B* `c`\n\n```\nd\n```\n"),
        ("markdown", "> a\n> b\n\n- [c](d.md)\n", "> A B\n\n- [C](d.md)\n"),
        (
            "markdown",
            "---\ntitle: x\n---\na ![b](c) <u>d</u>\n",
            "---\ntitle: x\n---\nA ![B](c) <u>D</u>\n",
        ),
        ("markdown", "see [a] now\n\n[a]: b\n", "SEE [A][a] NOW\n\n[a]: b\n"),
        ("markdown", "a[^1] b\n", "A[^1] B\n"),
        ("markdown", "- [ ] a\n- [x] b\n", "- [ ] A\n- [x] B\n"),
        ("markdown", "1\\. a\n", "1\\. A\n"),
        ("markdown", "+++\r\na = 1\r\n+++\r\nb\r\n", "+++\r\na = 1\r\n+++\r\nB\r\n"),
        ("markdown", "| a | b |\n|---|---|\n| c | `d` |\n", "| A | B |\n|---|---|\n| C | `d` |\n"),
        ("json", '{"a": {"b": ["c", 1, "\\u00e9\\n"]}}', '{"a": {"b": ["C", 1, "\\u00c9\\n"]}}'),
        (
            "json",
            '{"a": "{n, plural, =0 {none} other {# b {x}}}", "c": "d {n, plural, other {e}}"}',
            '{"a": "{n, plural, =0 {NONE} other {# B {X}}}", "c": "D {N, PLURAL, OTHER {E}}"}',
        ),
        ("text", "a\nb\n\n  c\n", "A\nB\n\n  C\n"),
        (
            "srt",
            "1\n00:00:01,000 --> 00:00:02,000\na <i>b</i>.\n",
            "1\n00:00:01,000 --> 00:00:02,000\nA <i>B</i>.\n",
        ),
    ],
)
def test_what_is_written(form: str, text: str, wanted: str) -> None:
    assert translated(form, text) == wanted


@pytest.mark.parametrize(
    ("column", "text", "wanted"),
    [
        ("b", 'a,b\n1,"x, ""y"""\n', 'a,b\n1,"X, ""Y"""\n'),
        (0, "x,1\r\ny,2\r\n", "X,1\r\nY,2\r\n"),
    ],
)
def test_a_column_of_a_table(column: str | int, text: str, wanted: str) -> None:
    assert translated("csv", text, column=column) == wanted


def test_a_sentence_over_two_cues_is_one_text() -> None:
    cues = "when it is open,\n\n00:03.500 --> 00:06.000\nclose it.\n"
    text = f"WEBVTT\n\n00:01.000 --> 00:03.500\n{cues}"
    found: list[Unit] = []

    def longer(units: Sequence[Unit]) -> list[Done]:
        found.extend(units)
        return [Done(replace(unit, text="wenn es offen ist, dann schließen")) for unit in units]

    data = translate_data(text.encode(), "vtt", "file", longer).data.decode()
    assert [unit.text for unit in found] == ["when it is open, close it."]
    wanted = text.replace("when it is open,", "wenn es offen ist,")
    assert data == wanted.replace("close it.", "dann schließen")


@pytest.mark.parametrize("form", sorted(set(FORMATS) - {"docx"}))
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_document_that_is_not_translated_is_the_same_bytes(form: str, encoding: str) -> None:
    texts = {
        "po": PO,
        "html": "<html><p>é &eacute; <b>b</p>\r\n",
        "markdown": "# é\r\n\n*a*  \nb\n",
        "srt": "1\r\n00:00:01,000 --> 00:00:02,000\r\né\r\n",
        "vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\né\n",
        "xliff": XLIFF,
        "json": '{"é": ["é", null]}',
        "text": "é\n\nb\n",
        "csv": 'é,"b"\n',
        "tsv": "é\tb\n",
    }
    data = texts[form].encode(encoding)
    assert translate_data(data, form, "file", left, "de").data == data
    assert translate_data(data, form, "file", in_capitals, "de").data != data


XLIFF = """\
<xliff version="1.2"><file source-language="en" target-language=""><body>
  <trans-unit id="1"><source>a <g id="1">b</g> <x id="2"/></source></trans-unit>
  <trans-unit id="2"><source>a &amp; b</source><target state="new">a</target></trans-unit>
  <trans-unit id="3" translate="no"><source>c</source></trans-unit>
  <trans-unit id="4" approved="yes"><source>c</source><target/></trans-unit>
  <trans-unit id="5"><source>c</source><target>d</target></trans-unit>
</body></file></xliff>
"""


def test_xliff() -> None:
    state = 'state="needs-review-translation" state-qualifier="mt-suggestion"'
    assert translated("xliff", XLIFF) == (
        XLIFF.replace('target-language=""', 'target-language="de"')
        .replace(
            '<x id="2"/></source>',
            f'<x id="2"/></source><target {state}>A <g id="1">B</g> <x id="2"/></target>',
            1,
        )
        .replace(
            '<target state="new">a</target>',
            '<target state="needs-review-translation">A &amp; B</target>',
        )
    )


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("po", PO.replace("Language: ", "Language: fr")),
        ("xliff", XLIFF.replace('target-language=""', 'target-language="fr-CA"')),
    ],
)
def test_a_translation_into_another_language_is_refused(form: str, text: str) -> None:
    with pytest.raises(DataError, match="fr"):
        translated(form, text)


TEMPLATE = """\
msgid ""
msgstr ""
"Language: \\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"

msgid "one file"
msgid_plural "many files"
msgstr[0] ""
msgstr[1] ""

msgid "done"
msgstr ""
"""


@pytest.mark.parametrize(
    ("language", "forms"),
    [
        ("de", ["ONE FILE", "MANY FILES"]),
        ("pl", ["ONE FILE", "MANY FILES", "MANY FILES"]),
        ("ja", ["MANY FILES"]),
        ("ar", ["MANY FILES", "ONE FILE", *["MANY FILES"] * 4]),
    ],
)
def test_a_template_gets_the_plural_forms_of_its_language(language: str, forms: list[str]) -> None:
    done = translate_data(TEMPLATE.encode(), "po", "file", in_capitals, language).data.decode()
    found = polib.pofile(done)
    assert found.metadata["Language"] == language
    assert found.metadata["Plural-Forms"].startswith(f"nplurals={len(forms)};")
    assert list(found[0].msgstr_plural.values()) == forms
    assert found[1].msgstr == "DONE"


@pytest.mark.parametrize(
    ("form", "text", "skipped"),
    [
        ("html", "<p>a</p>\n<pre>b <i>c</i></pre>", [("file:2", "preformatted")]),
        ("html", '<p translate="no">a <b>b</b></p>', [("file:1", "not to be translated")]),
        ("html", "<script>a</script>", []),
    ],
)
def test_texts_that_stay_are_listed(form: str, text: str, skipped: list[object]) -> None:
    assert translate_data(text.encode(), form, "file", in_capitals).skipped == skipped


def test_cdata_is_text() -> None:
    source = "<source><![CDATA[a <b>b</b> & c]]></source>"
    unit = f'<trans-unit id="1">{source}</trans-unit>'
    done = translated("xliff", f'<xliff version="1.2"><file>{unit}</file></xliff>')
    assert source in done
    assert ">A &lt;B&gt;B&lt;/B&gt; &amp; C</target>" in done


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("po", "msgid open"),
        ("po", 'msgid "a"\nmsgid "b"\n'),
        ("json", '{"a": }'),
        ("xliff", "<xliff><file></xliff>"),
        ("xliff", "<html/>"),
        ("xliff", '<!DOCTYPE a [<!ENTITY b "c">]><xliff version="1.2"/>'),
        ("srt", "no subtitles"),
        ("docx", "no archive"),
        ("text", "a\0b"),
        ("csv", "\xff"),
    ],
)
def test_what_is_no_document_of_the_format(form: str, text: str) -> None:
    with pytest.raises(DataError) as error:
        translate_data(text.encode("latin-1"), form, "file.x", in_capitals)
    assert error.value.where is not None
    assert str(error.value.where).startswith("file.x")


def test_a_missing_column() -> None:
    with pytest.raises(DataError):
        translated("csv", "a,b\n1,2\n", column="c")


def test_a_declared_encoding_is_kept() -> None:
    data = '<html><meta charset="iso-8859-1"><p>é</p></html>'.encode("latin-1")
    assert decoded(data, "html", "file")[1] == "iso-8859-1"
    done = translate_data(data, "html", "file", lambda u: [Done(replace(x, text="→")) for x in u])
    assert b"<p>&#8594;</p>" in done.data


def test_the_format_of_a_name() -> None:
    assert [format_of(name) for name in ("A.PO", "b/c.html", "d.txt", "e")] == [
        "po",
        "html",
        "text",
        None,
    ]


@given(st.text(alphabet='ab \\"\n\t{}é', max_size=30))
def test_any_text_comes_back_from_po(text: str) -> None:
    from clearhead.text.documents.po import entries, quoted

    content = f'msgid "a"\nmsgstr {quoted(text)}\n'
    (entry,) = entries(content, "file")
    assert entry.strings["msgstr"].value == text


@pytest.mark.parametrize("form", ["html", "markdown", "text", "csv", "tsv"])
@given(text=st.text(alphabet="ab <>&\"'`*_[]()#|-\n\t,;=/!é", max_size=60))
def test_any_text_is_read_and_stays_as_it_is(form: str, text: str) -> None:
    data = text.encode()
    try:
        assert translate_data(data, form, "file", left).data == data
    except DataError:
        assert form in ("csv", "tsv")
    assert codecs.lookup(decoded(data, form, "file")[1]).name == "utf-8"


CUE = "1\n00:00:01,000 --> 00:00:02,000\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{\\an8}a b\n", "{\\an8}A B\n"),
        ("a <00:00:01.500>b\n", "A <00:00:01.500>B\n"),
        ("- a.\n- b.\n", "- A.\n- B.\n"),
        ("a & b\n", "A & B\n"),
    ],
)
def test_what_a_cue_may_have(text: str, wanted: str) -> None:
    assert translated("srt", CUE + text) == CUE + wanted


@pytest.mark.parametrize(
    ("translation", "wanted"),
    [
        ("你好世界和平", ["你好", "世界", "和平"]),
        ("a b c", ["a", "b", "c"]),
    ],
)
def test_a_translation_is_divided_among_the_cues_of_its_sentence(
    translation: str, wanted: list[str]
) -> None:
    times = [f"00:0{n}.000 --> 00:0{n}.900" for n in range(3)]
    cues = "\n\n".join(f"{time}\nword" for time in times)

    def fixed(units: Sequence[Unit]) -> list[Done]:
        return [Done(replace(unit, text=translation)) for unit in units]

    data = translate_data(f"WEBVTT\n\n{cues}\n".encode(), "vtt", "file", fixed).data.decode()
    assert [part.partition("\n")[2].strip() for part in data.split("\n\n")[1:]] == wanted


RUN = "<w:r><w:t>{}</w:t></w:r>"
FIELD = "".join(
    f"<w:r>{part}</w:r>"
    for part in (
        '<w:fldChar w:fldCharType="begin"/>',
        "<w:instrText>PAGE</w:instrText>",
        '<w:fldChar w:fldCharType="separate"/>',
        "<w:t>x</w:t>",
        '<w:fldChar w:fldCharType="end"/>',
    )
)


@pytest.mark.parametrize(
    ("paragraph", "texts"),
    [
        (
            f"{RUN.format('a')}<w:r><w:pict><w:p>{RUN.format('b')}</w:p></w:pict></w:r>"
            + RUN.format("c"),
            ["a", "b", "c"],
        ),
        (f"{RUN.format('a ')}<w:hyperlink>{RUN.format('b')}</w:hyperlink>", ["a b"]),
        (
            f"<w:hyperlink>{RUN.format('a')}<w:ins>{RUN.format('b')}</w:ins></w:hyperlink>"
            + RUN.format("c"),
            ["a", "c"],
        ),
        (f"{RUN.format('a ')}{FIELD}{RUN.format(' b')}", ["a  b"]),
        (f'<w:bookmarkStart w:id="1"/>{RUN.format("a")}<w:bookmarkEnd w:id="1"/>', ["a"]),
    ],
)
def test_what_a_paragraph_of_word_may_have(paragraph: str, texts: list[str]) -> None:
    content = f'<w:document xmlns:w="http://w"><w:p>{paragraph}</w:p></w:document>'
    document = docx.read_part(content, "file")
    assert [slot.unit.text for slot in document.slots] == texts
    units = [replace(slot.unit, text=slot.unit.text.upper()) for slot in document.slots]
    written = document.translated(units)

    def names(text: str) -> list[str]:
        ignored = ("r", "t")
        return [t.name for t in xml_tokens(text, "file") if t.name and t.name not in ignored]

    assert names(written) == names(content)


def test_texts_with_a_confidence_are_listed_with_their_places() -> None:
    def translate(units: Sequence[Unit]) -> list[Done]:
        values = [0.5, None, 0.25]
        return [Done(unit, (), value) for unit, value in zip(units, values, strict=True)]

    result = translate_data("a\n\nb\n\nc\n", "text", "notes.txt", translate)
    assert result.confidences == [("notes.txt:1", 0.5), ("notes.txt:5", 0.25)]
