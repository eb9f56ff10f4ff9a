"""Text of tokens on an axis: printable, short, and in a font that has their characters."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Sequence

from matplotlib import font_manager

FAMILY = "sans-serif"
"""For matplotlib the font that it ships; for a viewer of SVG files any font of this kind."""

LONGEST = 18
"""Largest number of characters of a token; a longer one is cut, with an ellipsis."""

JOINERS = "\u200c\u200d"
"""Invisible, but some scripts, e.g. Persian and Hindi, need them."""


def shown(name: str) -> str:
    """A name with control characters escaped, and cut if it is long."""
    text = "".join(
        mark if mark.isprintable() or mark in JOINERS else mark.encode("unicode_escape").decode()
        for mark in name
    )
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def text_width(text: str) -> float:
    """The approximate width of a text, in multiples of the font size."""
    return sum(1.0 if unicodedata.east_asian_width(mark) in "WF" else 0.62 for mark in text)


def families_for(names: Iterable[str]) -> list[str]:
    """The default font, then fonts of this machine for characters that it lacks."""
    marks = {mark for name in names for mark in shown(name)}
    default = font_manager.findfont(font_manager.FontProperties(family=[FAMILY]))
    missing = frozenset(marks - _characters(default))
    return [FAMILY, *(_fallbacks(missing) if missing else ())]


@functools.lru_cache(maxsize=64)
def _fallbacks(missing: frozenset[str]) -> Sequence[str]:
    """Fonts of this machine that together have as many of the characters as possible."""
    left, families = set(missing), []
    for entry in font_manager.fontManager.ttflist:
        # The "last resort" font draws a box for every character.
        if "LastResort" in entry.fname or entry.style != "normal" or entry.weight != 400:
            continue
        try:
            found = left & _characters(entry.fname)
        except (OSError, RuntimeError, ValueError):
            continue  # the font file is damaged or gone
        if found:
            left -= found
            families.append(entry.name)
        if not left:
            break
    return tuple(families)


@functools.lru_cache(maxsize=1024)
def _characters(path: str) -> frozenset[str]:
    return frozenset(chr(code) for code in font_manager.get_font(path).get_charmap())
