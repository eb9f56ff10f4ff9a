"""Why a file is no text in UTF-8 with one text per line: its kind, its encoding, or its ending."""

from __future__ import annotations

import codecs
import re
import zlib
from contextlib import suppress
from typing import BinaryIO

from clearhead.errors import DataError

_AS_TABLE = "save the table as .csv or .tsv in UTF-8"
_AS_TEXT = "save the texts as a text file in UTF-8"
SIGNATURES = {
    b"\x1f\x8b": ("a gzip file", "unpack it with gunzip, or give it a name that ends in .gz"),
    b"BZh": ("a bzip2 file", "unpack it with bunzip2"),
    b"\xfd7zXZ": ("an xz file", "unpack it with unxz"),
    b"\x28\xb5\x2f\xfd": ("a zstd file", "unpack it with unzstd"),
    b"PK\x03\x04": ("a zip archive or an office document", f"unpack it, or {_AS_TABLE}"),
    b"\xd0\xcf\x11\xe0": ("an old office document (.xls, .doc)", _AS_TABLE),
    b"PAR1": ("a Parquet file", _AS_TABLE),
    b"%PDF-": ("a PDF document", _AS_TEXT),
    b"\x93NUMPY": ("a NumPy array", "give a text file; arrays are for features"),
    b"\x80\x04": ("a pickle", _AS_TEXT),
}
"""Kinds of binary files and what to do about them, by the bytes that such a file begins with."""

BYTE_ORDER_MARKS = {
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

NO_LINES = tuple(
    ".json .jsonl .ndjson .csv .xlsx .xls .ods .parquet .po .pot .xlf .xliff .sdlxliff .tmx .resx "
    ".strings .properties .yaml .yml .html .htm .xhtml .xml .sgm .sgml .rtf .tex .srt .vtt .sub "
    ".ass .ssa .sbv .docx .doc .odt .pdf .epub .pptx .ppt .odp".split()
)
"""Endings of files whose lines are no texts; `.gz` may follow."""

NO_TEXT = re.compile(r"\s*(?:\{\s*\"|\[\s*[\[{\"]|<\?xml|<!doctype|<html|WEBVTT\b|msgid \")", re.I)
"""The start of line 1 of JSON, of markup, of subtitles or of a gettext catalogue."""

SAMPLE_BYTES = 2**16
"""How much more text is read to guess the encoding: more does not make it more certain."""

LEAST_COHERENCE = 0.1
"""Below, the decoded letters are not distributed as in any language."""

CLOSE_CHAOS, CLOSE_COHERENCE = 0.02, 0.1
"""Differences up to which two guesses are equally good."""

USUAL = ("cp1252", "euc_jp")
"""Encodings to name if they decode the sample as the best guess does."""


def not_text(error: Exception, raw: bytes, where: str, head: bytes, stream: BinaryIO) -> DataError:
    """The error for a line that cannot be decoded; `head` is the start of its file."""
    if kind := next((SIGNATURES[start] for start in SIGNATURES if head.startswith(start)), None):
        what, todo = kind
        return DataError(f"this is {what}, not text", where=where.rpartition(":")[0], todo=todo)
    if isinstance(error, OverflowError):
        todo = "give a text file with one text per line"
        return DataError(str(error), where=where, todo=todo)
    sample = raw
    with suppress(OSError, EOFError, zlib.error):
        sample += stream.read(SAMPLE_BYTES)
    if encoding := likely_encoding(head, sample):
        todo = f"convert it: iconv -f {encoding} -t utf-8 FILE > NEW_FILE"
    else:
        todo = "save the text in UTF-8 in the program that wrote it, or convert it with iconv"
    if not isinstance(error, UnicodeDecodeError):
        what = f"this is text in {encoding}, not in UTF-8" if encoding else str(error)
        return DataError(what, where=where, todo=todo)
    why = f"byte {error.start + 1} of the line is 0x{raw[error.start]:02x}"
    if encoding:
        why += f"; the encoding is probably {encoding}"
    return DataError("this is not UTF-8", where=where, why=why, todo=todo)


def likely_encoding(head: bytes, sample: bytes) -> str | None:
    """The encoding of a sample that is not ASCII, by a name that iconv knows; None if unclear."""
    for mark, name in BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return name
    from charset_normalizer import from_bytes

    guesses = from_bytes(sample[: sample.rfind(b"\n") + 1] or sample)
    best = guesses.best()
    if best is None or best.coherence < LEAST_COHERENCE:
        return None
    rivals = (
        other
        for other in guesses
        if other.chaos <= best.chaos + CLOSE_CHAOS
        and other.coherence >= best.coherence - CLOSE_COHERENCE
    )
    if any(str(other) != str(best) for other in rivals):
        return None
    alike = best.could_be_from_charset
    name = next((usual for usual in USUAL if usual in alike), best.encoding)
    return codecs.lookup(name).name
