"""Units are translated sentence by sentence; tags, kept ranges and spans survive."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.memory import Memory
from clearhead.text.paragraphs import Means, Translation, translate_units
from clearhead.text.placing import word_ranges
from clearhead.text.spans import SYMBOLS, protection
from clearhead.text.units import Tag, Unit


def backwards(texts: Sequence[str]) -> list[Translation]:
    """Each sentence with its words (and marks) in reverse order, in capitals."""
    return [
        Translation(" ".join(word if word == "%s" else word.upper() for word in _words(text)[::-1]))
        for text in texts
    ]


def _words(text: str) -> list[str]:
    return re.findall(r"%s|\w+|[^\w\s]", text)


def links(pairs: Sequence[tuple[str, str]]) -> list[list[tuple[int, int]]]:
    return [
        [(n, len(word_ranges(source)) - 1 - n) for n in range(len(word_ranges(source)))]
        for source, _ in pairs
    ]


SYMBOLIC = Means(backwards, links, protection(["software"]), source_language="en")
ALIGNED = Means(backwards, links, protection(["software"]), has_symbols=False, source_language="en")


@pytest.mark.parametrize(
    ("means", "wanted"),
    [
        (SYMBOLIC, "quickly `code` now %s <b>red</b> the open"),
        # Without a symbol, what is kept is where most words are on their side.
        (ALIGNED, "quickly now %s <b>red</b> the open `code`"),
    ],
)
def test_a_unit_with_a_tag_a_kept_range_and_a_placeholder(means: Means, wanted: str) -> None:
    text = "open the red %s now `code` quickly"
    unit = Unit(text, tags=(Tag(9, 12, "<b>", "</b>"),), keep=((20, 26),))
    (done,) = translate_units([unit], means)
    assert done.unit is not None
    assert done.unit.marked(str.lower) == wanted
    assert done.remarks == ()


@pytest.mark.parametrize(
    ("translation", "wanted", "remarks"),
    [
        ("schreibe %s und {name} nach x", "schreibe %s und {name} nach x", []),
        ("nach x % s { name } schreiben", "nach x %s {name} schreiben", []),
        ("schreibe und nach", "schreibe %s und {name} nach", ["placed"]),
        ("50 % davon %s {name} nach", "50 % davon %s {name} nach", []),
        ("%s und %s {name}", "%s und %s {name}", ["spans"]),
    ],
)
def test_a_model_without_symbols_gets_back_the_spans_that_it_lost(
    translation: str, wanted: str, remarks: list[str]
) -> None:
    means = replace(
        ALIGNED,
        translate=lambda texts: [Translation(translation) for _ in texts],
        link=lambda pairs: [[(0, 0), (1, 1), (3, 1), (7, 2)] for _ in pairs],
    )
    (done,) = translate_units([Unit("write %s and {name} to x")], means)
    assert done.unit is not None
    assert done.unit.text == wanted
    assert [remark.kind for remark in done.remarks] == remarks


def test_equal_sentences_are_translated_once_and_joined_with_their_white_space() -> None:
    asked: list[str] = []

    def translate(texts: Sequence[str]) -> list[Translation]:
        asked.extend(texts)
        return backwards(texts)

    means = Means(translate, links, protection([]), source_language="en")
    units = [Unit("One two.  Three four.\nOne two."), Unit("One two."), Unit("12 %"), Unit(" ")]
    done = translate_units(units, means)
    assert asked == ["One two.", "Three four."]
    assert [each.unit and each.unit.text for each in done] == [
        ". TWO ONE  . FOUR THREE\n. TWO ONE",
        ". TWO ONE",
        None,
        None,
    ]


@pytest.mark.parametrize("means", [SYMBOLIC, ALIGNED])
def test_a_text_that_a_memory_has_is_not_divided(means: Means) -> None:
    asked: list[str] = []

    def translate(texts: Sequence[str]) -> list[Translation]:
        asked.extend(texts)
        return [Translation(text.upper(), remembered=text.startswith("One")) for text in texts]

    known = "One two. Three %s four."
    memory = Memory([(known, known)])
    means = replace(
        means,
        translate=translate,
        fits=lambda text: len(text) < 20,
        remembers=lambda text: memory.exact(text) is not None,
    )
    texts = [" One two.  Three %1 four.\n", "Three. One", "One", "12 %"]
    done = translate_units([Unit(text) for text in texts], means)
    assert len(asked) == 3
    assert [each.unit and each.unit.text for each in done] == [
        " ONE TWO. THREE %1 FOUR.\n",
        "THREE. ONE",
        "ONE",
        None,
    ]
    assert [each.remembered for each in done] == [True, False, True, False]
    assert "divided" not in [remark.kind for each in done for remark in each.remarks]


@pytest.mark.parametrize("means", [SYMBOLIC, ALIGNED])
def test_lines_that_are_wrapped_within_a_sentence_become_one(means: Means) -> None:
    unit = Unit("one two\n  %s three.\nFour five.", soft=True)
    (done,) = translate_units([unit], means)
    assert done.unit is not None
    assert done.unit.marked(str.lower) == ". three %s two one\n. five four"


def test_a_lost_placeholder_is_remarked() -> None:
    means = Means(
        lambda texts: [Translation("nothing") for _ in texts], links, protection(["software"])
    )
    (done,) = translate_units([Unit("a %s b")], means)
    assert [remark.kind for remark in done.remarks] == ["spans"]


@st.composite
def units(draw: st.DrawFn) -> Unit:
    pieces = draw(st.lists(st.sampled_from(["word ", "other, ", "End. ", "%s ", "\n"]), max_size=8))
    text, tags, keep = "go ", list[Tag](), list[tuple[int, int]]()
    for number, piece in enumerate(pieces):
        kind = draw(st.sampled_from(["plain", "tag", "empty", "kept"]))
        start = len(text)
        if kind == "kept":
            keep.append((start, start + 3))
            piece = f"[{number}] "
        elif kind != "plain":
            end = start + len(piece) if kind == "tag" else start
            closing = f"</{number}>" if kind == "tag" else ""
            tags.append(Tag(start, end, f"<{number}>", closing))
        text += piece
    return Unit(f"{text}on", tags=tuple(tags), keep=tuple(keep))


@given(units(), st.sampled_from([SYMBOLIC, ALIGNED]))
def test_tags_kept_ranges_and_placeholders_are_there_once(unit: Unit, means: Means) -> None:
    (done,) = translate_units([unit], means)
    if done.unit is None:
        return
    pattern = re.compile(r"<[^>]*>|\[\d\]|%s")
    written = done.unit.marked(str.lower)
    assert Counter(pattern.findall(written)) == Counter(pattern.findall(unit.marked()))
    assert not any(symbol in written for symbol in SYMBOLS)
    assert written.count("word") == unit.text.count("word")


def test_the_least_confidence_of_its_sentences_is_that_of_a_text() -> None:
    known = {"One.": 0.7, "Two.": 0.4, "From a memory.": None}

    def translate(texts: Sequence[str]) -> list[Translation]:
        return [Translation(text.upper(), confidence=known[text]) for text in texts]

    means = Means(translate, links, protection([]), source_language="en")
    texts = ["One. Two. From a memory.", "One.", "From a memory.", "123"]
    done = translate_units([Unit(text) for text in texts], means)
    assert [each.confidence for each in done] == [0.4, 0.7, None, None]


def test_a_unit_may_be_one_sentence() -> None:
    unit = Unit("One dog. Two\ncats.", soft=True, whole=True)
    (done,) = translate_units([unit], SYMBOLIC)
    assert done.unit is not None
    assert done.unit.text == ". CATS TWO . DOG ONE"
    assert [pair.source for pair in done.sentences] == ["One dog. Two cats."]
    for text in ("", " \n"):
        assert translate_units([replace(unit, text=text)], SYMBOLIC)[0].unit is None
