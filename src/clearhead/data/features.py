"""Values of features: read from text, checked as an array, filled in where they are missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from clearhead.data.labelled import Labelled
from clearhead.errors import DataError

Rule = Literal["refuse", "zero", "mean", "interpolate"]

LARGEST = 1e17
"""Of a value. Those that stand for missing ones in scientific data (1e20, netCDF's 9.97e36) are
greater, and so are times in nanoseconds since 1970 (1.7e18). One that stands for a missing value
among the training data makes the deviation of its feature so large that all others are alike, and
the squares of a frame of them overflow in 32 bits."""


def read_value(cell: str, missing: Sequence[str], where: str) -> float:
    """The number that a cell holds, NaN if it reads as a missing value does, in whatever case.

    Raises:
        DataError: it is not a number, or infinite.
    """
    cell = cell.strip()
    if cell.lower() in missing:
        return math.nan
    try:
        # float() reads 1_000 as a thousand, which no other program does.
        value = math.inf if "_" in cell else float(cell)
    except ValueError:
        value = math.inf
    if math.isfinite(value):
        return value
    infinite = cell.lower().lstrip("+-") in ("inf", "infinity")
    raise DataError(
        f"{cell!r} is infinite" if infinite else f"{cell!r} is not a finite number",
        where=where,
        todo="give a number with a decimal point, or nan where the value is missing",
    )


def as_frames(values: np.ndarray, place: str) -> np.ndarray:
    """Checked features, float32 (frames, width), from numbers (frames, width) or (frames,).

    Raises:
        DataError: they are of another shape or type, empty or infinite.
    """
    if values.dtype.kind not in "fiub":
        raise DataError(f"the values are not numbers but {values.dtype}", where=place)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        what = f"an array of shape {values.shape}, not (frames, features)"
        raise DataError(what, where=place)
    if values.size == 0:
        what = f"the sequence is empty: {values.shape[0]} frames of {values.shape[1]} features"
        raise DataError(what, where=place)
    with np.errstate(over="ignore"):
        frames = np.array(values, dtype=np.float32)
    if np.isinf(frames).any():
        raise DataError(
            "an infinite value",
            where=place,
            why=f"{first_of(np.isinf(frames))} is infinite, or too large for 32 bits",
            todo="mend it, or write nan where the value is missing",
        )
    return frames


def refuse_fill_values(
    frames: np.ndarray, place: str | None = None, names: Sequence[str] = ()
) -> None:
    """Raise a DataError for a value that looks like one that stands for a missing value.

    Args:
        frames: (frames, width); NaN is none of them.
        place: of the sequence, for the error.
        names: of the features, if they have any.
    """
    huge = np.abs(frames) > LARGEST
    if huge.any():
        raise DataError(
            "a value looks like one that stands for a missing value",
            where=place,
            why=f"{first_of(huge, names)} is {frames[huge][0]:g}, more than {LARGEST:g}",
            todo="write nan where a value is missing (data.missing says how it is filled), or give "
            "the feature in another unit (a time stamp in seconds)",
        )


def fill_missing(
    frames: np.ndarray, rule: Rule, place: str, means: np.ndarray | None = None
) -> np.ndarray:
    """Features without NaN, before they are normalised.

    - `refuse`: a missing value is an error.
    - `zero`: it becomes 0.0 as the data have it, which normalisation then moves.
    - `mean`: it becomes the feature's mean over the training data, which normalisation makes 0.
    - `interpolate`: it lies on the line between the values in the frames before and after it,
      which count as equally far apart whatever their times; before the first value it is the
      first, after the last the last, and where the sequence has no value of a feature, the
      training mean.

    Args:
        frames: float32 (frames, width); it is not changed.
        rule: one of these.
        place: of the sequence, for the error.
        means: of the training data (width,), for `mean` and `interpolate`.

    Raises:
        DataError: a value is missing and the rule is `refuse`.
        ValueError: the rule needs means and there are none.
    """
    missing = np.isnan(frames)
    if not missing.any():
        return frames
    if rule == "refuse":
        raise DataError(
            "a value is missing",
            where=place,
            why=f"{first_of(missing)} has no value; {int(missing.sum()):,} of the "
            f"{frames.size:,} values are missing",
            todo='mend the data, or train with data.missing = "interpolate", "mean" or "zero"',
        )
    if rule == "zero":
        return np.where(missing, np.float32(0.0), frames)
    if means is None:
        raise ValueError(f"{rule} needs the means of the training data")
    filled = np.where(missing, means.astype(np.float32), frames)
    if rule == "interpolate":
        _interpolate(filled, missing)
    return filled


def _interpolate(filled: np.ndarray, missing: np.ndarray) -> None:
    """Lay what is missing on lines between what is there, in place, feature by feature."""
    for feature in np.flatnonzero(missing.any(axis=0) & ~missing.all(axis=0)):
        gaps = np.flatnonzero(missing[:, feature])
        known = np.flatnonzero(~missing[:, feature])
        filled[gaps, feature] = np.interp(gaps, known, filled[known, feature])


def first_of(wrong: np.ndarray, names: Sequence[str] = ()) -> str:
    """The first True of a bool (frames, width), counted from 1: `frame 3, feature 12 (pitch)`."""
    frame, feature = np.argwhere(wrong)[0]
    named = f" ({names[feature]})" if names else ""
    return f"frame {frame + 1}, feature {feature + 1}{named}"


# ---- data.feature_counts
# Which features sequences have, and how many of their values were missing and are filled.

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
