"""A text classifier with the manners of scikit-learn, on which it does not depend."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.api.class_names import classes_of, names_of
from clearhead.api.classifier import Classifier
from clearhead.api.items import items_of, texts_of
from clearhead.api.loading import load_classifier
from clearhead.api.text_errors import MODEL, told_of_texts
from clearhead.api.text_run import run_on_texts
from clearhead.api.training import train
from clearhead.checkpoint import read_json
from clearhead.config import RunConfig
from clearhead.errors import DataError, NotTrainedError, warn

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from sklearn.utils.metadata_routing import MetadataRequest


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
