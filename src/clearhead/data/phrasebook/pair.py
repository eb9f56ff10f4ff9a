"""A sentence, its translation, and which word comes from which."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AlignedPair:
    """A sentence pair with its word alignment.

    Args:
        source: words separated by single spaces.
        target: words separated by single spaces.
        alignment: pairs (index of a source word, index of a target word), sorted, counted from 0.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]

    @property
    def pharaoh(self) -> str:
        """The alignment as alignment tools write it: `0-0 1-2`."""
        return " ".join(f"{i}-{j}" for i, j in self.alignment)
