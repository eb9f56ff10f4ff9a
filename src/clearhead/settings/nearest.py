"""Suggestions for words that are not among the allowed ones."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable


def nearest(word: object, choices: Iterable[str]) -> str | None:
    """The choice that is most similar to the word, in any case; None if none is similar."""
    if not isinstance(word, str):
        return None
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[close[0]] if close else None


def meant(path: str, word: object, choices: Iterable[str]) -> str | None:
    """What to do about a wrong choice for the setting of this path, if one is similar."""
    section, _, last = path.rpartition(".")
    choices = list(choices)
    if last.isdecimal():  # the path of one item of a list
        items = word.split(",") if isinstance(word, str) else ()
        found = [choice for item in items if (choice := nearest(item.strip(), choices))]
        if not found or len(found) < len(items):
            return None
        return f"did you mean {section} = {json.dumps(found)}?"
    choice = nearest(word, choices)
    return None if choice is None else f'did you mean {path} = "{choice}"?'


def setting_meant(name: str, section: str, here: Iterable[str], everywhere: Iterable[str]) -> str:
    """What to do about an unknown setting.

    Args:
        name: of the unknown setting.
        section: its dotted path, "" for the top.
        here: the settings of that section.
        everywhere: the dotted paths of all settings.
    """
    here = list(here)
    elsewhere = [path for path in everywhere if path.rpartition(".")[2] == name]
    elsewhere.sort(key=lambda path: not path.startswith(f"{section}."))
    if elsewhere:
        return f"did you mean {' or '.join(elsewhere)}?"
    close = nearest(name, here)
    if close:
        return f"did you mean {f'{section}.{close}'.lstrip('.')}?"
    return f"the settings here are {', '.join(here)}"
