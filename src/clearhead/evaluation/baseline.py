"""A linear model as the baseline of a classifier.

It is a support vector machine: of the TF-IDF of texts, of what random kernels find in sequences, or
of the vectors of a pretrained encoder.
It is fitted in seconds, and with few examples it is hard to beat. It needs scikit-learn, the extra
`baseline`; without it there is no baseline. A damaged installation raises a `BaselineError`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.errors import ClearheadError, reason
from clearhead.evaluation.calibration import LINEAR_ODDS, negative_log_likelihood
from clearhead.evaluation.class_scores import score_classes, truth_of
from clearhead.settings import RunConfig
from clearhead.settings.declare import Runs

if TYPE_CHECKING:
    from clearhead.data.labels import Labels
    from clearhead.data.reading.labelled import Labelled
    from clearhead.data.reading.parts import Parts

TOKEN = r"\w+|[^\w\s]"
"""A word or a punctuation mark. The features are single ones and pairs of neighbours, and n-grams
of the characters of a word."""

CHARACTERS = (2, 5)
"""The shortest and the longest of these n-grams."""

KERNELS = 2000
"""Random kernels of a sequence."""

MOST_WORK = {Runs.TEXTS: 15_000_000, Runs.SEQUENCES: 15_000_000}
"""Characters of texts, or values of sequences, × (labels + 1) to fit on: it takes a few seconds.

Of more examples a random sample is used.
"""


FEATURES = {
    Runs.TEXTS: "TF-IDF of words and characters",
    Runs.SEQUENCES: f"{KERNELS:,} random kernels",
}
"""What it reads of an example, unless that is the vector of a pretrained encoder."""

MOST_VECTORS = 100_000
"""Examples × (labels + 1) to fit on, if a pretrained encoder makes their vectors."""


class BaselineError(ClearheadError):
    """There is no baseline: scikit-learn failed, or data of a run are missing or have changed."""


@dataclass(frozen=True)
class LinearBaseline:
    """A linear model: what it reads, the numbers of examples that it was fitted on and given.

    `probabilities` gives the probability of each label (N, labels) for N examples.
    """

    kind: Runs
    features: str
    fitted_on: int
    given: int
    probabilities: Callable[[Sequence[Labelled]], np.ndarray]

    @property
    def amount(self) -> str:
        """What it was fitted on: `5,452 texts`, or `40,000 of 67,349 texts`."""
        of = f" of {self.given:,}" if self.fitted_on < self.given else ""
        return f"{self.fitted_on:,}{of} {'texts' if self.kind is Runs.TEXTS else 'sequences'}"


def is_available() -> bool:
    """Whether scikit-learn is installed."""
    return find_spec("sklearn") is not None


def fit_baseline(
    examples: Sequence[Labelled],
    truth: np.ndarray,
    config: RunConfig,
    encode: Encode | None = None,
) -> LinearBaseline:
    """Fit a linear model for each label to examples (N,) and their truth (N, labels).

    It reads the vectors of a pretrained encoder if `encode` makes them. If all examples or none
    have a label, its probability is its share of the examples. With one label each, the
    probabilities of an example are scaled so that they add up to 1.
    """
    is_text = config.input == "text"
    sizes = [len(each.input) if is_text else np.size(each.input) for each in examples]
    most, features, of_kind = MOST_WORK[config.kind], FEATURES[config.kind], _of_texts
    if encode is not None:
        features, of_kind = "vectors of the pretrained encoder", partial(_of_vectors, encode)
        sizes, most = [1] * len(examples), MOST_VECTORS
    elif not is_text:
        of_kind = partial(_of_sequences, config)
    chosen = _sample(sizes, truth.shape[1], most)
    try:
        vectorise, rows, cost = of_kind([examples[i] for i in chosen])
        predictors = [_predictor(rows, has_label, cost) for has_label in truth[chosen].T]
    except ClearheadError as error:  # of the encoder
        raise _no_baseline(error.what) from None
    except Exception as error:  # an installed package may be damaged in any way
        raise _no_baseline(f"scikit-learn failed: {reason(error)}") from None

    def probabilities(examples: Sequence[Labelled]) -> np.ndarray:
        rows = vectorise(examples)
        found = np.stack([predict(rows) for predict in predictors], axis=1)
        return found if config.classifier.multi_label else found / found.sum(axis=1, keepdims=True)

    return LinearBaseline(config.kind, features, len(chosen), len(examples), probabilities)


def _sample(sizes: Sequence[int], labels: int, most_work: int) -> list[int]:
    """The indices of the examples to fit on: all, or a random sample of limited size."""
    order: list[int] = np.random.default_rng(0).permutation(len(sizes)).tolist()
    work = (labels + 1) * np.cumsum([sizes[i] for i in order])
    count = int(np.searchsorted(work, most_work, side="right"))
    return sorted(order[: max(1, count)])


Vectorise = Callable[[Sequence["Labelled"]], Any]
"""A function from examples to rows of features."""

Encode = Callable[[Sequence["Labelled"]], np.ndarray]
"""A function from N examples to their vectors (N, width)."""


def _of_vectors(encode: Encode, examples: Sequence[Labelled]) -> tuple[Vectorise, Any, float]:
    """A function from examples to vectors of unit variance, the vectors of these, and the cost."""
    from sklearn.preprocessing import StandardScaler

    vectors = encode(examples)
    scaler = StandardScaler().fit(vectors)
    root = np.sqrt(vectors.shape[1])  # so that the length of a vector is about 1
    return (
        lambda examples: scaler.transform(encode(examples)) / root,
        scaler.transform(vectors) / root,
        1.0,
    )


def _of_texts(examples: Sequence[Labelled[str]]) -> tuple[Vectorise, Any, float]:
    """A function from texts to sparse rows of features, the rows of these, and the cost."""
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_union

    words = TfidfVectorizer(token_pattern=TOKEN, ngram_range=(1, 2), sublinear_tf=True)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=CHARACTERS, sublinear_tf=True)
    vectoriser = make_union(words, characters)
    try:
        rows = vectoriser.fit_transform([each.input for each in examples])
    except ValueError:  # no text has a word
        return lambda texts: csr_matrix((len(texts), 1)), csr_matrix((len(examples), 1)), 1.0
    return lambda texts: vectoriser.transform([each.input for each in texts]), rows, 1.0


def _of_sequences(
    config: RunConfig, examples: Sequence[Labelled[np.ndarray]]
) -> tuple[Vectorise, Any, float]:
    """A function from sequences to rows of what random kernels find, those of these, and cost."""
    import torch

    from clearhead.data.preparation import learn_inputs
    from clearhead.model.kernels import RandomKernels
    from clearhead.settings.run import KERNEL_WIDTH

    inputs = learn_inputs(config, examples)
    longest = min(config.data.max_length, max(len(each.input) for each in examples))

    def batches(examples: Sequence[Labelled]) -> Iterator[Any]:
        for row in inputs.rows(examples):
            yield inputs.collate([row])

    @torch.no_grad()
    def vectorise(examples: Sequence[Labelled]) -> np.ndarray:
        return torch.cat([*map(kernels, batches(examples))]).numpy()

    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        kernels = RandomKernels(inputs.width, KERNELS, KERNEL_WIDTH, max(KERNEL_WIDTH, longest))
        kernels.fit([*batches(examples)])
    return vectorise, vectorise(examples), kernels.cost


def _predictor(rows: Any, has_label: np.ndarray, cost: float) -> Callable[[Any], np.ndarray]:
    """A function from rows to the probability of a label (rows,)."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    if has_label.all() or not has_label.any() or not np.any(rows.max()):
        return lambda rows: np.full(rows.shape[0], has_label.mean())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        margins = LinearSVC(C=cost, random_state=0).fit(rows, has_label).decision_function
    return lambda rows: np.exp(-np.logaddexp(0.0, -LINEAR_ODDS * margins(rows)))


def baseline_on_validation(
    train: Sequence[Labelled],
    validation: Sequence[Labelled],
    labels: Labels,
    config: RunConfig,
    model_scores: Mapping[str, float] | None = None,
    encode: Encode | None = None,
) -> str:
    """The scores of a linear model on the validation data of a run, in one line.

    The line has the scores of the run's own model beside them, if they are given. For `encode` see
    `fit_baseline`.
    """
    multi_label = config.classifier.multi_label
    model = fit_baseline(train, truth_of(train, labels), config, encode)
    try:
        probabilities = model.probabilities(validation)
    except ClearheadError as error:  # of the encoder
        raise _no_baseline(error.what) from None
    truth = truth_of(validation, labels)
    scores = score_classes(probabilities, truth, labels.names, multi_label)
    values = {
        "loss": negative_log_likelihood(probabilities, truth, multi_label),
        "accuracy": scores.accuracy,
        "macro_f1": scores.macro_f1,
        "micro_f1": scores.micro_f1,
    }
    names = list(dict.fromkeys([config.measure, "accuracy"]))
    line = f"linear baseline ({model.features}): {_listed(values, names)}"
    if model.fitted_on < model.given:
        line += f" (fitted on {model.amount})"
    if model_scores is None:
        return line
    line += f"; this model: {_listed(model_scores, names)}"
    better = [
        values[name] < model_scores[name] if name == "loss" else values[name] > model_scores[name]
        for name in names
    ]
    if not all(better) or config.start_from:
        return line
    if config.input == "text":
        other = "scikit-learn's LinearSVC of TF-IDF or a pretrained encoder (start_from)"
        return f"{line}; {other} may suit these data better"
    return f"{line}; a linear model of MiniRocket's features may suit these data better (sktime)"


def _listed(scores: Mapping[str, float], names: Sequence[str]) -> str:
    return ", ".join(f"{n} {scores[n]:.{3 if n == 'loss' else 2}f}" for n in names)


def baseline_on_files(config: RunConfig) -> str | None:
    """The line of `baseline_on_validation` for the files of a run.

    None without scikit-learn.
    """
    if not is_available():
        return None
    from clearhead.data.labels import Labels
    from clearhead.data.reading.parts import parts_of

    train, validation = _examples(config, parts_of(config))
    labels = Labels.learn(example.labels for example in train)
    return baseline_on_validation(train, validation, labels, config)


def baseline_of_run(folder: Path, config: RunConfig, labels: Labels) -> LinearBaseline | None:
    """The linear model fitted anew on the training examples of a model folder.

    None if there is no scikit-learn, or if the model was not trained on files. A BaselineError if a
    file of the run is missing or has changed; those of the validation and test data count, because
    they decide which examples are left out.
    """
    if not is_available() or not config.data.train:
        return None
    from clearhead.data.reading.parts import form_of_texts, parts_of_run

    try:
        train, _ = _examples(config, parts_of_run(folder, config))
        truth = truth_of(train, labels)
    except BaselineError:
        raise
    except ClearheadError as error:
        raise _no_baseline(f"{error.where}: {error.what}" if error.where else error.what) from None
    found = fit_baseline(train, truth, config)
    if config.input == "features":
        return found
    form = form_of_texts(config)  # that of the training examples

    def probabilities(examples: Sequence[Labelled]) -> np.ndarray:
        return found.probabilities([e._replace(input=form(e.input)) for e in examples])

    return replace(found, probabilities=probabilities)


def _no_baseline(why: str) -> BaselineError:
    return BaselineError("there is no linear baseline", why=why)


def _examples(config: RunConfig, parts: Parts) -> tuple[Sequence[Labelled], Sequence[Labelled]]:
    """The training and validation examples of a run, without those that a rule leaves out."""
    from clearhead.data.trainable import check_labelled, read_labelled

    parts = read_labelled(config, parts)
    train, _ = check_labelled(parts.train, config.data, parts.held_out)
    return train, parts.validation.examples
