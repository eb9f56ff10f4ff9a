"""The normal form of text: one spelling for what looks the same.

A tokenizer applies its form to each text before it encodes it. The form has its own lists of
characters, which are saved with the tokenizer: a model always reads the text of its training.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, Literal

from clearhead.settings import RunConfig

SPACES = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
    "\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""All white space but U+0020."""

INVISIBLE = "\xad\u034f\u200b\u2060\u2061\u2062\u2063\u2064\ufeff"
"""Characters that change neither the look nor the meaning of a text: soft hyphen, grapheme joiner,
zero-width space, word joiner, invisible mathematical operators, byte order mark.

Others of the category Cf do: joiners in Persian and emoji, marks of direction, tags of flags."""

FULL_WIDTH = "".join(map(chr, range(0xFF01, 0xFF5F)))
"""The full-width forms of the printable ASCII characters."""

BLANK = f" {SPACES}{INVISIBLE}\u200c\u200d\u200e\u200f\ufe0e\ufe0f"
"""Characters that show nothing by themselves: also joiners, marks of direction and variants."""

WIDTH_OFFSET = 0xFEE0

SURVEYED = 20_000
"""Number of training texts that show whether full-width characters are usual."""

USUAL = 0.001
"""The share of the training texts that have a usual character, at least."""

DOTTED = "i\u0307+"

DOTLESS = ("tr", "az", "tur", "aze", "azj")
"""Languages in which I is the capital of U+0131, and U+0130 that of i."""


@dataclass(frozen=True)
class NormalForm:
    """How a text is changed before it is encoded; by default not at all.

    Attributes:
        unicode: the Unicode normalisation form; "": none.
        spaces: characters that become U+0020. Then spaces at the ends of a text are removed, too.
        removed: characters that are removed.
        folded: full-width characters that become ASCII characters.
        lower: whether text is lower-cased, by the rules of `language` (BCP 47; "": unknown).
        target_language: of the other side, if a translator has one vocabulary for both.
    """

    unicode: Literal["", "NFC", "NFKC"] = ""
    spaces: str = ""
    removed: str = ""
    folded: str = ""
    lower: bool = False
    language: str = ""
    target_language: str = ""

    def __call__(self, text: str) -> str:
        """The text in this form."""
        if self.unicode:
            if not (text.isascii() and text.isprintable()):
                text = self._normalised(self._listed.sub(self._replacement, text))
            if self.spaces:
                text = text.strip(" ")
        if self.lower:
            # A small letter may have a composed form that its capital lacks.
            text = self._normalised(lower_cased(text, self.language))
        return text

    def _normalised(self, text: str) -> str:
        if not self.unicode or unicodedata.is_normalized(self.unicode, text):
            return text
        return unicodedata.normalize(self.unicode, text)

    @cached_property
    def _listed(self) -> re.Pattern[str]:
        listed = self.spaces + self.removed + self.folded
        return re.compile(f"[{re.escape(listed)}]" if listed else r"(?!)")

    def _replacement(self, found: re.Match[str]) -> str:
        character = found[0]
        if character in self.folded:
            return chr(ord(character) - WIDTH_OFFSET)
        return "" if character in self.removed else " "

    def of_target(self) -> NormalForm:
        """The form of the targets of a translator, if this is that of its sources.

        It has no lists, so that a no-break space or a full-width letter can be produced.
        """
        unicode = "NFC" if self.unicode else ""
        return NormalForm(unicode, lower=self.lower, language=self.target_language)

    def to_tree(self) -> dict[str, Any]:
        """The entries of a tokenizer's description: `lower`, and `normal_form` if it has more."""
        rest = {name: value for name, value in asdict(self).items() if value and name != "lower"}
        return {"lower": self.lower, **({"normal_form": rest} if rest else {})}

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> NormalForm:
        """Rebuild what `to_tree` wrote."""
        form = tree.get("normal_form", {})
        if not all(isinstance(value, str) for value in form.values()):
            raise TypeError("a part of the normal form is no string")
        if form.get("unicode", "") not in ("", "NFC", "NFKC"):
            raise ValueError(f"the Unicode form {form['unicode']!r}")
        if set(form.get("folded", "")) - set(FULL_WIDTH):
            raise ValueError("the normal form folds other characters than full-width ones")
        return cls(lower=bool(tree["lower"]), **form)


PLAIN = NormalForm()
"""Changes nothing."""

LABEL = NormalForm("NFC", "".join(c for c in SPACES if unicodedata.category(c) == "Zs"), INVISIBLE)
"""The form of labels, in which control characters are errors."""


def form_of(config: RunConfig, texts: Iterable[str] = ()) -> NormalForm:
    """The form of the sources of a translator, or of the texts of a classifier."""
    kind, lower = config.tokenizer.normal_form, config.tokenizer.lower
    # Other languages have no rules of their own.
    source, target = (
        name if lower and has_dotless_i(name) else "" for name in config.data.languages
    )
    found = NormalForm(lower=lower, language=source, target_language=target)
    if kind == "none":
        return found
    if kind == "nfkc":
        return replace(found, unicode="NFKC", spaces=SPACES, removed=INVISIBLE)
    folded = _unusual_full_width(texts)
    return replace(found, unicode="NFC", spaces=SPACES, removed=INVISIBLE, folded=folded)


def _unusual_full_width(texts: Iterable[str]) -> str:
    """The full-width characters that fewer texts use than `USUAL`: letters, marks, or both."""
    surveyed = list(islice(texts, SURVEYED))
    found = ""
    for letters in (True, False):
        alike = "".join(c for c in FULL_WIDTH if c.isalnum() is letters)
        having = re.compile(f"[{alike}]").search
        if sum(having(text) is not None for text in surveyed) <= USUAL * len(surveyed):
            found += alike
    return found


def is_blank(text: str) -> bool:
    """Whether a text has nothing but white space and invisible characters."""
    return not text.strip(BLANK)


def has_dotless_i(language: str) -> bool:
    """Whether the small letter of I is a dotless i in a language."""
    return language.partition("-")[0].lower() in DOTLESS


def lower_cased(text: str, language: str = "") -> str:
    """A text in small letters, by the rules of a language (BCP 47; "": unknown)."""
    # A small i never has a combining dot above, which `str.lower` leaves of U+0130.
    if has_dotless_i(language):
        text = text.replace("I\u0307", "i").replace("\u0130", "i").replace("I", "\u0131")
    text = text.lower()
    return text if text.isascii() else re.sub(DOTTED, "i", text)
