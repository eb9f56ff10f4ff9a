"""Pieces joined to words, for the marks of each kind of tokenizer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.inspect.words import words_in, words_of
from clearhead.tokenizer.normal_form import FULL_WIDTH, INVISIBLE, SPACES, NormalForm


@pytest.mark.parametrize(
    ("pieces", "special", "words"),
    [
        ("▁the ▁un believ able ▁cat .", (), "the unbelievable cat."),
        ("<s> ▁el ▁ga to </s>", (0, 4), "el gato"),
        ("[CLS] play ##ing chess [SEP]", (0, 4), "playing chess"),
        ("[music] plays <b>", (), "[music] plays <b>"),
        ("the Ġcat s", (), "the cats"),
        ("the cat sleeps .", (), "the cat sleeps ."),
        ("▁a <0xC3> <0xA9> ▁b", (), "aé b"),
        ("▁a <0xC3> ▁b", (), "a<0xC3> b"),
        ("ab ▁cd", (), "ab cd"),
        ("▁ ▁x", (), "▁ x"),
        ("<s> </s>", (0, 1), ""),
    ],
)
def test_pieces_are_joined(pieces: str, special: tuple[int, ...], words: str) -> None:
    assert [word.text for word in words_of(pieces.split(), special)] == words.split()


@given(st.lists(st.text(min_size=1, max_size=4), max_size=8), st.sets(st.integers(0, 7)))
def test_every_piece_is_in_one_word_or_special(pieces: list[str], special: set[int]) -> None:
    found = [position for word in words_of(pieces, special) for position in word.positions]
    assert found == [i for i in range(len(pieces)) if i not in special]


@pytest.mark.parametrize(
    ("text", "pieces", "positions"),
    [
        ("the cats.", "▁the ▁cat s .", [(0,), (1, 2, 3)]),
        ("the cats.", "the cats .", [(0,), (1, 2)]),
        ("a b", "▁a ▁ b", [(0,), (1, 2)]),
        ("The Cat", "▁the ▁cat", [(0,), (1,)]),
        ("é b", "▁ <0xC3> <0xA9> ▁b", [(0, 1, 2), (3,)]),
        ("ab c", "▁a b ▁c", [(0, 1), (2,)]),
    ],
)
def test_words_between_spaces(text: str, pieces: str, positions: list[tuple[int, ...]]) -> None:
    found = words_in(text, pieces.split())
    assert found is not None
    assert [word.positions for word in found] == positions
    assert [word.text for word in found] == text.split()


def test_other_characters_are_no_words_of_the_text() -> None:
    assert words_in("the cat", ["▁the", "<unk>", "▁dog", "s"]) is None
    assert words_in("the cat", ["▁the"]) is None
    assert words_in("the cat", ["▁the", "▁dog"]) is None
    assert words_in("½", ["▁1", "⁄", "2"]) is None


def test_symbols_are_no_words_of_the_text() -> None:
    found = words_in(" a  b ", "<s> ▁a ▁ b </s>".split(), special=(0, 4))
    assert found is not None
    assert [word.positions for word in found] == [(1,), (2, 3)]


@pytest.mark.parametrize(
    ("text", "pieces", "positions"),
    [
        ("the\xa0cats.", "▁the ▁cat s .", [(0,), (1, 2, 3)]),
        ("the c\xadats\u200b", "▁the ▁cat s", [(0,), (1, 2)]),
        ("cafe\u0301 ＯＫ", "▁café ▁OK", [(0,), (1,)]),
        ("a \u200b b", "▁a ▁ ▁b", [(0,), (), (1, 2)]),
    ],
)
def test_words_of_a_text_that_is_read_in_another_form(
    text: str, pieces: str, positions: list[tuple[int, ...]]
) -> None:
    form = NormalForm("NFC", SPACES, INVISIBLE, FULL_WIDTH)
    found = words_in(text, pieces.split(" "), form=form)
    assert found is not None
    assert [(word.text, word.positions) for word in found] == list(
        zip(text.split(), positions, strict=True)
    )


def test_a_space_inside_a_piece_is_in_no_word() -> None:
    found = words_in("Où\xa0? Là", ["▁Où", "\xa0?", "▁Là"])
    assert found is not None
    assert [word.positions for word in found] == [(0,), (1,), (2,)]
