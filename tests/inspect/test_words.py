"""Pieces joined to words, for the marks of each kind of tokenizer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.inspect.words import is_special, words_in, words_of


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ("▁the ▁un believ able ▁cat .", "the unbelievable cat."),
        ("<s> ▁el ▁ga to </s>", "el gato"),
        ("[CLS] play ##ing chess [SEP]", "playing chess"),
        ("the Ġcat s", "the cats"),
        ("the cat sleeps .", "the cat sleeps ."),
        ("▁a <0xC3> <0xA9> ▁b", "a<0xC3><0xA9> b"),
        ("ab ▁cd", "ab cd"),
        ("▁ ▁x", "▁ x"),
        ("<s> </s>", ""),
    ],
)
def test_pieces_are_joined(pieces: str, words: str) -> None:
    assert [word.text for word in words_of(pieces.split())] == words.split()


@given(st.lists(st.text(min_size=1, max_size=4), max_size=8))
def test_every_piece_is_in_one_word_or_special(pieces: list[str]) -> None:
    found = [position for word in words_of(pieces) for position in word.positions]
    assert found == [i for i, piece in enumerate(pieces) if not is_special(piece)]


@pytest.mark.parametrize(
    "piece", ["<s>", "</s>", "<pad>", "[CLS]", "<mask>", "<s_2>".replace("2", "x")]
)
def test_symbols_are_special(piece: str) -> None:
    assert is_special(piece)


@pytest.mark.parametrize("piece", ["<unk>", "[UNK]", "<0x0A>", "<", "<>", "[", "a", "▁<s>", "<3>"])
def test_words_and_bytes_are_not(piece: str) -> None:
    assert not is_special(piece)


@pytest.mark.parametrize(
    ("text", "pieces", "positions"),
    [
        ("the cats.", "▁the ▁cat s .", [(0,), (1, 2, 3)]),
        ("the cats.", "the cats .", [(0,), (1, 2)]),
        (" a  b ", "<s> ▁a ▁ b </s>", [(1,), (2, 3)]),
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
    assert words_in("½", ["▁1", "⁄", "2"]) is None
