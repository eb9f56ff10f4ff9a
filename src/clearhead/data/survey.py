"""What sentence pairs look like at a glance: how many, how long, which script, prepared or not."""

from __future__ import annotations

import gzip
import math
import unicodedata
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from clearhead.data.lines import open_packed
from clearhead.data.phrasebook import PHRASEBOOK, Part
from clearhead.data.readers import read_pairs
from clearhead.errors import DataError

SURVEYED_PAIRS = 200_000
"""What is said of the text comes from so many pairs at the beginning; all pairs are counted."""

TOKENS_PER_WORD = 1.3
"""Subwords, roughly."""

TOKENS_PER_CHARACTER = 0.7
"""Likewise, where no spaces part the words."""

BYTES_AND_MARKS = 300
"""Pieces that every vocabulary has, roughly."""

UNSPACED_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
"""Scripts that put no spaces between words, by the first word of their letters' Unicode names."""


@dataclass(frozen=True)
class Side:
    """The source or the target side.

    Attributes:
        words: parts between white space in all pairs (estimated where not all were surveyed).
        characters: likewise the characters.
        alphabet: so many different characters were seen.
        scripts: the share of each script in the letters: `{"LATIN": 1.0}`.
        tokenised: full stops and commas stand by themselves, as tokenizers leave them.
        lower_cased: there are small letters, and hardly a capital among them.
    """

    words: int
    characters: int
    alphabet: int
    scripts: Mapping[str, float]
    tokenised: bool
    lower_cased: bool

    @property
    def script(self) -> str:
        """The script of most letters, "" where there is no letter."""
        return max(self.scripts, key=lambda name: self.scripts[name], default="")

    @property
    def spaced(self) -> bool:
        """Whether most letters are of a script that puts spaces between words."""
        return sum(self.scripts.get(name, 0.0) for name in UNSPACED_SCRIPTS) < 0.5

    @property
    def tokens(self) -> float:
        """The subwords of all lines, roughly."""
        if self.spaced:
            return TOKENS_PER_WORD * self.words
        return TOKENS_PER_CHARACTER * self.characters


@dataclass(frozen=True)
class Survey:
    """What was seen of one part of the data."""

    files: tuple[str, ...]
    pairs: int
    source: Side
    target: Side

    @property
    def shared_script(self) -> float:
        """The share of letters in scripts that both sides have alike, from 0 to 1."""
        other = self.target.scripts
        return sum(min(share, other.get(name, 0.0)) for name, share in self.source.scripts.items())


def survey(files: Sequence[str], part: Part = "train") -> Survey:
    """Look at sentence pairs; files of any size are read as a stream.

    Args:
        files: as `read_pairs` takes them.
        part: the part of a phrasebook named without one.

    Raises:
        DataError: a file is missing, unreadable, empty or of the wrong form.
    """
    source, target = SideCounter(), SideCounter()
    for pair in islice(read_pairs(files, part), SURVEYED_PAIRS):
        source.count(pair.source)
        target.count(pair.target)
    whole = source.lines < SURVEYED_PAIRS or str(files[0]).startswith(PHRASEBOOK)
    pairs = source.lines if whole else _count_lines(str(files[0]))
    scale = pairs / max(1, source.lines)
    return Survey(tuple(str(file) for file in files), pairs, source.side(scale), target.side(scale))


def pieces_for(alphabet: int) -> int:
    """How many pieces have room for each character, and for as many longer ones; in thousands."""
    return 1000 * math.ceil((2 * alphabet + BYTES_AND_MARKS) / 1000)


class SideCounter:
    """Adds up what a `Side` says, line by line; `lines` were counted so far."""

    def __init__(self) -> None:
        self.lines = 0
        self._words = 0
        self._characters: Counter[str] = Counter()
        self._lines_apart = 0
        self._lines_attached = 0

    def count(self, line: str) -> None:
        """Take in one line."""
        words = line.split()
        self.lines += 1
        self._words += len(words)
        self._characters.update(line)
        self._lines_apart += "." in words or "," in words
        self._lines_attached += any(word[-1] in ".," and len(word) > 1 for word in words)

    def side(self, scale: float = 1.0) -> Side:
        """What was seen, `scale` times as many words and characters as were counted."""
        letters = {c: n for c, n in self._characters.items() if c.isalpha()}
        total = sum(letters.values())
        small = sum(count for letter, count in letters.items() if letter.islower())
        capital = sum(count for letter, count in letters.items() if letter.isupper())
        scripts: Counter[str] = Counter()
        for letter, count in letters.items():
            scripts[unicodedata.name(letter, "UNKNOWN").split()[0]] += count
        return Side(
            words=round(scale * self._words),
            characters=round(scale * self._characters.total()),
            alphabet=len(self._characters),
            scripts={name: count / total for name, count in scripts.most_common()},
            # Abbreviations keep their full stops, so a few attached ones mean nothing; and text
            # without any punctuation says nothing.
            tokenised=self._lines_apart > max(0.2 * self.lines, 5 * self._lines_attached),
            lower_cased=small > 0 and 1000 * capital <= small,
        )


def _count_lines(path: str) -> int:
    """The lines of a file, the last of which may lack its end."""
    count, last = 0, b"\n"
    try:
        with (
            open_packed(path) as packed,
            gzip.open(packed) if path.lower().endswith(".gz") else packed as stream,
        ):
            while block := stream.read(2**20):
                count += block.count(b"\n")
                last = block[-1:]
    except (OSError, EOFError, zlib.error) as error:
        raise DataError("the file cannot be read", where=path, why=str(error)) from None
    return count + (last != b"\n")
