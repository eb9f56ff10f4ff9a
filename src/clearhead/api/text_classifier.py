"""A text classifier with the interface of scikit-learn, which does not have to be installed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.api.classifier import items_of, texts_of
from clearhead.api.loading import load_classifier
from clearhead.api.training import train
from clearhead.data.judging.agreement import IN_MEMORY, INSIST
from clearhead.data.proposing.classification import FEW, WORD_NGRAMS, read_by_words
from clearhead.data.proposing.settings import validations_in
from clearhead.data.proposing.survey import pieces_for, survey_side
from clearhead.data.trainable import NO_REGRESSION, NONE_TO_TRAIN, NONE_TO_VALIDATE
from clearhead.device import short_waits
from clearhead.errors import (
    ClearheadError,
    ConfigError,
    DataError,
    InputError,
    ModelFolderError,
    NotTrainedError,
    TrainingError,
    warn,
)
from clearhead.folder.model_folder import PROVENANCE, open_folder
from clearhead.settings import RunConfig, config_from
from clearhead.settings.declare import Runs
from clearhead.settings.training import warmup_of
from clearhead.tokenizer import WordTokenizer
from clearhead.tokenizer.normal_form import LABEL

with short_waits():  # a process of joblib imports this module first, and these import PyTorch
    from clearhead.tasks.classification import SMALLER
    from clearhead.training.bad_steps import IF_DIVERGED
    from clearhead.training.display import PlainLines
    from clearhead.training.events import Event, RunEnded, RunStarted
    from clearhead.training.loop import IF_MEMORY_IS_FULL
    from clearhead.training.run_folder import ELSEWHERE

if TYPE_CHECKING:
    from sklearn.utils import Tags

SETTINGS = {
    "layers": "model.encoder_layers",
    "d_model": "model.d_model",
    "heads": "model.n_heads",
    "convolution": "model.input_convolution",
    "pooling": "classifier.pooling",
    "words": "tokenizer.split_punctuation",
    "vocabulary": "tokenizer.max_vocabulary",
    "max_length": "data.max_length",
    "dropout": "model.dropout",
    "head_dropout": "classifier.dropout",
    "epochs": "training.max_epochs",
    "batch_tokens": "training.batch_tokens",
    "learning_rate": "training.schedule.peak",
    "validation_share": "data.validation_share",
    "class_weights": "classifier.class_weights",
    "seed": "seed",
    "threads": "training.threads",
    "device": "training.device",
}
"""The setting of each argument of the constructor."""

FIXED: dict[str, Any] = {
    "task": "classification",
    # Every text counts, also a repeated one, or the only one of its class.
    "data.drop_duplicates": False,
    "data.smallest_class": 1,
    "tokenizer.normal_form": "sources",
    "tokenizer.byte_fallback": False,
    "model.initialisation": "xavier_scaled",
    "model.scale_embeddings": False,
    "model.final_norm": False,
    "training.schedule.kind": "linear",
}
"""Settings that are the same for all arguments, as in examples/trec.toml, which explains them."""

ON_CPU = "use the CPU: device='cpu'"
IN_PYTHON = {
    IF_DIVERGED: "lower learning_rate",
    IF_MEMORY_IS_FULL: f"lower max_length or use a smaller model, or {ON_CPU}",
    SMALLER: f"lower max_length, or {ON_CPU}",
    NONE_TO_TRAIN: "correct the texts",
    NONE_TO_VALIDATE: "give more texts, or raise validation_share",
    f"{IN_MEMORY}; {INSIST}": "give the texts first, then their labels: fit(texts, y)",
    ELSEWHERE: "choose another folder: folder='runs/other'",
    **{path: name for name, path in SETTINGS.items()},
}
"""What replaces advice about settings and commands, and paths of settings, in an error."""

VALIDATIONS = 20  # in a run, roughly
RISE = 10  # the warm-up is a tenth of the run
VERY_FEW = 100  # validation texts, on which too many weights have the same accuracy
PIECES = 4000  # of a vocabulary
SURVEYED = 10_000  # texts, from which the length and script of all are estimated


@dataclass(kw_only=True, eq=False)
class TextClassifier:
    """An encoder that learns the labels of texts: `fit`, `predict`, `predict_proba`, `score`.

        classifier = clearhead.TextClassifier(epochs=20).fit(texts, labels)
        classifier.predict(["How far is it to the moon ?"])

    It works in scikit-learn's `Pipeline`, `cross_val_score` and `GridSearchCV`. After `fit`,
    `classes_` are the labels (K,) in sorted order, and `model_` is a `Classifier`.

    Args:
        layers: number of encoder layers.
        d_model: width of the encoder and of its feed-forward networks.
        heads: number of attention heads; must divide `d_model`.
        convolution: width of the convolution over the embeddings, or several widths; 0: none.
        pooling: how the vectors of a text become one vector.
        words: True: whole words with their spelling; False: pieces of a BPE vocabulary. The
            default is words if spaces separate them and there are fewer than 20,000 short texts.
        vocabulary: maximum number of words or pieces; 0: all words, or 4,000 pieces, or more if
            the texts have many different characters.
        max_length: maximum words or pieces of a text; longer ones are cut.
        dropout: dropout in the encoder.
        head_dropout: dropout between the pooling and the labels.
        epochs: passes over the training data.
        batch_tokens: maximum words or pieces of a batch, padding included.
        learning_rate: the highest learning rate; it falls to zero at the end.
        validation_share: share of the texts that are held out to calibrate the probabilities and
            to select the best weights. If they are fewer than 1,000, the last weights are averaged.
        class_weights: "balanced" gives rare classes the same weight as frequent ones.
        seed: seed of all random numbers.
        threads: processor threads; 0: PyTorch's default, one per core.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        folder: model folder to write, for `clearhead.load`; a text classifier in it is replaced.
            By default no folder is kept.
        verbose: True prints the progress of `fit`, with the time left, and its validations.
    """

    layers: int = 1
    d_model: int = 300
    heads: int = 4
    convolution: int | Sequence[int] = (3, 4, 5)
    pooling: str | Sequence[str] = "maximum"
    words: bool | None = None
    vocabulary: int = 0
    max_length: int = 256
    dropout: float = 0.1
    head_dropout: float = 0.5
    epochs: int = 20
    batch_tokens: int = 1024
    learning_rate: float = 2e-3
    validation_share: float = 0.1
    class_weights: str = "none"
    seed: int = 1
    threads: int = 0
    device: str = "auto"
    folder: str | Path | None = None
    verbose: bool | int = False

    def fit(
        self, texts: Iterable[str], y: Iterable[Any], sample_weight: Iterable[float] | None = None
    ) -> TextClassifier:
        """Train on texts and their labels.

        If it fails, the classifier stays as it was.

        Args:
            texts: (N,).
            y: (N,), their labels, strings or numbers.
            sample_weight: (N,), how much the loss of each text counts relative to the others; by
                default all count the same. It has no effect on the validation.

        Raises:
            ConfigError: an argument of the constructor is wrong.
            InputError: the texts or labels cannot be used; it is a DataError and a ValueError.
            TrainingError: training diverged, or `folder` cannot be used.
            TypeError: `texts` or `y` is a single string.
            ClearheadError: the memory of the GPU is full.

        Warns:
            UserWarning: texts are empty and were left out, or are too long and were cut.
        """
        with TemporaryDirectory() as temporary, self._errors(temporary):
            texts, classes, numbers = _texts_and_labels(texts, y)
            if not any(texts):
                raise DataError("there are no texts, or all are empty")
            config = config_for(self.get_params(), texts, self.folder or temporary)
            _refuse_other_model(Path(config.folder))
            names = np.array(_names(classes))[numbers].tolist()
            weights = np.ones(len(texts))
            if sample_weight is not None:
                weights = _weights(sample_weight, len(texts))
            examples = list(zip(texts, names, weights.tolist(), strict=True))
            observers = [_Lines(sys.stdout)] if self.verbose and sys.stdout is not None else []
            ended = train(
                config, examples=examples, restart=True, observers=observers, resumable=False
            )
            if not ended.finished:
                raise KeyboardInterrupt
            model = load_classifier(config.folder, device=self.device, threads=self.threads)
            _warn_of_texts(Path(config.folder))
        self.classes_, self.model_ = classes, model
        return self

    def predict(self, texts: Iterable[str], *, normalise: bool = False) -> np.ndarray:
        """The most probable label of each text, (N,); arguments and errors as `predict_proba`."""
        probabilities = self.predict_proba(texts, normalise=normalise)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, texts: Iterable[str], *, normalise: bool = False) -> np.ndarray:
        """The calibrated probability of each label, (N, K), in the order of `classes_`.

        `normalise` brings the texts into the style of the training text first: case, tokenisation
        and quotation marks.

        Raises:
            ConfigError: the texts are to be normalised, and sacremoses is not installed.
            InputError: a text is not a string.
            NotTrainedError: `fit` was not called; with scikit-learn it is also a `NotFittedError`.
            TypeError: `texts` is a single string.
        """
        if not self.__sklearn_is_fitted__():
            raise _not_trained()
        order = [self.model_.labels.index(name) for name in _names(self.classes_)]
        with self._errors():
            return self.model_.probabilities(_cleaned(texts), normalise=normalise)[:, order]

    def score(
        self,
        texts: Iterable[str],
        y: Iterable[Any],
        sample_weight: Iterable[float] | None = None,
        *,
        normalise: bool = False,
    ) -> float:
        """The share of texts (N,) whose label in `y` (N,) is predicted, from 0 to 1.

        Texts count by `sample_weight` (N,). Errors and `normalise` are as for `predict_proba`.
        """
        with self._errors():
            texts, names, numbers = _texts_and_labels(texts, y)
            if not texts:
                raise DataError("there are no texts to score")
            weights = None if sample_weight is None else _weights(sample_weight, len(texts))
        predicted = self.predict(texts, normalise=normalise)
        return float(np.average(predicted == names[numbers], weights=weights))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> TextClassifier:
        """Change arguments of the constructor.

        Raises:
            ValueError: there is no such argument.
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"{name} is not one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @contextmanager
    def _errors(self, temporary: str | None = None) -> Iterator[None]:
        """Make errors name arguments instead of settings, and never the temporary folder.

        Errors in data become an `InputError`.
        """
        try:
            yield
        except DataError as error:
            parts = {"where": error.where, "why": _in_python(error.why)}
            raise InputError(error.what, **parts, todo=_in_python(error.todo)) from None
        except ClearheadError as error:
            if error.where == temporary:
                error.where = "TextClassifier"
            setting = (error.setting or "") if isinstance(error, ConfigError) else ""
            for name, path in SETTINGS.items():
                # model.dropout.embeddings is in model.dropout
                if f"{setting}.".startswith(f"{path}."):
                    error.where = f"TextClassifier({name}={getattr(self, name)!r})"
                    error.what = error.what.replace(setting, name)
            error.why, error.todo = _in_python(error.why), _in_python(error.todo)
            raise


def _in_python(text: str | None) -> str | None:
    """A part of an error with arguments instead of settings and commands."""
    for old, new in IN_PYTHON.items():
        text = text and text.replace(old, new)
    return text


class _Lines(PlainLines):
    """The lines of a run, without its folder, which is temporary by default."""

    def observe(self, event: Event) -> None:
        if isinstance(event, RunStarted | RunEnded):
            event = replace(event, folder="TextClassifier")
        super().observe(event)


def _not_trained() -> NotTrainedError:
    kind = NotTrainedError
    with suppress(ImportError):
        from sklearn.exceptions import NotFittedError

        kind = type("NotTrainedError", (NotTrainedError, NotFittedError), {})
    return kind("the classifier has not been trained", todo="call fit first")


def config_for(given: Mapping[str, Any], texts: Sequence[str], folder: str | Path) -> RunConfig:
    """The run that the arguments of a `TextClassifier` describe; a ConfigError if one is wrong."""
    # A parameter grid may hold numpy's numbers, or arrays.
    numpys = np.generic, np.ndarray
    given = {name: x.tolist() if isinstance(x, numpys) else x for name, x in given.items()}
    if given["epochs"] == 0:  # for a run it means no limit
        raise ConfigError("epochs must be at least 1", setting=SETTINGS["epochs"])
    surveyed = texts[:SURVEYED]
    scale = len(texts) / max(1, len(surveyed))
    side = survey_side(surveyed, scale)
    words = read_by_words(side, len(texts)) if given["words"] is None else given["words"]
    given["words"] = words
    settings: dict[str, Any] = FIXED | {path: given[name] for name, path in SETTINGS.items()}
    settings |= {
        "folder": str(folder),
        "tokenizer.kind": "words" if words else "bpe",
        "model.d_ff": given["d_model"],
        "model.character_ngrams": list(WORD_NGRAMS) if words else [],
        # The convolutions know which words are neighbours.
        "model.positions.kind": "none" if given["convolution"] else "sinusoidal",
    }
    if not words and not given["vocabulary"]:
        # Each character is a piece, and some scripts have thousands.
        settings["tokenizer.max_vocabulary"] = max(PIECES, pieces_for(side.alphabet))
    _config(settings)  # checks the numbers that the plan is computed from
    tokens = side.tokens
    if words:
        words_of = WordTokenizer((), split_punctuation=True).words_of
        tokens = scale * sum(len(words_of(text)) for text in surveyed)
    steps = given["epochs"] * max(1.0, tokens / given["batch_tokens"])
    validated = given["validation_share"] * len(texts)
    validations, averaged = validations_in(steps, VALIDATIONS)
    plan = {
        "training.schedule.warmup": warmup_of(int(steps), RISE),
        "training.validate_every": max(1, round(steps / validations)),
        "training.average_last": averaged,
        "training.keep": "average" if validated < FEW else "best",
        "evaluation.measure": "loss" if validated < VERY_FEW else "accuracy",
    }
    return _config(settings | plan)


def _config(settings: Mapping[str, Any]) -> RunConfig:
    """The run of settings by dotted path."""
    tree: dict[str, Any] = {}
    for path, value in settings.items():
        *sections, name = path.split(".")
        section = tree
        for each in sections:
            section = section.setdefault(each, {})
        section[name] = value
    return config_from(tree, where="TextClassifier")


def _refuse_other_model(folder: Path) -> None:
    """Check that the model in a folder, if there is one, is a text classifier."""
    with suppress(ModelFolderError):  # there is none, or it is damaged
        if (found := open_folder(folder, trained=False).config).kind is not Runs.TEXTS:
            raise TrainingError(
                "the folder has another model than a text classifier",
                where=folder,
                why=f"it is a model for {found.kind.in_words}, which would be removed",
                todo=ELSEWHERE,
            )


def _texts_and_labels(
    texts: Iterable[str], y: Iterable[Any] | None
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The texts, the distinct labels in sorted order, and the number of each text's label."""
    if y is None:
        raise DataError("TextClassifier requires y to be passed, but the target y is None")
    cleaned, labels = _cleaned(texts), items_of(y, "labels")
    if len(cleaned) != len(labels):
        raise DataError(f"there are {len(cleaned):,} texts and {len(labels):,} labels")
    for number, label in enumerate(labels, start=1):
        if label is None or (isinstance(label, float | np.floating) and np.isnan(label)):
            todo = "leave the examples without a label out, e.g. table.dropna(subset=['label'])"
            raise DataError(f"the label is {label}", where=f"example {number}", todo=todo)
    try:
        values = np.asarray(labels)
        if values.ndim != 1:
            raise ValueError(f"they have the shape {values.shape}")
        if len({isinstance(label, str) for label in labels}) > 1:
            raise ValueError("some are strings and some are not")
        if values.dtype.kind == "f" and not all(value.is_integer() for value in values):
            raise DataError("the labels are continuous numbers", todo=NO_REGRESSION)
        return cleaned, *np.unique(values, return_inverse=True)
    except (TypeError, ValueError) as error:
        what = "the labels are not a string or whole number for each text"
        todo = "give one label for each text: all strings, or all whole numbers"
        raise DataError(what, why=str(error), todo=todo) from None


def _names(classes: np.ndarray) -> list[str]:
    """The names of labels in the model folder."""
    names = [LABEL(str(value).strip()) for value in classes]
    if len(set(names)) < len(names):
        what = "two labels differ only in spaces or in the form of their characters"
        raise DataError(what, why=f"they are {[str(value) for value in classes]!a}")
    return names


def _cleaned(texts: Iterable[str]) -> list[str]:
    """The texts with single spaces for all white space."""
    return [" ".join(text.split()) for text in texts_of(texts)]


def _weights(values: Iterable[float], texts: int) -> np.ndarray:
    """The weight of each text, (texts,)."""
    try:
        weights = np.asarray(items_of(values, "sample_weight"), dtype=float)
        if weights.shape != (texts,):
            raise ValueError(f"it has the shape {weights.shape}, and there are {texts:,} texts")
        if not (weights >= 0).all() or not np.isfinite(weights.sum()):
            raise ValueError("a weight is negative or not finite")
        if not weights.any():
            raise ValueError("all weights are zero")
    except (TypeError, ValueError) as error:
        what = "sample_weight is not a weight for each text"
        raise DataError(what, where="sample_weight", why=str(error)) from None
    return weights


def _warn_of_texts(folder: Path) -> None:
    training_report, *_ = open_folder(folder).tree(PROVENANCE)["reports"]
    for finding in training_report["findings"]:
        if finding["left_out"] or finding["rule"] == "long":
            done = "left out" if finding["left_out"] else "cut"
            warn(f"texts that were {done}: {finding['count']:,} ({finding['text']})")
