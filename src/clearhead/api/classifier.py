"""The items of what people give: a list, a generator, a column of a table; but no table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint import ModelFolder
from clearhead.data.labelled import Labelled
from clearhead.data.labels import Labels
from clearhead.errors import DataError, warn
from clearhead.settings import RunConfig

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from clearhead.data.inputs import Inputs
    from clearhead.decoding.torch_engine import ClassifierEngine
    from clearhead.model.transformer import EncoderClassifier


def items_of(values: Iterable[Any], what: str, *, arrays: bool = False) -> list[Any]:
    """The items in their order: of a column of a table not in that of its index.

    Args:
        values: to be listed.
        what: they are called in a message ("texts").
        arrays: whether an item may be an array, so that all may lie in one of more dimensions.

    Raises:
        DataError: it is a table or a mapping, whose items are but the names of its columns.
        TypeError: it is a single string or example.
    """
    if isinstance(values, str | bytes | Labelled):
        one = "example" if isinstance(values, Labelled) else "string"
        raise TypeError(f"{what} is a single {one}: give a list of {what}")
    # A column of a table, whose index may have any names, has one dimension.
    has_columns = hasattr(values, "columns") and getattr(values, "ndim", 2) != 1
    too_many = not arrays and getattr(values, "ndim", 1) != 1
    if isinstance(values, Mapping) or has_columns or too_many:
        shape = getattr(values, "shape", None)
        raise DataError(
            f"the {what} are not a list but {f'of shape {tuple(shape)}' if shape else 'a table'}",
            todo=f"give one column, e.g. table['{what.removesuffix('s')}']",
        )
    return list(values)


def texts_of(values: Iterable[str]) -> list[str]:
    """As `items_of`, of texts.

    Raises:
        DataError: one is no string, or as in `items_of`.
        TypeError: it is a single string.
    """
    texts = items_of(values, "texts")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise DataError(f"text {number} is a {type(text).__name__}, not a string")
    return texts


# ---- api.classifier
# A trained classifier, from texts or features to labels.


@dataclass(frozen=True)
class Prediction:
    """A label and its probability; `str(prediction)` is the label."""

    label: str
    probability: float

    def __str__(self) -> str:
        return self.label


class Classifier:
    """A trained classifier.

    Args:
        folder: its model folder, read.
        inputs: makes numbers of what is to be classified.
        labels: that it knows.
        engine: what runs it.
        temperature: what its logits are divided by, fitted on the validation data (Guo et al.
            2017).
    """

    def __init__(
        self,
        folder: ModelFolder,
        inputs: Inputs,
        labels: Labels,
        engine: ClassifierEngine,
        temperature: float,
    ) -> None:
        self.folder = folder
        self.inputs = inputs
        self.label_set = labels
        self.engine = engine
        self.temperature = temperature

    @property
    def config(self) -> RunConfig:
        """The configuration it was trained with."""
        return self.folder.config

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels it knows, in the order of the probabilities."""
        return self.label_set.names

    @property
    def model(self) -> EncoderClassifier:
        """The model itself."""
        return self.engine.model

    def encode(self, source: Any) -> tuple[Tensor, tuple[str, ...]]:
        """Ids (length,) or features (length, width): what the model reads, and its places' names.

        Ids are (length, 1 + most) where words are spelt by their character n-grams.

        Raises:
            DataError: it is not of the kind that the classifier reads.

        Warns:
            UserWarning: it is longer than what the classifier reads, and was cut.
        """
        example = _example(source, "the input")
        (row,) = self._rows([example])
        return self.inputs.collate([row])[0], self.inputs.names(example, row)

    def classify(
        self,
        inputs: Iterable[Any],
        *,
        top: int | None = None,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        offset: int = 0,
    ) -> list[list[Prediction]]:
        """The likeliest labels of each input, best first.

        Args:
            inputs: texts, or arrays (frames, features), or `Labelled` examples of either, whose
                features then go by the names of their columns. An empty text has no label.
            top: labels given for each, whatever their probability. By default the likeliest one;
                where an example may have several labels, those with a probability of at least one
                half, however many: none too. (What tells that from an empty text is `top=1`.)
            batch_size: inputs at a time, at most.
            progress: told how many inputs are done.
            offset: how many came before these, where a stream is classified in blocks.

        Raises:
            DataError: an input is not of the kind that the classifier reads, or `top` or
                `batch_size` is no whole number of at least 1, or the inputs are a table.
            TypeError: `inputs` is a single string or example.

        Warns:
            UserWarning: an input is longer than what the classifier reads, and was cut.
        """
        if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 1):
            what = f"top = {top!r} is not a number of labels"
            raise DataError(what, where="classify", todo="give a whole number of at least 1")
        inputs = items_of(inputs, "inputs", arrays=True)
        probabilities = self.probabilities(
            inputs, batch_size=batch_size, progress=progress, offset=offset
        )
        return [
            [] if is_empty(raw) else self._best(row, top)
            for raw, row in zip(inputs, probabilities, strict=True)
        ]

    def probabilities(
        self,
        inputs: Iterable[Any],
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        offset: int = 0,
    ) -> np.ndarray:
        """The calibrated probability of each label, (inputs, labels); arguments as `classify`."""
        from clearhead.evaluation.calibration import probabilities

        logits = self.logits(inputs, batch_size=batch_size, progress=progress, offset=offset)
        return probabilities(logits, self.temperature, self.config.classifier.multi_label)

    def logits(
        self,
        inputs: Iterable[Any],
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        offset: int = 0,
    ) -> np.ndarray:
        """What the model gives for each label, (inputs, labels); arguments as `classify`."""
        from clearhead.decoding.engine import check_batch_size

        check_batch_size(batch_size, "inputs", "classify", DataError)
        rows = self._rows(
            [
                _example(raw, f"input {number}")
                for number, raw in enumerate(
                    items_of(inputs, "inputs", arrays=True), start=offset + 1
                )
            ]
        )
        return self.engine.logits(
            rows, self.inputs.collate, batch_size=batch_size, progress=progress
        )

    def _rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        """Each example as numbers, however long; a warning says which will be cut."""
        rows = self.inputs.rows(examples)
        longest = self.config.data.max_length
        for example, row in zip(examples, rows, strict=True):
            if len(row) > longest:
                has = f"{example.place} has {len(row)} {self.inputs.unit}"
                warn(f"{has} and was cut to {longest}")
        return rows

    def _best(self, probabilities: np.ndarray, top: int | None) -> list[Prediction]:
        from clearhead.evaluation.calibration import THRESHOLD

        order = (-probabilities).argsort(kind="stable")
        if top is None and self.config.classifier.multi_label:
            order = [i for i in order if probabilities[i] >= THRESHOLD]
        else:
            order = order[: top or 1]
        return [Prediction(self.labels[i], float(probabilities[i])) for i in order]


def is_empty(raw: Any) -> bool:
    """Whether there is nothing to classify."""
    content = raw.input if isinstance(raw, Labelled) else raw
    return isinstance(content, str) and not content.strip()


def _example(raw: Any, name: str) -> Labelled:
    return raw if isinstance(raw, Labelled) else Labelled(raw, (), name)
