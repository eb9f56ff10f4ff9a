"""Keyboard accelerators in the labels of menus and buttons: `_Save`, `&Save`, `~Save`.

The mark before a letter splits a word, and is elsewhere in a translation. So it is removed before
a label is translated, and put before a letter of the translation afterwards.
"""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 60  # characters of a label
MOST_BEFORE = 3  # letters of a word before its mark: more look like a name, such as file_name


@lru_cache
def _mark(mark: str) -> re.Pattern[str]:
    own = re.escape(mark)
    # In scripts without small letters the letter is in brackets: ファイル(_F).
    return re.compile(
        rf"\s*[(（]{own}(?P<bracketed>\w)[)）]|(?<![\w{own}]){own}(?P<first>[^\W\d_])"
        rf"|(?<![^\W_])(?P<before>[^\W\d_]{{1,{MOST_BEFORE}}}){own}(?P<inner>[^\W\d_])"
    )


def without_accelerator(text: str, mark: str) -> tuple[str, str]:
    """A label without its mark, and the letter after it, "" if it has none."""
    found = list(_mark(mark).finditer(text)) if mark in text and len(text) <= LONGEST else []
    if len(found) != 1 or text.count(mark) != 1:
        return text, ""
    (one,) = found
    # Neither is_ok nor AT&T has a mark.
    if one["inner"] and not (one["before"][0].isupper() and one["inner"].islower()):
        return text, ""
    letter = one["bracketed"] or one["first"] or one["inner"]
    kept = "" if one["bracketed"] else (one["before"] or "") + letter
    return text[: one.start()] + kept + text[one.end() :], letter


def with_accelerator(text: str, mark: str, letter: str) -> str:
    """A translated label with a mark: before the same letter if it has it, or before its first."""
    own = re.escape(letter)
    for pattern in (rf"\b{own}", own, r"[^\W\d_]"):
        for found in re.finditer(pattern, text, re.IGNORECASE):
            if text[found.start()].lower() != text[found.start()].upper():
                return text[: found.start()] + mark + text[found.start() :]
    end = len(text.rstrip(" :：.…"))
    return f"{text[:end]}({mark}{letter.upper()}){text[end:]}" if end else text
