"""A document whose sentences are translated by themselves is the same document."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.documents import Result, translate_data
from clearhead.text.paragraphs import Means, Translation, translate_units
from clearhead.text.placing import word_ranges
from clearhead.text.spans import protection


def same(texts: Sequence[str]) -> list[Translation]:
    return [Translation(text) for text in texts]


def links(pairs: Sequence[tuple[str, str]]) -> list[list[tuple[int, int]]]:
    return [[(n, n) for n in range(len(word_ranges(source)))] for source, _ in pairs]


def translated(form: str, text: str, has_symbols: bool) -> Result:
    means = Means(
        same, links, protection(["software"]), has_symbols=has_symbols, source_language="en"
    )
    return translate_data(text, form, "file", lambda units: translate_units(units, means))


@pytest.mark.parametrize("has_symbols", [True, False])
@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("html", "<td><code>cache_size</code></td>"),
        ("html", "<p>H<sub>2</sub>O, 10 m<sup>2</sup>, x<sup><a href='#f'>1</a></sup>.</p>"),
        ("html", "<p>Press <b>OK.</b> Then <u>S</u>ave</p>"),
        ("html", '<a href="#"><i class="icon"></i> Login</a>'),
        ("html", '<p>Press <i class="icon"></i> to save, <br> then <img> go</p>'),
        ("html", "<p><code>ls</code> lists <code>a</code><code>b</code> now</p>"),
        ("html", "<p>text here <a><img></a></p>"),
        ("html", "<p>config.{name} and %d.%d, %s %d files</p>"),
        ("markdown", "text[^1] more\n\n[^1]: https://example.org/page\n"),
        ("markdown", "see https://en.wikipedia.org/wiki/Foo_(bar) now\n"),
        ("markdown", "[![CI](a.svg)](u) `foo` returns `bar`\n"),
        ("json", '{"a": "{count}", "b": "%s: %s", "c": "Hello {{name}}"}'),
        ("json", '{"a": "{n, plural, one {# \\"file\\"} other {{m, plural, other {# b}}}}"}'),
        ("srt", "1\n00:00:01,000 --> 00:00:02,000\na\n2\n00:00:03,000 --> 00:00:04,000\nb\n"),
        ("po", 'msgid "{name}.{ext} %s"\nmsgstr "{name}.{ext} %s"\n'),
    ],
)
def test_a_document(form: str, text: str, has_symbols: bool) -> None:
    result = translated(form, text, has_symbols)
    assert result.data.decode() == text
    assert "spans" not in [remark.kind for _, remark in result.remarks]


@st.composite
def markup(draw: st.DrawFn, depth: int = 0) -> str:
    text = ""
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["word", "space", "mark", "span", "empty", "kept", "element"]))
        if kind == "element" and depth < 3:
            name = draw(st.sampled_from(["b", "i", "a", "sup"]))
            text += f"<{name}>{draw(markup(depth + 1))}</{name}>"
        else:
            pieces = {"word": "red", "space": " ", "mark": ".", "span": "%s", "empty": "<br>"}
            text += pieces.get(kind, "<code>x</code>")
    return text


def visible(text: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", "", text).split())


@given(markup())
def test_what_people_see_of_a_page(text: str) -> None:
    text = f"<p>red {text} blue</p>"
    found = translated("html", text, has_symbols=True).data.decode()
    assert visible(found) == visible(text)
    assert sorted(re.findall(r"<[^>]*>", found)) == sorted(re.findall(r"<[^>]*>", text))
