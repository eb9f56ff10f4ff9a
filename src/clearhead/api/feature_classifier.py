"""A classifier of feature sequences with the interface of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from clearhead.api.classifier import items_of
from clearhead.api.estimator import SETTINGS, Estimator, Inputs
from clearhead.data.reading.features import as_frames
from clearhead.data.reading.labelled import feature_names
from clearhead.errors import ConfigError, DataError, first_few, type_of, warn
from clearhead.settings.declare import Runs

Layout = Literal["channels_first", "channels_last"]
LAYOUTS = ("auto", "channels_first", "channels_last")

SAME_ORDER = "give the axes in the order that they had in fit"

SHOWN = 5
"""The most names of features in an error."""


@dataclass(kw_only=True, eq=False, repr=False)
class FeatureClassifier(Estimator):
    """An encoder that learns the labels of sequences, such as the signals of sensors.

        classifier = clearhead.FeatureClassifier().fit(sequences, labels)
        classifier.predict(sequences)

    It works in scikit-learn's `Pipeline`, `cross_val_score` and `GridSearchCV`. After `fit`,
    `classes_` are the labels (K,) in sorted order, `model_` is a `Classifier`, `layout_` the order
    of the axes and `n_features_in_` the number of features. What is not given is chosen for the
    sequences, as `clearhead init` does.

    Sequences `X` are one of these:

    - a list of arrays (frames, features), perhaps of unequal lengths, or of tables with a row for
      each frame;
    - an array (N, frames, features);
    - both with the axes in the other order, (features, frames), as aeon and sktime have them;
    - an array or table (N, frames) of numbers: one feature, and for each sequence a row;
    - a table of sktime: a column for each feature, whose cells are series; or a row for each frame,
      with an index of two levels, the sequence and the frame.

    Args:
        layout: the order of the axes, "channels_first" (features, frames) or "channels_last"
            (frames, features). "auto": features are the axis that is equally long in all sequences;
            if both are, the shorter one.
        layers: number of encoder layers.
        d_model: width of the encoder; if it is given, its feed-forward networks are twice as wide.
        heads: number of attention heads; must divide `d_model`.
        convolution: width of the convolution over the frames, or several widths; 0: none.
        pooling: how the vectors of a sequence become one vector.
        kernels: number of random convolutions (MiniRocket) that a linear model (a support vector
            machine) beside the encoder reads; 0: none. It decides where there are few sequences.
        max_length: maximum frames of a sequence; longer ones are cut.
        dropout: dropout in the encoder.
        head_dropout: dropout between the pooling and the labels.
        epochs: passes over the training data.
        batch_tokens: maximum frames of a batch, padding included.
        learning_rate: the highest learning rate; it falls to zero at the end.
        validation_share: share of the sequences that are held out to calibrate the probabilities
            and to select the best weights.
        class_weight: "balanced" gives rare classes the same weight as frequent ones; a mapping
            gives the weight of each label, also for the linear model; "balanced" is for the loss of
            the encoder alone.
        missing: NaN among the values; "refuse": an error; "zero", "mean" (of the feature in the
            training data) or "interpolate" (between the values before and after it).
        start_from: a model folder, whose encoder is trained further.
        random_state: seed of all random numbers: a number, a generator of numpy, or None for
            another one each time.
        threads: processor threads; 0: PyTorch's default, one per core.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        verbose: True prints the progress of `fit`, with the time left, and its validations.
    """

    layout: str = "auto"
    kernels: int | None = None

    kind: ClassVar[Runs] = Runs.SEQUENCES
    settings = SETTINGS | {"missing": "data.missing", "kernels": "classifier.kernels"}

    def _inputs(self, X: Any, is_fitting: bool) -> Inputs:  # noqa: N803
        if self.layout not in LAYOUTS:
            what = f"layout is not one of {', '.join(LAYOUTS)}"
            raise ConfigError(what, where=f"FeatureClassifier(layout={self.layout!r})")
        read = _read(X)
        if not is_fitting:
            self._check_fits(read)
        layout = self.layout if is_fitting else self.layout_
        frames = read.layout or (layout if layout != "auto" else _detected(read.arrays))
        turned = frames == "channels_first"
        found = [
            as_frames(array.T if turned and array.ndim == 2 else array, f"sequence {number}")
            for number, array in enumerate(read.arrays, start=1)
        ]
        widths = {array.shape[1] for array in found}
        if len(widths) > 1:
            raise DataError(
                f"the sequences have {_range(widths)} features",
                why=f"the axes are read as {frames.replace('_', ' ')}",
                todo="give each the same features, or the order of the axes as layout"
                if is_fitting
                else SAME_ORDER,
            )
        if not found:
            return Inputs([], 0 if is_fitting else self.n_features_in_, frames)
        count, width = read.width or min(widths), min(widths)
        if not is_fitting:
            wanted = self.model_.inputs.width
            if read.width and self.n_features_in_ > 1:
                # For scikit-learn the frames of a row are features.
                width, wanted = count, self.n_features_in_
            if width != wanted:
                raise DataError(
                    f"X has {width} features, but FeatureClassifier is expecting {wanted} features "
                    "as input",
                    todo=SAME_ORDER if {len(array) for array in found} == {wanted} else None,
                )
        return Inputs(found, count, frames, read.names)

    def _check_fits(self, read: _Read) -> None:
        """Check that sequences have the form and the names of features of those in `fit`."""
        wanted = tuple(getattr(self, "feature_names_in_", ()))
        if wanted and not read.names and read.arrays:
            warn(
                "X does not have valid feature names, but FeatureClassifier was fitted with "
                "feature names: its features are read in the order of fit"
            )
        if wanted and read.names and read.names != wanted:
            raise DataError(
                "The feature names should match those that were passed during fit",
                why=f"they are {first_few(read.names, SHOWN)}; in fit {first_few(wanted, SHOWN)}",
                todo="select the columns by the names in feature_names_in_, in this order",
            )
        if read.width and (features := self.model_.inputs.width) > 1:
            raise DataError(
                f"X has one feature, and the sequences of fit had {features}",
                why=f"an array of two dimensions has a sequence in each row; it is {read.width} "
                "numbers long",
                todo="if X is a single sequence: [X]",
            )


class _Read(NamedTuple):
    """Sequences as arrays, the order of their axes if their form shows it, and columns of a table.

    An array has the axes of a sequence, or frames alone. `names` are those of a table's columns.
    """

    arrays: list[np.ndarray]
    layout: Layout | None = None
    width: int = 0
    names: tuple[str, ...] = ()


def _read(X: Any) -> _Read:  # noqa: N803
    """The sequences of any form that `FeatureClassifier` takes."""
    if isinstance(X, str | bytes):
        raise TypeError("X is a single string: give a list of sequences")
    if hasattr(X, "toarray"):
        what = "X is a sparse matrix, and sequences are dense"
        raise TypeError(f"{what}: convert it to a dense numpy array with X.toarray()")
    if hasattr(X, "columns") and getattr(X, "ndim", 2) == 2:
        return _of_table(X)
    if getattr(getattr(X, "dtype", None), "kind", "") == "O" and X.ndim == 1:
        # An array, or a column of a table, with a sequence in each cell.
        X = list(X)  # noqa: N806
    if not isinstance(X, np.ndarray):
        if not hasattr(X, "__array__"):
            X = items_of(X, "sequences", arrays=True)  # noqa: N806
            if not X:
                return _Read([])
            if any(hasattr(each, "columns") for each in X):
                return _of_tables(X)
        if isinstance(X, list):
            arrays = [_numbers(each) for each in X]
            is_one = all(isinstance(each, np.ndarray) and each.ndim == 1 for each in X)
            # Sequences of unequal lengths are no array; a list of arrays has one feature.
            if is_one or len({array.shape for array in arrays}) > 1:
                return _Read(arrays)
        X = _numbers(X)  # noqa: N806
    X = _numbers(X)  # noqa: N806
    if X.ndim == 3:
        return _Read([*X])
    if X.ndim != 2:
        raise DataError(
            f"Expected 2D array or sequences, got {X.ndim}D array instead: its shape is {X.shape}",
            todo="Reshape your data: (N, frames) for one feature, (N, frames, features) for more; "
            "a single sequence is array[None]",
        )
    if 0 in X.shape:
        what = f"found array with 0 {'sample' if not len(X) else 'feature'}(s) (shape={X.shape})"
        raise DataError(f"{what} while a minimum of 1 is required.")
    return _Read([*X], "channels_last", X.shape[1])


def _of_table(table: Any) -> _Read:
    """The sequences of a table of pandas."""
    if getattr(getattr(table, "index", None), "nlevels", 1) == 2:
        groups = table.groupby(level=0, sort=False)
        return _of_tables([each for _, each in groups])
    values, names = np.asarray(table), feature_names(table)
    first = values.flat[0] if values.size else 0
    if values.dtype.kind == "O" and hasattr(first, "__len__") and not isinstance(first, str):
        # Each cell is a series.
        rows = [[_numbers(cell) for cell in row] for row in values]
        for number, row in enumerate(rows, start=1):
            if row[0].ndim != 1:
                what = f"a cell of the table is not a series: its shape is {row[0].shape}"
                todo = "give the column with the sequences alone, e.g. list(table['signal'])"
                raise DataError(what, where=f"sequence {number}", todo=todo)
            if len({cell.shape for cell in row}) > 1:
                what = "the features of a sequence are not series of equal lengths"
                raise DataError(what, where=f"sequence {number}")
        return _Read([np.stack(row, axis=1) for row in rows], "channels_last", 0, names)
    return _read(_of_columns(table))._replace(names=names)


def _of_tables(tables: Sequence[Any]) -> _Read:
    """The sequences of tables, each of which has a row for each frame."""
    names = feature_names(tables[0])
    for number, each in enumerate(tables, start=1):
        if (its := feature_names(each)) != names:
            raise DataError(
                f"the columns are {first_few(its, SHOWN) or 'without names'}, not "
                f"{first_few(names, SHOWN) or 'without names'} as in the first sequence",
                where=f"sequence {number}",
                todo="give all tables the same columns in the same order",
            )
    return _Read([_of_columns(each) for each in tables], "channels_last", 0, names)


def _of_columns(table: Any) -> np.ndarray:
    """The numbers of a table (rows, columns); a DataError that names the column if it has none."""
    if not hasattr(table, "iloc"):
        return _numbers(table)
    columns = [_numbers(table.iloc[:, n], f"column {name!r}") for n, name in enumerate(table)]
    return np.stack(columns, axis=1) if columns else _numbers(table)


def _numbers(values: Any, where: str | None = None) -> np.ndarray:
    """An array of numbers; a DataError if it is none."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(float), np.nan)
    try:
        found = np.asarray(values)
        if found.dtype.kind == "c":
            raise ValueError("Complex data not supported")
        if found.dtype.kind in "mM":
            raise ValueError(f"they are of the type {found.dtype}")
        if found.dtype.kind not in "fiub" and found.ndim <= 2:
            found = np.asarray(values, dtype=float)
    except TypeError as error:
        raise TypeError(f"the sequences are not numbers: {error}") from None
    except (ValueError, RuntimeError) as error:  # a tensor raises the latter
        raise DataError(
            "the sequences are not numbers",
            where=where,
            why=f"{error}; this is {type_of(values)}",
            todo="give arrays of numbers",
        ) from None
    return found


def _detected(arrays: Sequence[np.ndarray]) -> Layout:
    """The order of the axes of sequences; a DataError if their shapes do not show it."""
    shapes = [array.shape for array in arrays if array.ndim == 2]
    if not shapes:
        return "channels_last"
    rows, columns = ({shape[axis] for shape in shapes} for axis in (0, 1))
    if len(rows) == len(columns) == 1 and rows != columns:
        return "channels_first" if min(rows) < min(columns) else "channels_last"
    if len(rows) == 1 and min(rows) < max(columns):
        return "channels_first"
    if len(columns) == 1 and min(columns) < max(rows):
        return "channels_last"
    if rows == columns == {1}:
        return "channels_last"
    if len(rows) > 1 and len(columns) > 1:
        other = next(shape for shape in shapes if shape != shapes[0])
        raise DataError(
            "the sequences have different numbers of features",
            why=f"no axis is equally long in all of them: they have shapes such as {shapes[0]} and "
            f"{other}",
            todo="give each sequence the same features",
        )
    raise DataError(
        "it is not clear which axis has the features",
        why=f"the sequences have {_range(rows)} rows and {_range(columns)} columns",
        todo='name the order of the axes: layout="channels_last" is (frames, features), '
        '"channels_first" is (features, frames)',
    )


def _range(sizes: set[int]) -> str:
    return str(min(sizes)) if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
