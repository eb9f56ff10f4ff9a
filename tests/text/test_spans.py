"""Protected spans become symbols and come back."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.settings.data import PROTECTED
from clearhead.text.spans import KINDS, SETS, SYMBOLS, Masked, protection

SOFTWARE = protection(["software"])

PIECES = st.sampled_from(
    [
        *("a", " ", "5", "%", "ß", "%s", "%d ", "%(n)s", "{0}", "{name}", "{{x}}", "$x", "\\n"),
        *("<b>", "</b>", "&amp;", "`code`", "https://a.b/c?d=e", "me@example.org", "1.2.3", "👍"),
        SYMBOLS[0],
    ]
)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Open %s: %d of %1$s", ["%s", "%d", "%1$s"]),
        ("%(name)s has %(n)d, 100 % sure", ["%(name)s", "%(n)d"]),
        ("%1 and %s1, 5% of", ["%1", "%s1"]),
        (
            "{} {0} {name!r} {{user}} ${var} $(NAME) $x",
            "{} {0} {name!r} {{user}} ${var} $(NAME) $x".split(),
        ),
        ("%PRODUCTNAME costs $5 or $500", ["%PRODUCTNAME", "$5"]),
        ("see https://a.org/x?y=1. Or www.b.de!", ["https://a.org/x?y=1", "www.b.de"]),
        ("mail a.b@c.org, <b>now</b> &amp; then", ["a.b@c.org", "<b>", "</b>", "&amp;"]),
        (
            "<none> but <br/>, <x id='1'> and <user>me</user>",
            ["<br/>", "<x id='1'>", "<user>", "</user>"],
        ),
        (
            "all {n, plural, one {# a} other {{n} b}} {x}",
            ["{n, plural, one {# a} other {{n} b}}", "{x}"],
        ),
        (r"one\ntwo `code` v2.4.1 👍🏽", [r"\n", "`code`", "v2.4.1", "👍🏽"]),
    ],
)
def test_spans_of_software(text: str, spans: list[str]) -> None:
    assert [text[start:end] for start, end in SOFTWARE.ranges(text)] == spans


@given(st.lists(PIECES).map("".join))
def test_a_masked_text_has_no_spans_and_comes_back(text: str) -> None:
    masked = SOFTWARE.mask(text)
    assert masked.restored(masked.text) == text
    assert masked.keeps(masked.text)
    assert len(masked.symbols) == len(masked.spans)


@given(st.lists(PIECES).map("".join), st.permutations(list(range(6))), st.integers(0, 99))
def test_a_pair_is_masked_alike_on_both_sides(text: str, order: list[int], seed: int) -> None:
    source = f"{text} %s {{a}} <i>"
    spans = [source[start:end] for start, end in SOFTWARE.ranges(source)]
    target = " ".join(reversed(spans))
    if Counter(target[a:b] for a, b in SOFTWARE.ranges(target)) != Counter(spans):
        return  # joined otherwise, some spans are one
    pair = SOFTWARE.mask_pair(source, target, seed)
    assert pair is not None
    if len({*spans}) <= len(SYMBOLS):
        assert Counter(c for c in pair[0] if c in SYMBOLS) == Counter(
            c for c in pair[1] if c in SYMBOLS
        )
        ours = Masked(pair[0], tuple(spans))
        restored = ours.restored(pair[1])
        assert Counter(restored[a:b] for a, b in SOFTWARE.ranges(restored)) == Counter(spans)


def test_a_pair_whose_sides_differ_is_not_masked() -> None:
    assert SOFTWARE.mask_pair("%s files", "Dateien", 0) is None
    assert SOFTWARE.mask_pair("files", "Dateien", 0) == ("files", "Dateien")


def test_the_order_of_symbols_depends_on_the_seed() -> None:
    found = {SOFTWARE.mask_pair("%s", "%s", seed) for seed in range(40)}
    assert len(found) == len(SYMBOLS)


def test_a_symbol_that_occurs_too_often_is_dropped() -> None:
    masked = SOFTWARE.mask("a %s b")
    assert masked.restored(f"{masked.symbols[0]} x {masked.symbols[0]}y") == "%s x y"
    assert not masked.keeps("x")


def test_patterns_of_the_user_count_first() -> None:
    own = protection(["number"], [r"@\w+@"])
    text = "see @x1@ and 12"
    assert [text[start:end] for start, end in own.ranges(text)] == ["@x1@", "12"]


@pytest.mark.parametrize(
    ("source", "order", "wanted"),
    [
        ("%s has %d", (1, 0), "%s %d"),  # the program passes its arguments in this order
        ("%PRODUCTNAME and %OTHER", (1, 0), "%OTHER %PRODUCTNAME"),
        ("%1$s has %2$d", (1, 0), "%2$d %1$s"),
        ("%(a)s has %(b)s", (1, 0), "%(b)s %(a)s"),
        ("<b>a</b>", (1, 0), "<b> </b>"),
        ("<b>a</b> <i>b</i>", (2, 3, 0, 1), "<i> </i> <b> </b>"),
        ("<b>a</b> <i>b</i>", (0, 2, 1, 3), "<b> </b> <i> </i>"),
    ],
)
def test_the_order_of_spans(source: str, order: tuple[int, ...], wanted: str) -> None:
    masked = SOFTWARE.mask(source)
    assert masked.restored(" ".join(masked.symbols[n] for n in order)) == wanted


@pytest.mark.parametrize(
    ("source", "translation", "wanted"),
    [
        ("in %NAME now", "in {}jetzt", "in %NAME jetzt"),
        ("see http://a.b now", "siehe{}jetzt", "siehe http://a.b jetzt"),
        ("{n} files", "{}dateien", "{n}dateien"),
        ("file%sX", "datei{}X", "datei%sX"),
        ("a http://a.b http://c.d", "a {}{}", "a http://a.b http://c.d"),
    ],
)
def test_a_span_does_not_run_into_a_word(source: str, translation: str, wanted: str) -> None:
    masked = SOFTWARE.mask(source)
    assert masked.restored(translation.format(*masked.symbols)) == wanted


def test_the_settings_know_all_sets_and_kinds() -> None:
    assert sorted(PROTECTED) == sorted([*SETS, *KINDS])


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Trend line %FORMULA", ["%FORMULA"]),
        ("%I64d %I32u %X %E", ["%I64d", "%I32u", "%X", "%E"]),
        ("costs $5 million or $1.2 but $1", ["$1"]),
        ("12.05.2024, 1.000.000, 3.11.10", ["3.11.10"]),
        ("stat `%s' and `%s' or `git push`", ["%s", "%s", "`git push`"]),
        (r"one\ntwo", [r"\n"]),
        ("<b>{n}</b> files", ["<b>{n}</b>"]),
    ],
)
def test_what_is_a_span(text: str, spans: list[str]) -> None:
    assert list(SOFTWARE.mask(text).spans) == spans


def test_spans_in_a_row_are_one_if_both_sides_have_it() -> None:
    one, other = SOFTWARE.mask_pair("<b>%s</b> x", "y <b>%s</b>", 1) or ("", "")
    assert (len(one), len(other)) == (3, 3)
    one, other = SOFTWARE.mask_pair("<b>%s</b> x", "y <b>%s </b>", 1) or ("", "")
    assert (len(one), len(other)) == (5, 6)


def test_characters_for_private_use_are_text_without_protection() -> None:
    masked = protection([]).mask("a \ue000")
    assert masked.keeps("b")
    assert masked.keeps("\ue001 b")
    assert masked.restored("\ue001 b") == "\ue001 b"


def test_a_given_translation_has_symbols_as_often_as_its_source() -> None:
    protected = protection(["software"], accelerator="_")
    masked = protected.mask("_Open %s")
    symbol = masked.symbols[0]
    assert protected.mask_like("_Öffne %s und %s", masked) == f"Öffne {symbol} und %s"
