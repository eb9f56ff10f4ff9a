"""XML of any kind: which elements end a sentence, and what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import DataError
from clearhead.text.documents import Format, translate_texts
from clearhead.text.documents.xml import read_xml
from clearhead.text.paragraphs import Done
from clearhead.text.units import Unit


def in_capitals(units: Sequence[Unit]) -> list[Done]:
    """Each unit in capitals, but for what is kept."""

    def text(unit: Unit) -> str:
        kept = {i for start, end in unit.keep for i in range(start, end)}
        return "".join(c if i in kept else c.upper() for i, c in enumerate(unit.text))

    return [Done(replace(unit, text=text(unit))) for unit in units]


def units(content: str, **options: Any) -> list[str]:
    return [slot.unit.text for slot in read_xml(content, "text", **options).slots]


def translated(content: str, **options: Any) -> str:
    form = Format((), (partial(read_xml, **options),))
    (found,) = translate_texts([content], form, "text", in_capitals)
    return found.data.decode()


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ("a <b>c</b> d", {}, ["a c d"]),
        ("a <b><i>c</i></b> d", {}, ["a c d"]),
        ("<d><p>One.</p><p>Two <b>c</b>.</p></d>", {}, ["One.", "Two c."]),
        ("<a>b</a> <c>d</c>", {}, ["b", "d"]),
        ("<a>b</a> <c>d</c>", {"inline": {"a", "c"}}, ["b d"]),
        ("<a>b</a> <c>d</c>", {"outline": False}, ["b d"]),
        ("a <b>c</b> d", {"splitting": {"b"}}, ["a", "c", "d"]),
        ("a <k>b <s/> c</k> d", {"splitting": {"s"}}, ["a", "b", "c", "d"]),
        ("<d><k>a</k><p>b</p></d>", {"kept": {"k"}}, ["b"]),
        ("<?xml version='1.0'?>\n<d> a &amp; b </d>", {}, ["a & b"]),
        ("a <!-- c --> <n:b x='1'/> d", {}, ["a  d"]),
        (" ", {}, []),
        ("", {}, []),
    ],
)
def test_text_shows_which_elements_end_a_sentence(
    content: str, options: dict[str, Any], expected: list[str]
) -> None:
    assert units(content, **options) == expected


def test_what_is_kept_is_not_changed() -> None:
    content = "ab <x>cd <y>e</y></x> &lt;f <![CDATA[g & <h>]]> i"
    expected = "AB <x>cd <y>e</y></x> &lt;F <![CDATA[g & <h>]]> I"
    assert translated(content, kept={"x"}) == expected


@pytest.mark.parametrize(
    "content",
    ["<a>", "</x><x>", "a & b", "&nbsp;", "\x01", "<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>"],
)
def test_what_is_no_xml_is_an_error(content: str) -> None:
    with pytest.raises(DataError, match=r"XML|entities"):
        units(content)


TREES = st.recursive(
    st.sampled_from(["a ", " b", " ", "&amp;", "<e/>", "<!-- c -->"]),
    lambda inner: st.builds(
        lambda name, parts: f"<{name}>{''.join(parts)}</{name}>",
        st.sampled_from("pqrs"),
        st.lists(inner, max_size=4),
    ),
    max_leaves=20,
)


@given(st.lists(TREES, max_size=5).map("".join), st.sets(st.sampled_from("pqrs")))
def test_the_elements_of_a_translation_are_those_of_the_document(
    content: str, names: set[str]
) -> None:
    before = ElementTree.fromstring(f"<x>{content}</x>")
    for options in ({}, {"splitting": names}, {"inline": names}, {"kept": names}):
        found = translated(content, **options)
        after = ElementTree.fromstring(f"<x>{found}</x>")
        assert [each.tag for each in before.iter()] == [each.tag for each in after.iter()]
