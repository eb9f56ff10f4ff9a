"""A linear model as the baseline of a text classifier: TF-IDF with logistic regression.

It is fitted in seconds, and with few texts it is hard to beat. It needs scikit-learn, the extra
`baseline`; without it there is no baseline. A damaged one raises a `BaselineError`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.errors import ClearheadError, reason
from clearhead.evaluation.calibration import negative_log_likelihood
from clearhead.evaluation.class_scores import score_classes, truth_of
from clearhead.settings import RunConfig

if TYPE_CHECKING:
    from clearhead.data.labels import Labels
    from clearhead.data.reading.labelled import Labelled
    from clearhead.data.reading.parts import Parts

TOKEN = r"\w+|[^\w\s]"
"""A word or a punctuation mark. The features are single ones and pairs of neighbours."""

INVERSE_REGULARISATION = 10.0

MOST_WORK = 15_000_000
"""Characters × (labels + 1) to fit on, which takes a few seconds. More texts are sampled."""


class BaselineError(ClearheadError):
    """There is no baseline: scikit-learn failed, or data of a run are missing or have changed."""


@dataclass(frozen=True)
class LinearBaseline:
    """A linear model: the numbers of texts that it was fitted on and given, and its function.

    The latter gives the probability of each label (N, labels) for N texts.
    """

    fitted_on: int
    texts: int
    probabilities: Callable[[Sequence[str]], np.ndarray]

    @property
    def amount(self) -> str:
        """What it was fitted on: `5,452 texts`, or `40,000 of 67,349 texts`."""
        of = f" of {self.texts:,}" if self.fitted_on < self.texts else ""
        return f"{self.fitted_on:,}{of} texts"


def is_available() -> bool:
    """Whether scikit-learn is installed."""
    return find_spec("sklearn") is not None


def fit_baseline(
    texts: Sequence[str], truth: np.ndarray, multi_label: bool = False
) -> LinearBaseline:
    """Fit a logistic regression for each label to texts (N,) and their truth (N, labels).

    If all texts or none have a label, its probability is its share of the texts. With one label a
    text, the probabilities of a text are scaled so that they add up to 1.
    """
    chosen = _sample(texts, truth.shape[1])
    try:
        vectorise, rows = _vectoriser([texts[i] for i in chosen])
        predictors = [_predictor(rows, has_label) for has_label in truth[chosen].T]
    except Exception as error:  # an installed package may be damaged in any way
        raise _no_baseline(f"scikit-learn failed: {reason(error)}") from None

    def probabilities(texts: Sequence[str]) -> np.ndarray:
        rows = vectorise(texts)
        found = np.stack([predict(rows) for predict in predictors], axis=1)
        return found if multi_label else found / found.sum(axis=1, keepdims=True)

    return LinearBaseline(len(chosen), len(texts), probabilities)


def _sample(texts: Sequence[str], labels: int) -> list[int]:
    """The indices of the texts to fit on: all, or a random sample of limited length."""
    order: list[int] = np.random.default_rng(0).permutation(len(texts)).tolist()
    work = (labels + 1) * np.cumsum([len(texts[i]) for i in order])
    count = int(np.searchsorted(work, MOST_WORK, side="right"))
    return sorted(order[: max(1, count)])


def _vectoriser(texts: Sequence[str]) -> tuple[Callable[[Sequence[str]], Any], Any]:
    """A function from texts to sparse rows of features, and the rows of these texts."""
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectoriser = TfidfVectorizer(token_pattern=TOKEN, ngram_range=(1, 2), sublinear_tf=True)
    try:
        return vectoriser.transform, vectoriser.fit_transform(texts)
    except ValueError:  # no text has a word
        return lambda texts: csr_matrix((len(texts), 1)), csr_matrix((len(texts), 1))


def _predictor(rows: Any, has_label: np.ndarray) -> Callable[[Any], np.ndarray]:
    """A function from rows to the probability of a label (rows,)."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if has_label.all() or not has_label.any() or not rows.nnz:
        return lambda rows: np.full(rows.shape[0], has_label.mean())
    model = LogisticRegression(C=INVERSE_REGULARISATION, solver="liblinear", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, has_label)
    return lambda rows: model.predict_proba(rows)[:, 1]


def baseline_on_validation(
    train: Sequence[Labelled[str]],
    validation: Sequence[Labelled[str]],
    labels: Labels,
    config: RunConfig,
    model_scores: Mapping[str, float] | None = None,
) -> str:
    """The scores of a linear model on the validation data of a run, in one line.

    The line has the scores of the run's own model beside them, if they are given.
    """
    multi_label = config.classifier.multi_label
    model = fit_baseline([example.input for example in train], truth_of(train, labels), multi_label)
    probabilities = model.probabilities([example.input for example in validation])
    truth = truth_of(validation, labels)
    scores = score_classes(probabilities, truth, labels.names, multi_label)
    values = {
        "loss": negative_log_likelihood(probabilities, truth, multi_label),
        "accuracy": scores.accuracy,
        "macro_f1": scores.macro_f1,
        "micro_f1": scores.micro_f1,
    }
    names = list(dict.fromkeys([config.measure, "accuracy"]))
    line = f"linear baseline: {_listed(values, names)}"
    if model.fitted_on < model.texts:
        line += f" (fitted on {model.amount})"
    if model_scores is None:
        return line
    line += f"; this model: {_listed(model_scores, names)}"
    is_behind = model_scores["accuracy"] < scores.accuracy and not config.start_from
    return f"{line}; a pretrained encoder may do better (start_from)" if is_behind else line


def _listed(scores: Mapping[str, float], names: Sequence[str]) -> str:
    return ", ".join(f"{n} {scores[n]:.{3 if n == 'loss' else 2}f}" for n in names)


def baseline_on_files(config: RunConfig) -> str | None:
    """The line of `baseline_on_validation` for the files of a run.

    None without scikit-learn, and for a run on features.
    """
    if not is_available() or config.input != "text":
        return None
    from clearhead.data.labels import Labels
    from clearhead.data.reading.parts import parts_of

    train, validation = _examples(config, parts_of(config))
    labels = Labels.learn(example.labels for example in train)
    return baseline_on_validation(train, validation, labels, config)


def baseline_of_run(folder: Path, config: RunConfig, labels: Labels) -> LinearBaseline | None:
    """The linear model fitted anew on the training examples of a model folder.

    None if there is no scikit-learn, if the model reads features, or if it was not trained on
    files. A BaselineError if a file of the run is missing or has changed; those of the validation
    and test data count, because they decide which examples are left out.
    """
    if not is_available() or config.input != "text" or not config.data.train:
        return None
    from clearhead.data.reading.parts import form_of_texts, parts_of_run

    try:
        train, _ = _examples(config, parts_of_run(folder, config))
        texts, truth = [example.input for example in train], truth_of(train, labels)
    except BaselineError:
        raise
    except ClearheadError as error:
        raise _no_baseline(f"{error.where}: {error.what}" if error.where else error.what) from None
    found = fit_baseline(texts, truth, config.classifier.multi_label)
    form = form_of_texts(config)  # that of the training examples
    return replace(found, probabilities=lambda texts: found.probabilities(list(map(form, texts))))


def _no_baseline(why: str) -> BaselineError:
    return BaselineError("there is no linear baseline", why=why)


def _examples(
    config: RunConfig, parts: Parts
) -> tuple[Sequence[Labelled[str]], Sequence[Labelled[str]]]:
    """The training and validation examples of a run, without those that a rule leaves out."""
    from clearhead.data.trainable import check_labelled, read_labelled

    parts = read_labelled(config, parts)
    train, _ = check_labelled(parts.train, config.data, parts.held_out)
    return train, parts.validation.examples
