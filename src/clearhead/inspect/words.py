"""Which positions are one word: subwords joined by the marks of the common tokenizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

START = "▁Ġ"
"""SentencePiece and byte-level BPE mark the beginning of a word."""

CONTINUED = "##"
"""WordPiece marks a piece that continues a word."""


class Word(NamedTuple):
    """A word and its positions; `text` has no marks."""

    text: str
    positions: tuple[int, ...]


def words_of(pieces: Sequence[str]) -> list[Word]:
    """The words of a sequence of pieces; special symbols such as `</s>` are in none.

    Without any marks each piece is a word.
    """
    marked = any(piece[:1] in START for piece in pieces if piece)
    groups: list[list[int]] = []
    open_word = False  # a special symbol ends a word
    for position, piece in enumerate(pieces):
        if is_special(piece):
            open_word = False
            continue
        begins = piece[:1] in START if marked and piece else not piece.startswith(CONTINUED)
        if begins or not open_word:
            groups.append([])
        groups[-1].append(position)
        open_word = True
    return [Word(_text([pieces[i] for i in group]), tuple(group)) for group in groups]


def words_in(text: str, pieces: Sequence[str]) -> list[Word] | None:
    """The words between the spaces of a text, whatever the tokenizer splits or joins.

    None if the characters of the pieces are not those of the text, e.g. because the tokenizer
    normalises it, or has no piece for a character.
    """
    words = text.split()
    ends, length = [], 0
    for word in words:
        length += len(word)
        ends.append(length)
    groups: list[list[int]] = [[] for _ in words]
    seen, word = 0, 0
    for position, piece in enumerate(pieces):
        if is_special(piece):
            continue
        characters = piece.lstrip(START).removeprefix(CONTINUED)
        if seen + len(characters) > length:
            return None
        while word + 1 < len(words) and seen >= ends[word]:
            word += 1
        groups[word].append(position)
        seen += len(characters)
    if seen != length or not all(groups):
        return None
    return [Word(word, tuple(group)) for word, group in zip(words, groups, strict=True)]


def is_special(piece: str) -> bool:
    """Whether a piece is a symbol such as `<s>` or `[CLS]`; a byte such as `<0xC3>` is none."""
    inside = piece[1:-1]
    return len(piece) > 2 and (
        (piece[0], piece[-1]) in (("<", ">"), ("[", "]"))
        and not inside.startswith("0x")
        and inside.strip("/").replace("_", "").isalpha()
        and inside.strip("/").lower() not in ("unk",)
    )


def _text(pieces: Sequence[str]) -> str:
    return "".join(piece.lstrip(START).removeprefix(CONTINUED) for piece in pieces) or pieces[0]
