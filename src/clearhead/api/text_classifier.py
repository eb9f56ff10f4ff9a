"""The labels that a text classifier is given, and their names in a model folder."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.api.classifier import Classifier, items_of, texts_of
from clearhead.api.loading import load_classifier
from clearhead.api.training import train
from clearhead.checkpoint import read_json
from clearhead.data.labelled import refuse_unnamable
from clearhead.data.proposal_classification import FEW, WORD_NGRAMS, read_by_words
from clearhead.data.survey import Side, SideCounter, pieces_for
from clearhead.errors import ClearheadError, ConfigError, DataError, NotTrainedError, warn
from clearhead.settings import RunConfig, config_from
from clearhead.tasks.classification import SMALLER
from clearhead.tokenizer import WordTokenizer
from clearhead.training.loop import ADVICE
from clearhead.training.step import SLOWER

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from sklearn.utils.metadata_routing import MetadataRequest


def classes_of(labels: Iterable[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The distinct labels, sorted, and for each text the number of its label.

    Raises:
        DataError: a label is missing, or they are not all strings or all numbers.
    """
    labels = list(labels)
    _check_labels(labels)
    try:
        values = np.asarray(labels)
        if values.ndim != 1:
            raise ValueError(f"they have the shape {values.shape}")
        return np.unique(values, return_inverse=True)
    except (TypeError, ValueError) as error:
        what = "the labels are not one string or number for each text"
        raise DataError(what, why=str(error)) from None


def _check_labels(labels: Sequence[Any]) -> None:
    """Refuse what numpy would silently make strings of."""
    for number, label in enumerate(labels, start=1):
        if label is None or (isinstance(label, float | np.floating) and math.isnan(label)):
            raise DataError(
                f"the label of text {number} is missing",
                why=f"it is {label}",
                todo="give the text a label, or leave it out",
            )
        if isinstance(label, str) != isinstance(labels[0], str):
            raise DataError(
                "some labels are strings and some are not",
                why=f"that of text 1 is a {type(labels[0]).__name__}, "
                f"that of text {number} a {type(label).__name__}",
                todo="make all of them strings, or none",
            )


def names_of(classes: np.ndarray) -> list[str]:
    """The labels as the model folder has them.

    Raises:
        DataError: one is empty or cannot stand in a file, or two are written alike.
    """
    names = [str(value).strip() for value in classes]
    for name in names:
        refuse_unnamable(name)
    if len(set(names)) < len(names) or not all(names):
        raise DataError("a label is empty, or two are written alike", why=f"they are {names}")
    return names


# ---- api.text_errors
# What a run finds wrong, in the words of whoever called `TextClassifier.fit`.
#
# The run has settings and reads a file; the caller has arguments and a list of texts.

MODEL = "model"
"""The model folder beside the file of the texts, where none is to be kept."""

ARGUMENTS = {
    "data.max_length": "max_length",
    "data.validation_share": "validation_share",
    "tokenizer.max_vocabulary": "vocabulary",
    "model.encoder_layers": "layers",
    "model.d_model": "d_model",
    "model.n_heads": "heads",
    "n_heads": "heads",
    "model.input_convolution": "convolution",
    "model.dropout.embeddings": "dropout",
    "model.dropout": "dropout",
    "classifier.pooling": "pooling",
    "classifier.dropout": "head_dropout",
    "classifier.class_weights": "class_weights",
    "training.max_epochs": "epochs",
    "training.batch_tokens": "batch_tokens",
    "training.schedule.peak": "learning_rate",
}
"""The argument of the constructor behind each setting that a message may speak of."""

ON_CPU = "start Python with CUDA_VISIBLE_DEVICES= for the CPU"
SENTENCES = {
    # What a run can be told, and a classifier of texts cannot.
    "--set folder=runs/other": "folder='runs/other'",
    "name validation files, ": "",
    ", or give d_k": "",
    SLOWER: "lower learning_rate",
    ADVICE: f"lower batch_tokens, or {ON_CPU}",
    SMALLER: f"lower max_length, or {ON_CPU}",
}
"""What is said to the caller instead of words that are meant for who started a run."""

# By itself: neither a part of a path or of another name, nor a value in quotes.
_SETTING = re.compile(
    r"(?<![\w./'\"])("
    + "|".join(re.escape(each) for each in sorted(ARGUMENTS, key=len)[::-1])
    + r")(?![\w'\"]|/\w|\.[^\W\d])"
)


@contextmanager
def told_of_texts(data: Path) -> Iterator[None]:
    """Errors within speak of texts by their number, from 1, and of arguments by their names.

    Args:
        data: the file whose line N has text N, in a folder that is deleted.

    Raises:
        ClearheadError: of the kind that was raised within.
    """
    try:
        yield
    except ClearheadError as error:
        what, why, todo = (
            part and _told(part, data) for part in (error.what, error.why, error.todo)
        )
        where = error.where and _placed(error.where, data)
        raise type(error)(what or "", where=where, why=why, todo=todo) from None


def _told(message: str, data: Path) -> str:
    message = _placed(message, data)
    for sentence, instead in SENTENCES.items():
        message = message.replace(sentence, instead)
    return _SETTING.sub(lambda setting: ARGUMENTS[setting[0]], message)


def _placed(message: str, data: Path) -> str:
    """The message without the files that are deleted when `fit` ends."""
    # A finding calls the file by its name alone.
    for name in (str(data), data.name):
        message = re.sub(rf"(?<![\w./]){re.escape(name)}:(\d+)", r"text \1", message)
    for path in (data, data.parent / MODEL):
        message = message.replace(str(path), "fit")
    return message


# ---- api.text_run
# The run that the arguments of a `TextClassifier` describe.
#
# The model is that of examples/trec.toml, where it is said what each setting is for, and nearly as
# wide; punctuation, which stands apart there, is split off.

VALIDATIONS = 20  # in a run, roughly
VERY_FEW = 100  # validation texts, of which too many weights have the same accuracy to compare by
PIECES = 4000  # of a vocabulary
LOOKED_AT = 10_000  # texts, to see what all are like


def run_on_texts(
    given: Mapping[str, Any], data: Path, folder: Path, texts: Sequence[str]
) -> RunConfig:
    """The configuration that is meant.

    Args:
        given: the arguments by name.
        data: the file with the texts and their labels.
        folder: where the model is to be.
        texts: those of the file.

    Raises:
        ConfigError: an argument cannot be used.
    """
    text = _look_at(texts)
    words = read_by_words(text, len(texts)) if given["words"] is None else given["words"]
    if not isinstance(words, bool):
        what = f"words is {words!r}, not True, False or None"
        raise ConfigError(what, where="TextClassifier")
    if given["epochs"] == 0:  # to a run it is no limit
        raise ConfigError("epochs must be at least 1", where="TextClassifier")
    # Each character is a piece, and of some scripts there are thousands.
    pieces = max(PIECES, pieces_for(text.alphabet))
    tree: dict[str, Any] = {
        "task": "classification",
        "folder": str(folder),
        "seed": given["seed"],
        "data": {
            "train": [str(data)],
            "validation_share": given["validation_share"],
            "max_length": given["max_length"],
            # Each text counts that was given, however often, and however rare its label.
            "drop_duplicates": False,
            "smallest_class": 1,
        },
        "tokenizer": {
            "kind": "words" if words else "bpe",
            "split_punctuation": words,
            "max_vocabulary": given["vocabulary"] if words else given["vocabulary"] or pieces,
            "byte_fallback": False,
        },
        "model": _model(given, words),
        "classifier": {
            "pooling": given["pooling"],
            "dropout": given["head_dropout"],
            "class_weights": given["class_weights"],
        },
    }
    # The types first: what is planned reckons with these numbers.
    config_from(tree | _given_training(given), where="TextClassifier")
    tokens = _words_in(texts) if words else text.tokens
    tree |= _training(given, tokens, len(texts))
    return config_from(tree, where="TextClassifier")


def _model(given: Mapping[str, Any], words: bool) -> dict[str, Any]:
    return {
        "encoder_layers": given["layers"],
        "n_heads": given["heads"],
        "d_model": given["d_model"],
        "d_ff": given["d_model"],
        "dropout": given["dropout"],
        "input_convolution": given["convolution"],
        "character_ngrams": list(WORD_NGRAMS) if words else [],
        "initialisation": "xavier_scaled",
        "scale_embeddings": False,
        "final_norm": False,
        # The convolutions know what stands beside what.
        "positions": {"kind": "none" if given["convolution"] else "sinusoidal"},
    }


def _given_training(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "training": {
            "batch_tokens": given["batch_tokens"],
            "max_epochs": given["epochs"],
            "schedule": {"kind": "linear", "peak": given["learning_rate"]},
        }
    }


def _training(given: Mapping[str, Any], tokens: float, texts: int) -> dict[str, Any]:
    steps = given["epochs"] * max(1.0, tokens / given["batch_tokens"])
    validated = given["validation_share"] * texts
    training = _given_training(given)["training"]
    schedule = training["schedule"] | {"warmup": round(steps / 10)}
    planned = {
        "validate_every": max(1, round(steps / VALIDATIONS)),
        "keep": "average" if validated < FEW else "best",
        "schedule": schedule,
    }
    return {
        "training": training | planned,
        "evaluation": {"measure": "loss" if validated < VERY_FEW else "accuracy"},
    }


def _words_in(texts: Sequence[str]) -> float:
    """The words of all texts, roughly, marks before and behind a word among them."""
    reader, seen = WordTokenizer((), split_punctuation=True), texts[:LOOKED_AT]
    return len(texts) / max(1, len(seen)) * sum(len(reader.words_of(text)) for text in seen)


def _look_at(texts: Sequence[str]) -> Side:
    """What the texts look like together."""
    counter = SideCounter()
    for text in texts[:LOOKED_AT]:
        counter.count(text)
    return counter.side(len(texts) / max(1, counter.lines))


# ---- api.text_classifier
# A text classifier with the manners of scikit-learn, on which it does not depend.


@dataclass(kw_only=True, eq=False)
class TextClassifier:
    """An encoder that learns the labels of texts: `fit`, `predict`, `predict_proba`, `score`.

        classifier = clearhead.TextClassifier(epochs=20).fit(texts, labels)
        classifier.predict(["How far is it to the moon ?"])

    It can stand in scikit-learn's `Pipeline` and be scored by `cross_val_score`.

    Args:
        layers: of the encoder.
        d_model: its width, and that of its feed-forward networks.
        heads: of each attention; `d_model` is a multiple of it.
        convolution: width of the convolution over the embeddings, or several widths; 0: none.
        pooling: how the encoder's vectors become one.
        words: True reads whole words, each known by how it is spelt too; False reads the pieces
            of a BPE vocabulary. By default words where spaces part them, and the texts are short
            and fewer than 20,000.
        vocabulary: words or pieces, at most; 0: all words, or 4,000 pieces, and more where there
            are many different characters.
        max_length: words or pieces of a text that are read; `fit` passes over longer texts.
        dropout: within the encoder.
        head_dropout: between the pooling and the labels.
        epochs: passes through the training data.
        batch_tokens: of a batch, padding included.
        learning_rate: the highest; it falls to zero at the end.
        validation_share: of the texts, held out to calibrate by, and to pick the best weights;
            where they are fewer than 1,000, the average of the last weights is kept.
        class_weights: "balanced" makes rare classes count as much as common ones.
        seed: all that is random follows from it.
        folder: a model folder to keep, for `clearhead.load`; what it held before is replaced.
            By default none is kept.
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
    folder: str | Path | None = None

    def fit(self, texts: Iterable[str], labels: Iterable[Any]) -> TextClassifier:
        """Train on texts (N,) and their labels (N,), which may be strings or numbers.

        What was learned before stays if this fails.

        Raises:
            ConfigError: an argument of the constructor cannot be used.
            DataError: texts and labels are not as many, a label is missing, or they cannot be
                learned from.
            TrainingError: what is in the folder is not a run's, or it cannot be written.
            TypeError: `texts` or `labels` is a single string.

        Warns:
            UserWarning: texts are empty or too long, and were not learned from.
        """
        texts = _cleaned(texts)
        classes, numbers = classes_of(items_of(labels, "labels"))
        _check_counts(len(texts), len(numbers))
        if not any(texts):
            what = "all texts are empty" if texts else "there are no texts to learn from"
            raise DataError(what, where="fit", todo="give texts, and a label for each")
        names = names_of(classes)
        with TemporaryDirectory() as temporary:
            data = Path(temporary) / "train.jsonl"
            with data.open("w", encoding="utf-8") as file:
                for text, number in zip(texts, numbers, strict=True):
                    file.write(json.dumps({"text": text, "label": names[number]}) + "\n")
            folder = Path(temporary) / MODEL if self.folder is None else Path(self.folder)
            with told_of_texts(data):
                run = self._run(data, folder, texts)
                ended = train(run, restart=True, observers=())
            if not ended.finished:
                raise KeyboardInterrupt
            model = load_classifier(run.folder)
            _warn_of_texts_left_out(Path(run.folder))
        self.classes_, self.model_ = classes, model
        return self

    def predict(self, texts: Iterable[str]) -> np.ndarray:
        """The likeliest label of each text, (N,)."""
        probabilities = self.predict_proba(texts)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, texts: Iterable[str]) -> np.ndarray:
        """The calibrated probability of each label, (N, labels), in the order of `classes_`.

        Raises:
            DataError: a text is not a string.
            NotTrainedError: nothing was learned yet.
            TypeError: `texts` is a single string.
        """
        model = self._fitted()
        order = [model.labels.index(name) for name in names_of(self.classes_)]
        return model.probabilities(_cleaned(texts))[:, order]

    def score(
        self,
        texts: Iterable[str],
        labels: Iterable[Any],
        sample_weight: Iterable[float] | None = None,
    ) -> float:
        """The share of texts whose label is right, from 0 to 1.

        Weights are for scores alone: `fit` takes none.

        Args:
            texts: (N,).
            labels: (N,), the right ones.
            sample_weight: (N,), how much each text counts; by default all count the same.

        Raises:
            DataError: texts and labels are not as many, or there are none, or the labels are not
                one string or number for each text, or the weights are none of these texts.
        """
        texts, labels = _cleaned(texts), items_of(labels, "labels")
        _check_counts(len(texts), len(labels))
        if not texts:
            raise DataError("there are no texts to score")
        names, numbers = classes_of(labels)
        weights = None if sample_weight is None else _weights(sample_weight, len(texts))
        return float(np.average(self.predict(texts) == names[numbers], weights=weights))

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
                raise ValueError(f"{name} is none of {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False, string=True),
        )

    def get_metadata_routing(self) -> MetadataRequest:
        """To scikit-learn, where it passes arguments on: `score` takes weights that it is given."""
        from sklearn.utils.metadata_routing import MetadataRequest

        # By name: a request is copied, and with it what it holds, be it a whole model.
        request = MetadataRequest(owner=type(self).__name__)
        request.score.add_request(param="sample_weight", alias=True)
        return request

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _run(self, data: Path, folder: Path, texts: Sequence[str]) -> RunConfig:
        given = self.get_params()
        # A grid of values may hold numpy's numbers, or arrays.
        numpys = np.generic, np.ndarray
        given |= {name: x.tolist() for name, x in given.items() if isinstance(x, numpys)}
        return run_on_texts(given, data, folder, texts)

    def _fitted(self) -> Classifier:
        if not hasattr(self, "model_"):
            raise NotTrainedError("the classifier has not been trained", todo="call fit first")
        return self.model_


def _cleaned(texts: Iterable[str]) -> list[str]:
    """Texts with single spaces for all white space."""
    return [" ".join(text.split()) for text in texts_of(texts)]


def _check_counts(texts: int, labels: int) -> None:
    if texts != labels:
        raise DataError(f"there are {texts:,} texts and {labels:,} labels")


def _weights(values: Iterable[float], texts: int) -> np.ndarray:
    """What each text counts for, (texts,)."""
    try:
        weights = np.asarray(items_of(values, "sample_weight"), dtype=float)
        if weights.shape != (texts,):
            raise ValueError(f"there are {texts:,} texts and weights of shape {weights.shape}")
        if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            raise ValueError("a weight is negative or not finite, or all are 0")
    except (TypeError, ValueError) as error:
        what = "sample_weight is not a number for each text"
        raise DataError(what, where="score", why=str(error)) from None
    return weights


def _warn_of_texts_left_out(folder: Path) -> None:
    on_training, *_ = read_json(folder / "provenance.json")["reports"]
    for finding in on_training["findings"]:
        if finding["left_out"]:
            found = f"{finding['count']:,} ({finding['text']})"
            warn(f"texts that were not learned from: {found}")
