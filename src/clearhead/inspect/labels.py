"""How tokens are written at an axis: printable, short, and in a font that has their characters."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Sequence

from matplotlib import font_manager

FAMILY = "sans-serif"
"""To matplotlib the font that it brings along, to whoever shows an SVG file any other like it."""

LONGEST = 18
"""Characters of a token that are written; a longer one is cut, with an ellipsis."""

JOINERS = "\u200c\u200d"
"""Unseen, but some scripts, Persian and Hindi among them, are not written right without them."""


def shown(name: str) -> str:
    """A name as it is written: control characters escaped, and cut where it is long."""
    text = "".join(
        mark if mark.isprintable() or mark in JOINERS else mark.encode("unicode_escape").decode()
        for mark in name
    )
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def text_width(text: str) -> float:
    """About how wide a text is, in multiples of the font's size."""
    return sum(1.0 if unicodedata.east_asian_width(mark) in "WF" else 0.62 for mark in text)


def families_for(names: Iterable[str]) -> list[str]:
    """The default font, and fonts of this machine for characters that it lacks."""
    marks = {mark for name in names for mark in shown(name)}
    default = font_manager.findfont(font_manager.FontProperties(family=[FAMILY]))
    missing = frozenset(marks - _characters(default))
    return [FAMILY, *(_fallbacks(missing) if missing else ())]


@functools.lru_cache(maxsize=64)
def _fallbacks(missing: frozenset[str]) -> Sequence[str]:
    """Fonts that together have as many of the characters as this machine can write."""
    left, families = set(missing), []
    for entry in font_manager.fontManager.ttflist:
        # The last resort has a box for every character.
        if "LastResort" in entry.fname or entry.style != "normal" or entry.weight != 400:
            continue
        try:
            found = left & _characters(entry.fname)
        except (OSError, RuntimeError, ValueError):
            continue  # a font file that is damaged or gone is no loss
        if found:
            left -= found
            families.append(entry.name)
        if not left:
            break
    return tuple(families)


@functools.lru_cache(maxsize=1024)
def _characters(path: str) -> frozenset[str]:
    return frozenset(chr(code) for code in font_manager.get_font(path).get_charmap())
