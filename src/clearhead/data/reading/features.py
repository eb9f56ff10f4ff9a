"""Values of features: read from text, checked, counted, and filled where missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from clearhead.data.reading.labelled import Labelled
from clearhead.errors import DataError, first_few

MissingRule = Literal["refuse", "zero", "mean", "interpolate"]
"""How missing values are treated, see `fill_missing`."""

SHOWN_NAMES = 20

LEAST_SEQUENCES, LEAST_CHANGES = 5, 10  # fewer sequences, or changes of a feature, show nothing
COMPARED = 200  # sequences whose axes are compared


def read_value(cell: str, missing: Sequence[str], where: str, why: str | None = None) -> float:
    """The finite number in a cell, or NaN if its lower case is one of the words for `missing`."""
    cell = cell.strip()
    if cell.lower() in missing:
        return math.nan
    try:
        # float() accepts 1_000 as a thousand, unlike other programs.
        value = math.inf if "_" in cell else float(cell)
    except ValueError:
        value = math.inf
    if math.isfinite(value):
        return value
    raise DataError(
        f"{cell!r} is not a finite number",
        where=where,
        why=why,
        todo="give a number with a decimal point, or nan where the value is missing",
    )


def as_frames(values: np.ndarray, place: str) -> np.ndarray:
    """Checked features, float32 (frames, width), from numbers (frames, width) or (frames,).

    Frames at the end that are NaN in all features are padding, which is left out.
    """
    if values.dtype.kind not in "fiub":
        raise DataError(f"the values are not numbers but {values.dtype}", where=place)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise DataError(f"the shape is {values.shape}, not (frames, features)", where=place)
    if values.size == 0:
        size = "{} frames of {} features".format(*values.shape)
        raise DataError(f"the sequence is empty: {size}", where=place)
    with np.errstate(over="ignore"):
        frames = np.array(values, dtype=np.float32)
    infinite = np.isinf(frames)
    if infinite.any():
        raise DataError(
            "a value is infinite",
            where=place,
            why=f"{first_of(infinite)} is infinite, or too large for 32 bits",
            todo="correct it, or write nan where the value is missing",
        )
    known = np.flatnonzero(~np.isnan(frames).all(axis=1))
    return frames[: known[-1] + 1] if len(known) else frames


def fill_missing(
    frames: np.ndarray, rule: MissingRule, place: str, means: np.ndarray | None = None
) -> np.ndarray:
    """Features without NaN, before they are normalised.

    - `refuse`: a missing value is an error.
    - `zero`: it becomes 0.0 in the scale of the data, before normalisation.
    - `mean`: it becomes the mean of the feature over the training data (0 after normalisation).
    - `interpolate`: linear interpolation between the values before and after it, as if frames were
      equally spaced. Before the first value it is the first one, after the last value the last one.
      If the sequence has no value of a feature, it is the training mean.

    `means` (width,) are those of the training data, which `mean` and `interpolate` need.
    """
    missing = np.isnan(frames)
    if not missing.any():
        return frames
    if rule == "refuse":
        raise DataError(
            "a value is missing (NaN)",
            where=place,
            why=f"{first_of(missing)} has no value; {int(missing.sum()):,} of the "
            f"{frames.size:,} values are missing",
            todo='correct the data, or train with data.missing = "interpolate", "mean" or "zero"',
        )
    if rule == "zero":
        return np.where(missing, np.float32(0.0), frames)
    if means is None:
        raise ValueError(f"{rule} needs the means of the training data")
    filled = np.where(missing, means.astype(np.float32), frames)
    if rule == "interpolate":
        for feature in np.flatnonzero(missing.any(axis=0) & ~missing.all(axis=0)):
            gaps = np.flatnonzero(missing[:, feature])
            known = np.flatnonzero(~missing[:, feature])
            filled[gaps, feature] = np.interp(gaps, known, filled[known, feature])
    return filled


def first_of(wrong: np.ndarray, names: Sequence[str] = ()) -> str:
    """The first True of a bool (frames, width), counted from 1: `frame 3, feature 12 (pitch)`."""
    frame, feature = np.argwhere(wrong)[0]
    named = f" ({names[feature]})" if names else ""
    return f"frame {frame + 1}, feature {feature + 1}{named}"


def monotonic(sequences: Sequence[np.ndarray]) -> dict[int, bool]:
    """The features that only rise, or only fall, through all sequences (frames, width) in order.

    True: they count the frames, with few gaps.
    """
    rises, changes = np.ones((2, sequences[0].shape[1]), bool), 0
    before = first = sequences[0][:1]
    for frames in sequences:
        steps = np.diff(frames, axis=0, prepend=before)
        rises &= (steps >= 0).all(axis=0), (steps <= 0).all(axis=0)
        changes += (steps != 0).sum(axis=0)
        before = frames[-1:]
    found = rises.any(axis=0) & (changes >= LEAST_CHANGES) & (len(sequences) >= LEAST_SEQUENCES)
    rows = sum(map(len, sequences))
    span = np.abs(before - first)[0]
    counts = (changes == rows - 1) & (span < 2 * rows) & (span == np.round(span))
    return {int(index): bool(counts[index]) for index in np.flatnonzero(found)}


def roughness(sequences: Sequence[np.ndarray]) -> tuple[float, float] | None:
    """How much neighbours differ along the frames, and along the features: by chance 1, at least 0.

    None if the sequences are not all of one shape (frames, width), or too few.
    """
    some = sequences[:: max(1, len(sequences) // COMPARED)]
    if len(some) < LEAST_SEQUENCES or len({frames.shape for frames in sequences}) > 1:
        return None
    values = np.nan_to_num(np.stack(some).astype(np.float64))

    def along(axis: int) -> float:
        rest = (0, 3 - axis)
        scaled = values - values.mean(axis=rest, keepdims=True)
        scaled /= scaled.std(axis=rest, keepdims=True) + 1e-9
        rows = np.moveaxis(scaled, axis, 0)
        return 1.0 - float((rows[1:] * rows[:-1]).sum() / (np.square(rows[1:]).sum() + 1e-9))

    return along(1), along(2)


@dataclass(frozen=True)
class FeatureCounts:
    """The features of one part of the data, and how many of their values are missing."""

    width: int
    names: tuple[str, ...]  # () if their files have none
    values: int
    missing: int
    rule: MissingRule  # how missing values are filled

    def lines(self, name: str, *, named: bool) -> list[str]:
        """Lines for a report on the part with this name; the features themselves if `named`."""
        lines = [f"{name}: {features_named(self.width, self.names)}"] if named else []
        if self.missing and self.rule != "refuse":
            lines.append(
                f"{name}: {self.missing:,} of {self.values:,} values are missing and filled: "
                f'data.missing = "{self.rule}"'
            )
        return lines


def count_features(examples: Sequence[Labelled[Any]], rule: MissingRule) -> FeatureCounts | None:
    """The features of one part of the data; None for texts, or if there is no example."""
    if not examples or isinstance(examples[0].input, str):
        return None
    first = examples[0]
    values = sum(example.input.size for example in examples)
    missing = sum(int(np.isnan(example.input).sum()) for example in examples)
    return FeatureCounts(first.input.shape[1], first.columns, values, missing, rule)


def features_named(width: int, names: Sequence[str]) -> str:
    """`3 features: x, y, z`, or only the number if they have no names."""
    counted = f"{width:,} feature{'' if width == 1 else 's'}"
    return f"{counted}: {first_few(names, SHOWN_NAMES)}" if names else counted
