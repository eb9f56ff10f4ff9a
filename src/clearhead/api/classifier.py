"""A trained classifier of texts or features, and the checks of lists that callers pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

from clearhead.data.judging.text_style import InputStyle
from clearhead.data.labels import Labels
from clearhead.data.reading.labelled import Labelled, feature_names
from clearhead.errors import ConfigError, DataError, Remark, type_of, warn_of_texts
from clearhead.folder.model_folder import ModelFolder
from clearhead.settings import RunConfig
from clearhead.tokenizer.normal_form import is_blank

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from clearhead.data.inputs import Inputs
    from clearhead.decoding.torch_engine import ClassifierEngine
    from clearhead.evaluation.class_scores import ClassifierScores
    from clearhead.evaluation.evaluate import Report
    from clearhead.model.transformer import EncoderClassifier


LEAVE_OUT = "leave the rows without a text out, e.g. table.dropna(subset=['text'])"


@dataclass(frozen=True)
class Prediction:
    """A label and its probability; `str(prediction)` is the label.

        best = classifier.classify(["How far is it to the moon ?"])[0][0]
        best.label, best.probability

    `warnings` has the warnings about the input, as `(kind, text)`.
    """

    label: str
    probability: float
    warnings: tuple[Remark, ...] = ()

    def __str__(self) -> str:
        return self.label


class Classifier:
    """A trained classifier.

        classifier = clearhead.load("runs/my-classifier")
        classifier.classify(["How far is it to the moon ?"])

    Args:
        folder: its model folder.
        inputs: turns texts or features into numbers.
        labels: the labels, in the order of the logits.
        engine: runs the model.
        temperature: divides the logits; fitted on the validation data (Guo et al. 2017).
        thresholds: of several labels, the probability from which each is predicted.
        ablated: which heads are switched off, for people; empty if none is.
    """

    def __init__(
        self,
        folder: ModelFolder,
        inputs: Inputs,
        labels: Labels,
        engine: ClassifierEngine,
        temperature: float,
        thresholds: Sequence[float],
        ablated: str = "",
    ) -> None:
        # Imported here because it loads torch.
        from clearhead.data.inputs import TextInputs

        self.folder = folder
        self.inputs = inputs
        self.label_set = labels
        self.engine = engine
        self.temperature = temperature
        self.thresholds = thresholds
        self.ablated = ablated
        self._style = None
        if isinstance(inputs, TextInputs):
            self._style = InputStyle.load(folder, "text", inputs.tokenizer)

    @property
    def config(self) -> RunConfig:
        """The configuration of its training."""
        return self.folder.config

    @property
    def multi_label(self) -> bool:
        """Whether an input may have several labels, or none."""
        return self.config.classifier.multi_label

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in the order of the probabilities."""
        return self.label_set.names

    @property
    def model(self) -> EncoderClassifier:
        """The PyTorch model."""
        return self.engine.model

    def normalised(self, text: str) -> str:
        """A text in the style of the training text, as `classify` reads it."""
        assert self._style is not None, "it reads features"
        return self._style.read([text], True, self.config.data.max_length)[0][0]

    def encode(self, source: Any) -> tuple[Tensor, tuple[str, ...]]:
        """The input of the model, and the names of its positions (tokens or frames).

        The input is ids (length,) or features (length, width). With character n-grams the ids are
        (length, 1 + n-grams), a word and its n-grams in each row.

        Raises:
            DataError: the classifier does not read inputs of this kind.

        Warns:
            UserWarning: as in `classify`.
        """
        example = _example(source, "the input")
        (row,), _ = self._read([example])
        return self.inputs.collate([row])[0], self.inputs.names(example, row)

    def classify(
        self,
        inputs: Iterable[Any],
        *,
        top: int | None = None,
        normalise: bool = False,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        offset: int = 0,
    ) -> list[list[Prediction]]:
        """The most probable labels of each input, best first.

        Args:
            inputs: texts, or arrays (frames, features), or `Labelled` examples of either, whose
                features are ordered by the names of their columns. An empty text has no label.
            top: number of labels of each input. By default the most probable one; if an example
                may have several labels, all from their `thresholds`, perhaps none.
            normalise: bring texts into the style of the training text first: case, tokenisation and
                quotation marks, by the rules of Moses.
            batch_size: maximum number of inputs of a batch.
            progress: called with the number of inputs that are done.
            offset: the number of inputs before these, if a stream is classified in blocks.

        Raises:
            DataError: the classifier does not read inputs of this kind, or the inputs are a table,
                or `top` or `batch_size` is not a whole number of at least 1.
            ConfigError: `normalise` is given for features, sacremoses is not installed, or the
                model is an imported one, whose style is unknown.
            TypeError: `inputs` is a single string or example.

        Warns:
            TextWarning: one warning for each kind of remark on inputs: they are longer than
                `data.max_length`, and were cut; they have characters that the training text did not
                have; or they are much longer than nearly all training texts. It is a UserWarning.
            UserWarning: the texts look different from the training text (once for this classifier).
        """
        if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 1):
            what = f"top = {top!r} is not a number of labels"
            raise DataError(what, where="classify", todo="give a whole number of at least 1")
        inputs = items_of(inputs, "inputs", arrays=True)
        logits, remarks = self._run(inputs, normalise, batch_size, progress, offset)
        probabilities = self._calibrated(logits)
        return [
            [] if is_empty(raw) else self._best(row, top, tuple(found))
            for raw, row, found in zip(inputs, probabilities, remarks, strict=True)
        ]

    def probabilities(self, inputs: Iterable[Any], **options: Any) -> np.ndarray:
        """The calibrated probability of each label, (inputs, labels).

        `options` are `normalise`, `batch_size`, `progress` and `offset`, as in `classify`.
        """
        return self._calibrated(self._run(inputs, **options)[0])

    def logits(self, inputs: Iterable[Any], **options: Any) -> np.ndarray:
        """The output of the model for each label, (inputs, labels); see `probabilities`."""
        return self._run(inputs, **options)[0]

    def evaluate(
        self,
        inputs: Iterable[Any],
        labels: Iterable[Any],
        *,
        normalise: bool = False,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> Report[ClassifierScores]:
        """Classify inputs and score the result, as `clearhead evaluate` does.

            report = classifier.evaluate(texts, labels)
            report.scores["accuracy"]

        Args:
            inputs: N texts or arrays (frames, features).
            labels: the true label of each input, or a list of them if it may have several.
            normalise: as in `classify`, also `batch_size` and `progress`.

        Raises:
            DataError: the numbers of inputs and labels differ, there are none, a label is unknown,
                or an input cannot be read.
            ClearheadError: as in `classify`.
        """
        import numpy as np

        from clearhead.data.reading.parts import labelled_example
        from clearhead.evaluation.evaluate import ClassifierSystem, score_classifiers

        self.label_set.check_any(self.folder.path)
        inputs, labels = items_of(inputs, "inputs", arrays=True), items_of(labels, "labels")
        if len(inputs) != len(labels):
            raise DataError(f"there are {len(inputs):,} inputs and {len(labels):,} labels")
        examples = [
            labelled_example(pair, number, "train", self.config)
            for number, pair in enumerate(zip(inputs, labels, strict=True), start=1)
        ]
        name = str(self.folder.path)
        classify = partial(
            self.probabilities, normalise=normalise, batch_size=batch_size, progress=progress
        )
        thresholds = np.array(self.thresholds)
        system = ClassifierSystem(self.config, self.label_set, classify, thresholds=thresholds)
        return score_classifiers("the given examples", {name: system}, {name: examples})

    def _run(
        self,
        inputs: Iterable[Any],
        normalise: bool = False,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        offset: int = 0,
    ) -> tuple[np.ndarray, list[list[Remark]]]:
        """The logits of each input, and the remarks on it."""
        from clearhead.decoding.engine import check_batch_size

        rows, remarks = self._read(inputs, normalise, offset)
        self.label_set.check_any(self.folder.path)
        check_batch_size(batch_size, "inputs", "classify", DataError)
        logits = self.engine.logits(rows, self.inputs, batch_size=batch_size, progress=progress)
        return logits, remarks

    def _calibrated(self, logits: np.ndarray) -> np.ndarray:
        from clearhead.evaluation.calibration import probabilities

        return probabilities(logits, self.temperature, self.multi_label)

    def _read(
        self, inputs: Iterable[Any], normalise: bool = False, offset: int = 0
    ) -> tuple[list[np.ndarray], list[list[Remark]]]:
        """Each input as numbers, and the remarks on it, of which it warns."""
        numbered = enumerate(items_of(inputs, "inputs", arrays=True), start=offset + 1)
        examples = [_example(raw, f"input {number}") for number, raw in numbered]
        remarks: list[list[Remark]] = [[] for _ in examples]
        longest = self.config.data.max_length
        if self._style is None and normalise:
            raise ConfigError("normalise has no effect on features", todo="leave it out")
        # Making rows of other inputs raises the error.
        if self._style is not None and all(isinstance(each.input, str) for each in examples):
            texts, remarks = self._style.read([e.input for e in examples], normalise, longest)
            examples = [e._replace(input=t) for e, t in zip(examples, texts, strict=True)]
        rows = self.inputs.rows(examples)
        for row, found in zip(rows, remarks, strict=True):
            if len(row) > longest and not any(each.kind == "cut" for each in found):
                has = f"has {len(row):,} {self.inputs.unit}"
                found.append(Remark("cut", f"{has} and was cut to {longest:,}"))
        warn_of_texts(
            (example.place, remark)
            for example, found in zip(examples, remarks, strict=True)
            for remark in found
        )
        return rows, remarks

    def _best(
        self, probabilities: np.ndarray, top: int | None, remarks: tuple[Remark, ...]
    ) -> list[Prediction]:
        order = (-probabilities).argsort(kind="stable")
        if top is None and self.multi_label:
            order = [i for i in order if probabilities[i] >= self.thresholds[i]]
        else:
            order = order[: top or 1]
        return [Prediction(self.labels[i], float(probabilities[i]), remarks) for i in order]


def items_of(values: Iterable[Any], what: str, *, arrays: bool = False) -> list[Any]:
    """The items of a list, an array, an iterator or the column of a table, in their order.

    `what` is their name in an error ("texts"). With `arrays`, an item may be an array, so that all
    may be in one of more dimensions.

    Raises:
        DataError: it is a table or a mapping, whose items are the names of its columns.
        TypeError: it is a single string or example.
    """
    if getattr(values, "ndim", 1) == 0:
        values = cast("np.generic", values).item()
    if isinstance(values, set | frozenset):
        raise TypeError(f"the {what} are a set, which has no order: give a list of {what}")
    if isinstance(values, str | bytes | Labelled):
        one = "example" if isinstance(values, Labelled) else "string"
        raise TypeError(f"{what} is a single {one}: give a list of {what}")
    columns = values if isinstance(values, Mapping) else getattr(values, "columns", None)
    # The column of a table has one dimension, and its index may have a row named "columns".
    is_table = columns is not None and getattr(values, "ndim", 2) != 1
    if is_table or (not arrays and getattr(values, "ndim", 1) != 1):
        column = f"table[{next(iter(columns))!r}]" if columns is not None else "array[:, 0]"
        raise DataError(
            f"the {what} are not a list but a table",
            todo=f"give one column, e.g. {column}",
        )
    if not isinstance(values, Iterable) and not hasattr(values, "__array__"):
        raise DataError(
            f"the {what} are {type_of(values)}, not a list", todo=f"give a list of {what}"
        )
    return list(values if isinstance(values, Iterable) else values.__array__())


def texts_of(values: Iterable[str]) -> list[str]:
    """Same as `items_of`, for texts: a DataError if an item is not a string."""
    texts = items_of(values, "texts")
    for number, text in enumerate(texts, start=1):
        if isinstance(text, str):
            continue
        if is_missing(text):
            raise DataError(f"text {number} is missing: it is {text!r}", todo=LEAVE_OUT)
        todo = "turn numbers into strings, e.g. column.astype(str)"
        if isinstance(text, bytes):
            todo = "decode it: text.decode()"
        elif isinstance(text, Iterable):
            todo = 'join tokens to a text: " ".join(tokens)'
        raise DataError(f"text {number} is {type_of(text)}, not a string", todo=todo)
    return texts


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' mark for a missing value."""
    if isinstance(value, Real):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def is_empty(raw: Any) -> bool:
    """Whether an input is a text without any words."""
    content = raw.input if isinstance(raw, Labelled) else raw
    return isinstance(content, str) and is_blank(content)


def _example(raw: Any, name: str) -> Labelled:
    """An input as an example; of a table of frames the columns have names."""
    if isinstance(raw, Labelled):
        return raw
    return Labelled(raw, (), name, feature_names(raw))
