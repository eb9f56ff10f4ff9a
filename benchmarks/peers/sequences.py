"""Baselines of labelled sequences: MiniRocket with a ridge classifier, and the nearest neighbour.

    PYTHON benchmarks/peers/sequences.py TRAIN.ts TEST.ts

PYTHON is that of an environment with sktime, scikit-learn and numba. The distance of the nearest
neighbour is dynamic time warping of standardised features. Prints JSON: the accuracies in percent,
and the seconds of training and classification.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
from numba import njit  # pyright: ignore[reportMissingImports]
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sktime.datasets import load_from_tsfile  # pyright: ignore[reportMissingImports]
from sktime.transformations.panel.rocket import (  # pyright: ignore[reportMissingImports]
    MiniRocketMultivariateVariable,
)

SEEDS = 5


@njit
def warped(a, b):
    """The squared distance of two sequences (frames, features) by dynamic time warping."""
    before = np.full(len(b) + 1, np.inf)
    before[0] = 0.0
    for i in range(len(a)):
        now = np.full(len(b) + 1, np.inf)
        for j in range(len(b)):
            cost = ((a[i] - b[j]) ** 2).sum()
            now[j + 1] = cost + min(before[j], before[j + 1], now[j])
        before = now
    return before[len(b)]


def minirocket(train, labels, test, truth) -> list[float]:
    """The accuracies of several seeds."""
    found = []
    for seed in range(SEEDS):
        # A kernel reads nine frames: shorter sequences are padded.
        rocket = MiniRocketMultivariateVariable(pad_value_short_series=0.0, random_state=seed)
        ridge = RidgeClassifierCV(alphas=np.logspace(-3, 3, 10))
        model = make_pipeline(StandardScaler(with_mean=False), ridge)
        model.fit(rocket.fit_transform(train), labels)
        found.append(100 * float(model.score(rocket.transform(test), truth)))
    return found


def neighbour(train, labels, test, truth) -> list[float]:
    """The accuracy of the label of the nearest training sequence."""
    train, test = (list(map(frames, rows.to_numpy())) for rows in (train, test))
    everything = np.concatenate(train)
    mean, deviation = everything.mean(axis=0), everything.std(axis=0) + 1e-9
    train, test = ([(x - mean) / deviation for x in part] for part in (train, test))
    nearest = [min(range(len(train)), key=lambda n: warped(x, train[n])) for x in test]
    return [100 * float(np.mean(labels[nearest] == truth))]


def frames(row) -> np.ndarray:
    """A sequence (frames, features) of a row of series."""
    return np.stack([np.asarray(series, dtype=float) for series in row], axis=1)


def main() -> None:
    """Both, on the files of the command line."""
    warnings.simplefilter("ignore")
    parts = [load_from_tsfile(path, return_data_type="nested_univ") for path in sys.argv[1:3]]
    (train, labels), (test, truth) = parts
    found = {}
    for name, baseline in (("MiniRocket", minirocket), ("1-NN, DTW", neighbour)):
        began = time.monotonic()
        accuracies = baseline(train, labels, test, truth)
        found[name] = {"accuracies": accuracies, "seconds": time.monotonic() - began}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
