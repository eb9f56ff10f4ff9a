"""Which features sequences have, and how many of their values were missing and are filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.data.features import Rule
from clearhead.data.labelled import Labelled

SHOWN_NAMES = 20


@dataclass(frozen=True)
class FeatureCounts:
    """The features of one part of the data.

    Attributes:
        width: features of a frame.
        names: of the features; () where their files give none.
        values: so many there are in all sequences together, missing ones too.
        missing: so many of them are missing.
        rule: what is done with these.
    """

    width: int
    names: tuple[str, ...]
    values: int
    missing: int
    rule: Rule

    def lines(self, name: str, *, named: bool) -> list[str]:
        """For people, of the part of the data that has this name.

        Args:
            name: of the part.
            named: whether it is said which features there are; otherwise only what is filled.
        """
        lines = [f"{name}: {features_named(self.width, self.names)}"] if named else []
        if self.missing and self.rule != "refuse":
            lines.append(
                f"{name}: {self.missing:,} of {self.values:,} values are missing and filled: "
                f'data.missing = "{self.rule}"'
            )
        return lines


def count_features(examples: Sequence[Labelled[Any]], rule: Rule) -> FeatureCounts | None:
    """What there is in some sequences, None of texts or where there is no example.

    Args:
        examples: of one part of the data, their features (frames, width).
        rule: for missing values.
    """
    if not examples or isinstance(examples[0].input, str):
        return None
    first = examples[0]
    values = sum(example.input.size for example in examples)
    missing = sum(int(np.isnan(example.input).sum()) for example in examples)
    return FeatureCounts(first.input.shape[1], first.columns, values, missing, rule)


def features_named(width: int, names: Sequence[str]) -> str:
    """`3 features: x, y, z`; where they have no names, their number alone."""
    counted = f"{width:,} feature{'' if width == 1 else 's'}"
    if not names:
        return counted
    more = len(names) - SHOWN_NAMES
    tail = f" and {more:,} more" if more > 0 else ""
    return f"{counted}: {', '.join(names[:SHOWN_NAMES])}{tail}"
