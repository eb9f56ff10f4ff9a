"""Translations of earlier texts, against a search of a few lines."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.memory import Match, Memory
from clearhead.text.spans import NOTHING, protection
from clearhead.tokenizer.normal_form import SPACES, NormalForm

LABELS = protection(["software"], (), "_")


@pytest.mark.parametrize(
    ("pairs", "text", "wanted"),
    [
        ([("Delete %s?", "%s löschen?")], "Delete %1?", "%1 löschen?"),
        ([("{a} of {b}", "{b} hat {a}")], "{x} of {y}", "{y} hat {x}"),
        ([("Delete %s?", "%s löschen?")], "Delete %1 %2?", None),
        ([("Save", "Sichern")], "save", None),
        ([("Save  it ", "Sichern")], " Save it", "Sichern"),
        ([("_Save", "_Sichern")], "Sav_e", "Sich_ern"),
        ([("_Save", "_Sichern")], "Save", "Sichern"),
        # The sides have different spans.
        ([("Delete %s?", "Löschen?")], "Delete %s?", "Löschen?"),
        ([("Delete %s?", "Löschen?")], "Delete %1?", None),
        ([("Delete?", "%s löschen?")], "Delete?", "%s löschen?"),
        # The same text counts before others that are the same except for spans.
        ([("on %s", "an %s"), ("on %d", "auf %d"), ("on %s", "an %s")], "on %d", "auf %d"),
        ([("on %s", "an %s"), ("on %d", "auf %d"), ("on %s", "an %s")], "on %i", "an %i"),
        # The most frequent, then the last.
        ([("a", "b"), ("a", "c"), ("a", "c")], "a", "c"),
        ([("a", "b"), ("a", "c"), ("a", "b"), ("a", "c")], "a", "c"),
        ([("a", "c"), ("a", "b"), ("a", "c"), ("a", "d")], "a", "c"),
        # A blank side is no translation.
        ([("a", " "), ("", "b"), ("\u200b", "b")], "a", None),
        ([("", "b"), ("\u200b", "b")], "", None),
        ([], "a", None),
    ],
)
def test_the_same_text(pairs: Sequence[tuple[str, str]], text: str, wanted: str | None) -> None:
    memory = Memory(pairs, LABELS)
    assert memory.exact(text) == memory.find(text) == (wanted and Match(1.0, wanted))


def test_without_protection_spans_are_text() -> None:
    memory = Memory([("Delete %s?", "%s löschen?"), ("\ue000", "a")], NOTHING)
    assert memory.exact("Delete %1?") is None
    assert memory.exact("Delete %s?") == Match(1.0, "%s löschen?")
    assert memory.exact("\ue001") is None


def test_the_normal_form_counts() -> None:
    form = NormalForm("NFC", spaces=SPACES, removed="\xad", lower=True)
    memory = Memory([("Cafe\u0301 %s", "Kaffee %s")], form=form)
    assert memory.exact("CAF\xc9\xa0%d") == Match(1.0, "Kaffee %d")
    assert Memory([("Cafe\u0301", "Kaffee")]).exact("Caf\xe9") is None


def test_the_size_is_the_number_of_texts() -> None:
    assert len(Memory([("a", "b"), ("a ", "c"), ("%s", "%s"), ("%d", "%d"), (" ", "b")])) == 3
    assert not Memory([])


def similarity(one: str, other: str) -> float:
    """Twice the longest common subsequence by the lengths of both."""
    lengths = [0] * (len(other) + 1)
    for a in one:
        before = lengths
        lengths = [0]
        for n, b in enumerate(other):
            lengths.append(before[n] + 1 if a == b else max(before[n + 1], lengths[-1]))
    return 2 * lengths[-1] / ((len(one) + len(other)) or 1)


WORDS = st.text("abc", min_size=1, max_size=8)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8), WORDS, st.floats(0.01, 1))
def test_the_nearest_text(pairs: list[tuple[str, str]], text: str, least: float) -> None:
    memory = Memory(pairs, NOTHING, least=least)
    best = max(similarity(text, source) for source, _ in pairs)
    found = memory.find(text)
    assert (found is not None) == (best >= least)
    nearest = memory.nearest(text)
    assert nearest is not None
    assert nearest.similarity == pytest.approx(best)
    if found is not None:
        assert found.similarity == pytest.approx(best)
        near = {target for source, target in pairs if similarity(text, source) > best - 1e-9}
        assert found.text in near


def test_a_similar_text_gets_its_own_spans() -> None:
    memory = Memory([("Delete the file %s now?", "%s jetzt löschen?"), ("a %s", "b")], least=0.8)
    found = memory.find("Delete the file {name}?")
    assert found is not None
    assert found.text == "{name} jetzt löschen?"
    assert 0.8 < found.similarity < 1
    # The translation must have all spans of the text, and no others.
    for text in ("Delete the file now?", "Delete the files %s and %s now?"):
        assert memory.find(text) is None
    found = memory.nearest("Delete the file now?")
    assert found is not None
    assert found.text == " jetzt löschen?"
    # A pair whose spans differ is for the same text only.
    assert memory.find("a %d") is None
    assert Memory([("a %s", "b")]).nearest("a %d") is None
