"""Features brought to mean 0 and deviation 1 over the training data, and kept with the model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.data.features import first_of, refuse_fill_values
from clearhead.errors import DataError
from clearhead.files import content_hash, read_description, write_description

FARTHEST = 1e6
"""Deviations from the mean that a value may have. Of n values none is more than √n from their own
mean, so new ones alone can be: they would drown all else that the model reads. A feature that never
changes has no deviation to measure by, and its values are only held to be no fill values."""


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Takes each feature's mean away and divides by its deviation, both of the training data.

    Never those of the sequence at hand, which would erase what tells sequences apart.

    Attributes:
        mean: float64 (width,).
        deviation: float64 (width,); 1 for a feature that never changes.
        enabled: if not, features are given back as they are; `mean` still serves to fill in
            what is missing.
        names: of the features; () where the training data gave them none.

    Raises:
        ValueError: the shapes differ, a value is not finite, a deviation not positive, or a name
            comes twice.
    """

    mean: np.ndarray
    deviation: np.ndarray
    enabled: bool = True
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.mean.ndim != 1 or self.mean.shape != self.deviation.shape:
            raise ValueError(f"shapes {self.mean.shape} and {self.deviation.shape}")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.deviation).all()):
            raise ValueError("a mean or deviation is not finite")
        if not (self.deviation > 0).all():
            raise ValueError("a deviation is not positive")
        if self.names and not len(set(self.names)) == len(self.names) == self.width:
            raise ValueError(f"{len(self.names)} names for {self.width} features, or one twice")

    @classmethod
    def learn(
        cls, sequences: Iterable[np.ndarray], *, enabled: bool = True, names: Sequence[str] = ()
    ) -> Normaliser:
        """The means and deviations over all frames of all sequences together.

        NaN is left out. A feature without any value has mean 0.

        Args:
            sequences: of the training data, each (frames, width); they are read once.
            enabled: whether to normalise by what is learned.
            names: of the features, if they have any.

        Raises:
            DataError: there is no sequence, or widths differ.
        """
        moments: _Moments | None = None
        for frames in sequences:
            moments = moments or _Moments(frames.shape[1])
            moments.add(frames)
        if moments is None:
            raise DataError("there is no sequence to learn the features' means from")
        return cls(moments.mean, moments.deviation(), enabled, tuple(names))

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.mean)

    def check(self, frames: np.ndarray, place: str | None = None) -> None:
        """Raise an error for a sequence that cannot be brought to this scale.

        Args:
            frames: one sequence, before missing values are filled in: NaN is not judged, but a
                0.0 in its place may lie far from the training data.
            place: where it was read, for the error.

        Raises:
            DataError: it has another width than the training data, a value that looks like a fill
                value, or one far beyond the training data.
        """
        if frames.ndim != 2 or frames.shape[1] != self.width:
            raise DataError(
                f"the sequence has {frames.shape[-1] if frames.ndim else 0} features, "
                f"the training data {self.width}",
                where=place,
                todo="give the features that the model was trained on",
            )
        refuse_fill_values(frames, place, self.names)
        if not self.enabled:
            return
        scaled = self._scaled(frames)
        # A deviation of exactly 1 stands for that of a feature that never changes.
        far = (np.abs(scaled) > FARTHEST) & (self.deviation != 1.0)
        if far.any():
            raise DataError(
                "a value lies too far from those of the training data",
                where=place,
                why=f"{first_of(far, self.names)} is {frames[far][0]:g}, "
                f"{abs(scaled[far][0]):.1e} deviations from their mean",
                todo="mend it, or write nan if it stands for a missing value (data.missing says "
                "how it is filled)",
            )

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        """Features (frames, width) in the model's scale, float32; NaN stays NaN.

        Args:
            frames: one sequence that `check` accepts, missing values filled in or not.
        """
        return (self._scaled(frames) if self.enabled else frames).astype(np.float32)

    def _scaled(self, frames: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return (frames - self.mean) / self.deviation

    def fingerprint(self) -> str:
        """A hash of all that it does."""
        return content_hash(json.dumps(["normaliser", self._tree()]).encode())

    def save(self, folder: Path, name: str) -> None:
        """Write `name.json`, exactly."""
        write_description(folder, name, self._tree(), self.fingerprint())

    @classmethod
    def load(cls, folder: Path, name: str) -> Normaliser:
        """What `save(folder, name)` wrote.

        Raises:
            ModelFolderError: the file is missing, damaged, or of another version.
        """
        return read_description(folder, name, "the normaliser of features", cls._from_tree)

    @classmethod
    def _from_tree(cls, tree: dict[str, Any]) -> Normaliser:
        values = (np.array(tree[name], dtype=np.float64) for name in ("mean", "deviation"))
        names = tree.get("names", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("the names are not a list of strings")
        return cls(*values, enabled=bool(tree["enabled"]), names=tuple(names))

    def _tree(self) -> dict[str, Any]:
        numbers = {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}
        names = {"names": list(self.names)} if self.names else {}
        return {"enabled": self.enabled, **numbers, **names}


class _Moments:
    """Means and sums of squared deviations, merged block by block (Chan, Golub and LeVeque 1983).

    The difference of sums of squares would lose all digits where a mean is large.
    """

    def __init__(self, width: int) -> None:
        self.count = np.zeros(width, dtype=np.int64)
        self.mean = np.zeros(width)
        self._squares = np.zeros(width)
        self._least = np.full(width, np.inf)
        self._greatest = np.full(width, -np.inf)

    def add(self, frames: np.ndarray) -> None:
        """Take in values (frames, width); NaN is left out."""
        if frames.shape[1] != len(self.mean):
            what = f"a sequence has {frames.shape[1]} features, those before {len(self.mean)}"
            raise DataError(what)
        there = ~np.isnan(frames)
        values = np.where(there, frames, 0.0).astype(np.float64)
        count = there.sum(axis=0)
        mean = values.sum(axis=0) / np.maximum(count, 1)
        squares = (np.where(there, values - mean, 0.0) ** 2).sum(axis=0)
        total = self.count + count
        share = count / np.maximum(total, 1)
        apart = mean - self.mean
        self.mean = self.mean + apart * share
        self._squares += squares + apart**2 * self.count * share
        self.count = total
        self._least = np.minimum(self._least, np.where(there, values, np.inf).min(axis=0))
        self._greatest = np.maximum(self._greatest, np.where(there, values, -np.inf).max(axis=0))

    def deviation(self) -> np.ndarray:
        """The deviations (width,) over all values; 1 where they are all the same."""
        found = np.sqrt(self._squares / np.maximum(self.count, 1))
        # Rounding gives a constant feature some tiny deviation, which would blow up its noise.
        constant = (self._least >= self._greatest) | (found == 0)
        return np.where(constant, 1.0, found)
