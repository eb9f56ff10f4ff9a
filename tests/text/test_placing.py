"""Elements are placed at the words that come from theirs; markup stays well-formed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.placing import placed, word_ranges
from clearhead.text.units import Tag, Unit


def marked(source: Unit, translation: str, *links: tuple[int, int]) -> str:
    return placed(source, translation, links).marked()


def element(name: str, start: int, end: int, parent: int = -1) -> Tag:
    return Tag(start, end, f"<{name}>", f"</{name}>", parent)


def test_an_element_follows_its_words() -> None:
    source = Unit("open the red file", tags=(element("b", 9, 12),))
    links = ((0, 3), (1, 0), (2, 1), (3, 2))
    assert marked(source, "die rote Datei öffnen", *links) == "die <b>rote</b> Datei öffnen"


def test_punctuation_beside_an_element_stays_outside() -> None:
    source = Unit("click Print, then OK", tags=(element("b", 6, 11),))
    links = ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4))
    assert marked(source, "klick Drucken, dann OK", *links) == "klick <b>Drucken</b>, dann OK"


def test_nested_elements_stay_nested() -> None:
    source = Unit("a b c d", tags=(element("p", 0, 5), element("i", 2, 3, 0), element("q", 6, 7)))
    links = ((0, 3), (1, 2), (2, 1), (3, 0))
    assert marked(source, "D C B A", *links) == "<q>D</q> <p>C <i>B</i> A</p>"


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("one two| three", "zwei eins<br/> drei"),
        ("one two |three", "zwei eins <br/>drei"),
        ("one two | three", "zwei eins <br/> drei"),
    ],
)
def test_an_empty_element_is_where_most_words_are_on_their_side(source: str, wanted: str) -> None:
    at = source.index("|")
    unit = Unit(source.replace("|", ""), tags=(Tag(at, at, "<br/>"),))
    links = ((0, 1), (1, 0), (2, 2))
    assert marked(unit, "zwei eins drei", *links) == wanted


def test_an_empty_element_brings_its_space_to_the_end_and_the_start() -> None:
    last = Unit("now  press", tags=(Tag(4, 4, "<x/>"),))
    assert marked(last, "drücken", (1, 0)) == "<x/> drücken"
    assert marked(last, "jetzt", (0, 0)) == "jetzt <x/>"
    assert marked(last, "jetzt.", (0, 0)) == "jetzt <x/>."


def test_an_element_keeps_white_space_at_its_ends() -> None:
    source = Unit("see the file now", tags=(element("g", 3, 12), element("i", 12, 16)))
    links = ((0, 0), (1, 1), (2, 2), (3, 3))
    assert marked(source, "siehe die Datei jetzt", *links) == "siehe<g> die Datei</g><i> jetzt</i>"


@st.composite
def units(draw: st.DrawFn) -> Unit:
    text = draw(st.text("ab ,.", max_size=12))
    tags: list[Tag] = []

    def grow(start: int, end: int, parent: int, depth: int) -> None:
        while start <= end and len(tags) < 8 and draw(st.booleans()):
            a = draw(st.integers(start, end))
            b = draw(st.integers(a, end))
            number = len(tags)
            if draw(st.booleans()):
                tags.append(Tag(a, b, f"<{number}>", f"</{number}>", parent))
                if depth < 3:
                    grow(a, b, number, depth + 1)
            else:
                b = a
                tags.append(Tag(a, a, f"<{number}/>", "", parent))
            start = b

    grow(0, len(text), -1, 0)
    return Unit(text, tags=tuple(tags))


def tree(markup: str) -> tuple[list[str], str]:
    """The name of each element with its ancestors, and the text, of well-formed markup."""
    stack, found, text = list[str](), list[str](), ""
    rest = markup
    while rest:
        before, bracket, rest = rest.partition("<")
        text += before
        if not bracket:
            break
        name, _, rest = rest.partition(">")
        if name.startswith("/"):
            assert stack.pop() == name[1:]
        elif name.endswith("/"):
            found.append("/".join([*stack, name]))
        else:
            stack.append(name)
            found.append("/".join(stack))
    assert not stack
    return sorted(found), text


@given(units(), st.text("xyz ,.", max_size=12), st.data())
def test_each_element_is_kept_once_with_its_ancestors(
    unit: Unit, translation: str, data: st.DataObject
) -> None:
    words = len(word_ranges(unit.text)), len(word_ranges(translation))
    link = st.tuples(st.integers(0, words[0] - 1), st.integers(0, words[1] - 1))
    links = data.draw(st.lists(link)) if all(words) else []
    wanted, text = tree(unit.marked())
    assert text == unit.text
    found, written = tree(placed(unit, translation, links).marked())
    assert found == wanted
    # An empty element may bring a space.
    assert written.replace(" ", "") == translation.replace(" ", "")
