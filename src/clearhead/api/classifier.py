"""A trained classifier, from texts or features to labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint import ModelFolder, read_json
from clearhead.config import RunConfig
from clearhead.data.labelled import Labelled
from clearhead.data.labels import Labels
from clearhead.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from clearhead.engines.classifier_engine import ClassifierEngine
    from clearhead.model.transformer import EncoderClassifier
    from clearhead.tasks.inputs import Inputs


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
    """

    def __init__(
        self, folder: ModelFolder, inputs: Inputs, labels: Labels, engine: ClassifierEngine
    ) -> None:
        self.folder = folder
        self.inputs = inputs
        self.label_set = labels
        self.engine = engine

    @property
    def config(self) -> RunConfig:
        """The configuration it was trained with."""
        return self.folder.config

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels it knows, in the order of the probabilities."""
        return self.label_set.names

    @cached_property
    def temperature(self) -> float:
        """What its logits are divided by, fitted on the validation data (Guo et al. 2017)."""
        return float(read_json(self.folder.path / "scores.json")["scores"]["temperature"])

    @property
    def model(self) -> EncoderClassifier:
        """The model itself."""
        return self.engine.model

    def encode(self, source: Any) -> tuple[Tensor, tuple[str, ...]]:
        """What the model reads of an input, ids (length,) or features (length, width), by name.

        Raises:
            DataError: it is not of the kind that the classifier reads.
        """
        (row,) = self.inputs.rows([Labelled(source, (), "the input")])
        return self.inputs.collate([row])[0], self.inputs.names(row)

    def classify(
        self,
        inputs: Sequence[Any],
        *,
        top: int = 1,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        offset: int = 0,
    ) -> list[list[Prediction]]:
        """The likeliest labels of each input, best first.

        Where an example may have several labels, those with a probability of at least one half
        come, however many; `top` > 1 then gives that many whatever their probability.

        Args:
            inputs: texts, or arrays (frames, features); an empty text has no label.
            top: labels wanted of each.
            batch_size: inputs at a time, at most.
            progress: told how many inputs are done.
            offset: how many came before these, where a stream is classified in blocks.

        Raises:
            DataError: an input is not of the kind that the classifier reads.
            TypeError: `inputs` is a single string.

        Warns:
            UserWarning: an input is longer than what the classifier reads, and was cut.
        """
        if top < 1:
            raise DataError(f"top = {top} is not a number of labels", todo="give at least 1")
        probabilities = self.probabilities(
            inputs, batch_size=batch_size, progress=progress, offset=offset
        )
        return [
            [] if is_empty(raw) else self._best(row, top)
            for raw, row in zip(inputs, probabilities, strict=True)
        ]

    def probabilities(
        self,
        inputs: Sequence[Any],
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        offset: int = 0,
    ) -> np.ndarray:
        """The calibrated probability of each label, (inputs, labels); arguments as `classify`."""
        from clearhead.tasks.calibration import probabilities

        logits = self.logits(inputs, batch_size=batch_size, progress=progress, offset=offset)
        return probabilities(logits, self.temperature, self.config.classifier.multi_label)

    def logits(
        self,
        inputs: Sequence[Any],
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        offset: int = 0,
    ) -> np.ndarray:
        """What the model gives for each label, (inputs, labels); arguments as `classify`."""
        if isinstance(inputs, str):
            raise TypeError("inputs is a single string: give a list of texts")
        rows = self.inputs.rows(
            [Labelled(raw, (), f"input {offset + i}") for i, raw in enumerate(inputs, start=1)]
        )
        longest = self.config.data.max_length
        for number, row in enumerate(rows, start=offset + 1):
            if len(row) > longest:
                message = f"input {number} has {len(row)} places and was cut to {longest}"
                warnings.warn(message, stacklevel=3)
        return self.engine.logits(
            rows, self.inputs.collate, batch_size=batch_size, progress=progress
        )

    def _best(self, probabilities: np.ndarray, top: int) -> list[Prediction]:
        order = (-probabilities).argsort(kind="stable")
        if self.config.classifier.multi_label and top == 1:
            order = [i for i in order if probabilities[i] >= 0.5]
        else:
            order = order[:top]
        return [Prediction(self.labels[i], float(probabilities[i])) for i in order]


def is_empty(raw: Any) -> bool:
    """Whether there is nothing to classify."""
    return isinstance(raw, str) and not raw.strip()
