"""A text classifier with the interface of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from clearhead.api.classifier import is_missing, items_of, texts_of
from clearhead.api.estimator import FIXED, SETTINGS, Estimator, Inputs
from clearhead.errors import ConfigError
from clearhead.settings.declare import Runs


@dataclass(kw_only=True, eq=False, repr=False)
class TextClassifier(Estimator):
    """An encoder that learns the labels of texts: `fit`, `predict`, `predict_proba`, `score`.

        classifier = clearhead.TextClassifier(epochs=20).fit(texts, labels)
        classifier.predict(["How far is it to the moon ?"])

    It works in scikit-learn's `Pipeline`, `ColumnTransformer`, `cross_val_score` and
    `GridSearchCV`. Texts are a list, an array, a column, or a table with one column. After `fit`,
    `classes_` are the labels (K,) in sorted order, and `model_` is a `Classifier`. What is not
    given is chosen for the texts, as `clearhead init` does.

    Args:
        words: True: whole words with their spelling; False: pieces of a BPE vocabulary. The
            default is words if spaces separate them and there are fewer than 20,000 texts with at
            most two million words.
        vocabulary: maximum number of words or pieces.
        layers: number of encoder layers.
        d_model: width of the encoder; if it is given, its feed-forward networks are twice as wide.
        heads: number of attention heads; must divide `d_model`.
        convolution: width of the convolution over the embeddings, or several widths; 0: none.
        pooling: how the vectors of a text become one vector.
        ngrams: most n-grams of a linear model (a support vector machine of TF-IDF) beside the
            encoder; 0: none. It decides where there are few texts.
        max_length: maximum words or pieces of a text; longer ones are cut.
        dropout: dropout in the encoder.
        head_dropout: dropout between the pooling and the labels.
        epochs: passes over the training data.
        batch_tokens: maximum words or pieces of a batch, padding included.
        learning_rate: the highest learning rate; it falls to zero at the end.
        validation_share: share of the texts that are held out to calibrate the probabilities and
            to select the best weights.
        class_weight: "balanced" gives rare classes the same weight as frequent ones in the loss of
            the encoder; a mapping gives the weight of each label, also for the n-grams.
        missing: None and NaN among the texts; "refuse": an error; "empty": an empty text, which is
            left out in training.
        start_from: a model folder, or a model of Hugging Face, whose encoder is trained further.
        random_state: seed of all random numbers: a number, a generator of numpy, or None for
            another one each time.
        threads: processor threads; 0: PyTorch's default, one per core.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        verbose: True prints the progress of `fit`, with the time left, and its validations.
    """

    words: bool | None = None
    vocabulary: int | None = None
    ngrams: int | None = None

    kind: ClassVar[Runs] = Runs.TEXTS
    settings = SETTINGS | {"vocabulary": "tokenizer.max_vocabulary", "ngrams": "classifier.ngrams"}

    def _fixed(self) -> Mapping[str, Any]:
        if self.start_from:
            return FIXED
        return FIXED | {"tokenizer.normal_form": "sources"}

    def _inputs(self, X: Any, is_fitting: bool) -> Inputs:  # noqa: N803
        if self.missing not in ("refuse", "empty"):
            raise ConfigError(
                'missing is not "refuse" or "empty"',
                where=f"TextClassifier(missing={self.missing!r})",
            )
        where = f"TextClassifier(words={self.words!r})"
        if not isinstance(self.words, bool | np.bool_ | None):
            raise ConfigError("words is not True, False or None", where=where)
        if self.words is not None and self.start_from:
            what = "the model of start_from has its own vocabulary"
            raise ConfigError(what, where=where, todo="leave words out")
        # All white space becomes single spaces.
        texts = texts_of(_column(X, self.missing == "empty"))
        return Inputs([" ".join(text.split()) for text in texts])


def _column(X: Any, fills: bool) -> Any:  # noqa: N803
    """The only column of a table that has one, with "" for what is missing if it `fills`."""
    columns = getattr(X, "columns", None)
    if columns is not None and getattr(X, "ndim", 2) == 2 and len(columns) == 1:
        X = X[columns[0]]  # noqa: N806
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == 1:
        X = X[:, 0]  # noqa: N806
    if fills and not isinstance(X, str | bytes):
        return ["" if is_missing(each) else each for each in items_of(X, "texts")]
    return X
