"""The normaliser of features: mean 0 and deviation 1 over the training data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.data.reading.features import first_of
from clearhead.errors import DataError
from clearhead.folder.files import json_file
from clearhead.folder.model_folder import ModelFolder

NORMALISER = "normaliser"
"""The name of the normaliser in a model folder."""

LARGEST = 1e17
"""The largest value that is accepted. Scientific data mark missing values by larger ones (1e20, or
9.97e36 in netCDF); times in nanoseconds since 1970 are larger, too (1.7e18). One such value in the
training data makes the deviation of its feature so large that all other values become equal, and
the squares in its frame overflow in 32 bits."""

FARTHEST = 1e6
"""The largest distance of a value from the mean, in deviations. In training no value reaches it: of
n values, none is farther than √n deviations from their mean. A new value beyond it would dominate
the other inputs. The limit does not apply to a feature that is constant in training."""


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Subtracts the mean of each feature in the training data, and divides by its deviation.

    Both are float64 (width,); the deviation of a constant feature is 1. If it is not `enabled`,
    features keep their values, and the mean still fills in missing ones. Without names in the
    training data, `names` is ().
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
            raise ValueError(f"{len(self.names)} names for {self.width} features, or a name twice")

    @classmethod
    def learn(
        cls, sequences: Iterable[np.ndarray], *, enabled: bool = True, names: Sequence[str] = ()
    ) -> Normaliser:
        """The means and deviations over all frames of sequences of one width, (frames, width).

        The sequences are read once. NaN is ignored. A feature without any value has mean 0.
        """
        # Means and sums of squared deviations are merged one sequence at a time (Chan, Golub and
        # LeVeque 1983). A difference of sums of squares would lose all digits if a mean is large.
        total, mean, squares, least, greatest = np.int64(0), 0.0, 0.0, np.inf, -np.inf
        for frames in sequences:
            known = ~np.isnan(frames)
            values = np.where(known, frames, 0.0).astype(np.float64)
            count = known.sum(axis=0)
            own_mean = values.sum(axis=0) / np.maximum(count, 1)
            own_squares = (np.where(known, values - own_mean, 0.0) ** 2).sum(axis=0)
            share = count / np.maximum(total + count, 1)
            difference = own_mean - mean
            mean = mean + difference * share
            squares = squares + (own_squares + difference**2 * total * share)
            total = total + count
            least = np.minimum(least, np.where(known, values, np.inf).min(axis=0))
            greatest = np.maximum(greatest, np.where(known, values, -np.inf).max(axis=0))
        deviation = np.sqrt(squares / np.maximum(total, 1))
        # Rounding gives a constant feature a tiny deviation, which would amplify its noise.
        constant = (least >= greatest) | (deviation == 0)
        return cls(np.asarray(mean), np.where(constant, 1.0, deviation), enabled, tuple(names))

    @property
    def width(self) -> int:
        return len(self.mean)

    def check(self, frames: np.ndarray, place: str | None = None) -> None:
        """Check that a sequence, before missing values (NaN) are filled, fits the training data."""
        if frames.ndim != 2 or frames.shape[1] != self.width:
            raise DataError(
                f"the sequence has {frames.shape[-1] if frames.ndim else 0} features, "
                f"the training data {self.width}",
                where=place,
                todo="give the features that the model was trained on",
            )
        scaled = self._scaled(frames)
        huge = np.abs(frames) > LARGEST
        # The deviation of constant features is exactly 1.
        far = (np.abs(scaled) > FARTHEST) & (self.deviation != 1.0)
        if huge.any():
            what = "a value seems to mark a missing value"
            why = f"{first_of(huge, self.names)} is {frames[huge][0]:g}, more than {LARGEST:g}"
            todo = "give the feature in another unit (a time stamp in seconds)"
        elif self.enabled and far.any():
            what = "a value is too far from those of the training data"
            why = (
                f"{first_of(far, self.names)} is {frames[far][0]:g}, "
                f"{abs(scaled[far][0]):.1e} deviations from their mean"
            )
            todo = "correct the value"
        else:
            return
        todo = f"write nan where a value is missing (data.missing sets how it is filled), or {todo}"
        raise DataError(what, where=place, why=why, todo=todo)

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        """Normalise a sequence that `check` accepts: float32 (frames, width); NaN stays NaN."""
        return (self._scaled(frames) if self.enabled else frames).astype(np.float32)

    def _scaled(self, frames: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return (frames - self.mean) / self.deviation

    def files(self, name: str) -> dict[str, bytes]:
        """The content of `name.json`, without loss of precision."""
        numbers = {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}
        names = {"names": list(self.names)} if self.names else {}
        return json_file(name, {"enabled": self.enabled, **numbers, **names})

    @classmethod
    def of(cls, folder: ModelFolder) -> Normaliser:
        """The normaliser of a classifier of features.

        Raises:
            ModelFolderError: the file is missing or damaged.
        """
        return folder.built(NORMALISER, "the normaliser of features", cls._from_tree)

    @classmethod
    def _from_tree(cls, tree: dict[str, Any]) -> Normaliser:
        values = (np.array(tree[name], dtype=np.float64) for name in ("mean", "deviation"))
        names = tree.get("names", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("the names are not a list of strings")
        return cls(*values, enabled=bool(tree["enabled"]), names=tuple(names))
