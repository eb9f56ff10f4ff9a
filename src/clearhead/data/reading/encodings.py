"""What a file is whose bytes are not text in UTF-8: another kind of file, or another encoding."""

from __future__ import annotations

import codecs

SIGNATURES = {
    b"\x1f\x8b": ("a gzip file", "unpack it with gunzip, or give it a name that ends in .gz"),
    b"PK\x03\x04": (
        "a zip archive or an office document (.xlsx, .docx, .npz …)",
        "unpack it, or save the table as .csv or .tsv in UTF-8",
    ),
    b"\xd0\xcf\x11\xe0": (
        "an old office document (.xls, .doc)",
        "save the table as .csv or .tsv in UTF-8",
    ),
    b"BZh": ("a bzip2 file", "unpack it with bunzip2"),
    b"\xfd7zXZ": ("an xz file", "unpack it with unxz"),
    b"\x28\xb5\x2f\xfd": ("a zstd file", "unpack it with unzstd"),
    b"7z\xbc\xaf": ("a 7z archive", "unpack it"),
    b"%PDF-": ("a PDF document", "save its text as a .txt file in UTF-8"),
    b"PAR1": ("a Parquet file", "save the table as .csv or .jsonl"),
    b"ARROW1": ("an Arrow file", "save the table as .csv or .jsonl"),
    b"SQLite format 3": ("an SQLite database", "save the table as .csv"),
    b"\x93NUMPY": ("a NumPy array", "give a text file; arrays are for features"),
    b"\x89HDF": ("an HDF5 file", "save the texts as a text file in UTF-8"),
    b"\x89PNG": ("a picture (PNG)", "give a text file"),
    b"\xff\xd8\xff": ("a picture (JPEG)", "give a text file"),
    b"\x80\x02": ("a pickle", "save the texts as a text file in UTF-8"),
    b"\x80\x04": ("a pickle", "save the texts as a text file in UTF-8"),
    b"\x80\x05": ("a pickle", "save the texts as a text file in UTF-8"),
}
"""Kinds of binary files and what to do about them, by the bytes that such a file begins with."""

BYTE_ORDER_MARKS = {
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

SAMPLE_BYTES = 2**16
"""How much text `likely_encoding` is given: more does not make it more certain."""

LEAST_COHERENCE = 0.1
"""Below, the decoded letters are not distributed as in any language."""

CLOSE_CHAOS, CLOSE_COHERENCE = 0.02, 0.1
"""Differences up to which two guesses are equally good."""

USUAL = ("cp1252", "euc_jp")
"""Encodings to name if they decode the sample as the best guess does."""


def kind_of_file(head: bytes) -> tuple[str, str] | None:
    """The kind of a binary file by its first bytes, and what to do about it; None if unknown."""
    return next((kind for start, kind in SIGNATURES.items() if head.startswith(start)), None)


def likely_encoding(head: bytes, sample: bytes) -> str | None:
    """The encoding of a text, by a name that iconv knows; None if it is not certain.

    Args:
        head: the first bytes of the file.
        sample: a part of the file that is not ASCII, from the start of a line.
    """
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
