"""Which positions are one word: subwords joined by the marks of the common tokenizers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from clearhead.tokenizer.normal_form import PLAIN, NormalForm

START = "▁Ġ"
"""SentencePiece and byte-level BPE mark the beginning of a word."""

CONTINUED = "##"
"""WordPiece marks a piece that continues a word."""

BYTES = re.compile("(?:<0x[0-9A-F]{2}>)+")
"""SentencePiece writes a character that its vocabulary lacks as its bytes in UTF-8."""


class Word(NamedTuple):
    """A word and its positions; `text` has no marks."""

    text: str
    positions: tuple[int, ...]


def words_of(pieces: Sequence[str], special: Collection[int] = ()) -> list[Word]:
    """The words of a sequence of pieces."""
    marked = any(piece[:1] in START for piece in pieces if piece)
    groups: list[list[int]] = []
    open_word = False
    for position, piece in enumerate(pieces):
        if position in special:
            open_word = False
            continue
        begins = piece[:1] in START if marked and piece else not piece.startswith(CONTINUED)
        if begins or not open_word:
            groups.append([])
        groups[-1].append(position)
        open_word = True
    return [Word(_text([pieces[i] for i in group]), tuple(group)) for group in groups]


def words_in(
    text: str, pieces: Sequence[str], special: Collection[int] = (), form: NormalForm = PLAIN
) -> list[Word] | None:
    """The words between the spaces of a text, whatever the tokenizer splits or joins.

    A word of characters that `form`, that of the tokenizer, removes has no positions. None if the
    characters of the pieces are not those of the text in this form, upper and lower case apart:
    the tokenizer of an imported model normalises it, or has no piece for a character.
    """
    words = text.split()
    formed = list(map(form, words))
    letters, ends = "".join(formed), [0]
    for word in formed:
        ends.append(ends[-1] + len(word))
    groups: list[list[int]] = [[] for _ in words]
    seen, word = 0, 0
    for part, positions in _parts(pieces, special):
        part = "".join(part.split())  # such as a no-break space, which ends a word
        after = seen + len(part)
        if letters[seen:after].lower() != part.lower():
            return None
        while word + 1 < len(words) and seen >= ends[word + 1]:
            word += 1
        if groups:
            groups[word] += positions
        seen = after
    if seen != len(letters) or not all(g for g, word in zip(groups, formed, strict=True) if word):
        return None
    return [Word(word, tuple(group)) for word, group in zip(words, groups, strict=True)]


def _parts(
    pieces: Sequence[str], special: Collection[int]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The characters of each piece and its position; the bytes of a character together."""
    run: list[int] = []
    for position, piece in enumerate(pieces):
        is_byte = position not in special and BYTES.fullmatch(piece) is not None
        if run and not is_byte:
            yield _text([pieces[i] for i in run]), tuple(run)
            run = []
        if is_byte:
            run.append(position)
        elif position not in special:
            yield _plain(piece), (position,)
    if run:
        yield _text([pieces[i] for i in run]), tuple(run)


def _plain(piece: str) -> str:
    return piece.lstrip(START).removeprefix(CONTINUED)


def _text(pieces: Sequence[str]) -> str:
    """The characters of pieces, for people."""

    def decoded(run: re.Match[str]) -> str:
        try:
            return bytes.fromhex(re.sub("<0x|>", "", run[0])).decode()
        except UnicodeDecodeError:
            return run[0]

    return BYTES.sub(decoded, "".join(map(_plain, pieces))) or pieces[0]
