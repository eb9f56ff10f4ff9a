"""New words in the vocabulary of a trained model."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from clearhead.errors import ConfigError
from clearhead.tokenizer.protocol import SYMBOLS, Tokenizer
from clearhead.tokenizer.sampling import META_SPACE
from clearhead.tokenizer.sentencepieces import SentencePieceTokenizer
from clearhead.tokenizer.words import WordTokenizer

USER_DEFINED = 4
"""The type, in a SentencePiece model, of a piece that is never divided."""


def has_symbols(tokenizer: Tokenizer) -> bool:
    """Whether the symbols of masked text are tokens."""
    return tokenizer.pieces(tokenizer.encode(SYMBOLS[0])[-1:]) == [SYMBOLS[0]]


def can_have_symbols(tokenizer: Tokenizer) -> bool:
    """Whether the symbols of masked text can be added to a tokenizer, and are not there yet."""
    is_own = isinstance(tokenizer, (WordTokenizer, SentencePieceTokenizer))
    return is_own and not has_symbols(tokenizer)


def extended(
    tokenizer: Tokenizer, words: Sequence[str], symbols: bool = False
) -> tuple[Tokenizer, list[list[int]]]:
    """A tokenizer with new words, and perhaps the symbols of masked text, as tokens."""
    # Words that are one token already are ignored. SentencePiece also finds a new word at the start
    # of a longer one. Subword sampling is off, because it would divide the new words.
    if isinstance(tokenizer, WordTokenizer):
        return _with_words(tokenizer, (*words, *(SYMBOLS if symbols else ())))
    if isinstance(tokenizer, SentencePieceTokenizer):
        return _with_pieces(tokenizer, words, SYMBOLS if symbols else "")
    setting = "tokenizer.new_words" if words else "tokenizer.protect"
    raise ConfigError(
        f"{'words' if words else 'symbols'} cannot be added to the vocabulary of an imported model",
        setting=setting,
        todo=f"leave {setting} out",
    )


def _with_words(old: WordTokenizer, words: Sequence[str]) -> tuple[Tokenizer, list[list[int]]]:
    parts = dict.fromkeys(part for word in words for part in old.words_of(word))
    new = [word for word in parts if old.encode(word) == [old.unk_id]]
    tokenizer = WordTokenizer(
        (*old.words, *new), form=old.form, split_punctuation=old.split_punctuation
    )
    known = [[i] for i in range(old.unk_id)]
    return tokenizer, [*known, *[[old.unk_id]] * (len(new) + 1)]


def _with_pieces(
    old: SentencePieceTokenizer, words: Sequence[str], symbols: str
) -> tuple[Tokenizer, list[list[int]]]:
    formed = dict.fromkeys(map(old.form, words))
    pieces = {word: ids for word in formed if len(ids := old.encode(word)) > 1}
    # A model in protobuf's format: what is appended continues its list of pieces.
    model = old.model + b"".join(_piece(META_SPACE + word) for word in pieces)
    model += b"".join(map(_piece, symbols))
    pieces |= {symbol: old.encode(symbol) for symbol in symbols}
    tokenizer = SentencePieceTokenizer(model, kind=old.kind, form=old.form)
    return tokenizer, [*([i] for i in range(len(old))), *pieces.values()]


def _piece(text: str) -> bytes:
    """A piece of `ModelProto`: field 1 of the model, with its own fields piece, score and type."""
    name = text.encode()
    piece = b"\x0a" + _varint(len(name)) + name + b"\x15" + struct.pack("<f", 0.0)
    piece += b"\x18" + _varint(USER_DEFINED)
    return b"\x0a" + _varint(len(piece)) + piece


def _varint(number: int) -> bytes:
    """A whole number in protobuf's format, seven bits a byte."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes((*found, number))
