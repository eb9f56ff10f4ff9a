"""What the classifiers with the interface of scikit-learn share; scikit-learn is optional."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from clearhead.api.card import write_card
from clearhead.api.classifier import LEAVE_OUT, is_missing, items_of
from clearhead.api.loading import load_classifier
from clearhead.api.proposing import config_of, labelled_examples, run_for
from clearhead.api.targets import Targets, is_balanced, names_of, read_targets, read_weights
from clearhead.api.training import train
from clearhead.data.judging.agreement import IN_MEMORY, INSIST
from clearhead.data.reading.labelled import Labelled
from clearhead.data.trainable import NONE_TO_TRAIN, NONE_TO_VALIDATE
from clearhead.device import short_waits
from clearhead.errors import (
    ClearheadError,
    ConfigError,
    DataError,
    InputError,
    NotTrainedError,
    warn,
)
from clearhead.folder.model_folder import (
    PROVENANCE,
    SCORES,
    ModelFolder,
    write_model,
)
from clearhead.settings import RunConfig
from clearhead.settings.declare import Runs

with short_waits():  # a process of joblib imports this module first, and these import PyTorch
    from clearhead.tasks.classification import SMALLER
    from clearhead.training.bad_steps import IF_DIVERGED
    from clearhead.training.display import INTERVAL_S, PlainLines
    from clearhead.training.events import Event, Note, RunEnded, RunStarted, Validated
    from clearhead.training.loop import IF_MEMORY_IS_FULL

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from sklearn.utils.metadata_routing import MetadataRequest

SETTINGS = {
    "layers": "model.encoder_layers",
    "d_model": "model.d_model",
    "heads": "model.n_heads",
    "convolution": "model.input_convolution",
    "pooling": "classifier.pooling",
    "max_length": "data.max_length",
    "dropout": "model.dropout",
    "head_dropout": "classifier.dropout",
    "epochs": "training.max_epochs",
    "batch_tokens": "training.batch_tokens",
    "learning_rate": "training.schedule.peak",
    "validation_share": "data.validation_share",
    "random_state": "seed",
    "threads": "training.threads",
    "device": "training.device",
}
"""The setting of each argument that has one."""

OF_RECIPE = {
    **{name: name for name in ("layers", "d_model", "heads", "convolution", "dropout")},
    **{name: name for name in ("kernels", "epochs", "batch_tokens")},
    **{"head_dropout": "head", "learning_rate": "peak", "ngrams": "linear"},
}
"""The arguments that are in the recipe of a proposal, with their names there."""

FIXED: dict[str, Any] = {
    # Every example counts, also a repeated one, or the only one of its class.
    "data.drop_duplicates": False,
    "data.smallest_class": 1,
}
"""Settings of every run."""

UNCHANGED = "$UNCHANGED$"
"""What scikit-learn's `set_…_request` takes for no change."""

ON_CPU = "use the CPU: device='cpu'"
IN_PYTHON = {
    IF_DIVERGED: "lower learning_rate",
    IF_MEMORY_IS_FULL: f"lower max_length or use a smaller model, or {ON_CPU}",
    SMALLER: f"lower max_length, or {ON_CPU}",
    NONE_TO_TRAIN: "correct the examples",
    NONE_TO_VALIDATE: "give more examples, or raise validation_share",
    LEAVE_OUT: f'{LEAVE_OUT}, or fit with missing="empty"',
    f"{IN_MEMORY}; {INSIST}": "give the examples first, then their labels: fit(X, y)",
    'train with data.missing = "interpolate"': 'fit with missing="interpolate"',
    "data.missing sets": "missing sets",
    "classifier.class_weights": "class_weight",
    "tokenizer.max_vocabulary": "vocabulary",
    "classifier.ngrams": "ngrams",
    "classifier.kernels": "kernels",
    " n_heads = ": " heads = ",
    ", or give d_k": "",
    # A name without a section, such as seed, may be a word of the user's.
    **{path: name for name, path in SETTINGS.items() if "." in path},
}
"""What replaces advice about settings and commands, and paths of settings, in an error."""


class Inputs(NamedTuple):
    """Inputs as a model reads them, their number of features, the order of their axes, and names.

    `names` are those of the features, if X has some.
    """

    values: Sequence[Any]
    features: int = 1
    layout: str = ""
    names: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the features of each frame; those of frames are none."""
        is_of_frames = bool(self.names and self.values) and self.values[0].ndim == 2
        if is_of_frames and len(set(self.names)) == self.values[0].shape[1]:
            return self.names
        return ()


@dataclass(kw_only=True, eq=False, repr=False)
class Estimator:
    """A classifier with the interface of scikit-learn: the arguments of all kinds of inputs."""

    layers: int | None = None
    d_model: int | None = None
    heads: int | None = None
    convolution: int | Sequence[int] | None = None
    pooling: str | Sequence[str] | None = None
    max_length: int | None = None
    dropout: float | None = None
    head_dropout: float | None = None
    epochs: int | None = None
    batch_tokens: int | None = None
    learning_rate: float | None = None
    validation_share: float = 0.1
    class_weight: str | Mapping[Any, float] | None = None
    missing: str = "refuse"
    start_from: str | Path | None = None
    random_state: Any = 1
    threads: int = 0
    device: str = "auto"
    verbose: bool | int = False

    settings: ClassVar[Mapping[str, str]] = SETTINGS
    kind: ClassVar[Runs]

    def _inputs(self, X: Any, is_fitting: bool) -> Inputs:  # noqa: N803
        """The inputs of `fit`, or of a fitted classifier; a DataError if they cannot be used."""
        raise NotImplementedError

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Iterable[float] | None = None,
        groups: Iterable[Any] | None = None,
    ) -> Self:
        """Train on inputs and their labels.

        If it fails, the classifier stays as it was.

        Args:
            X: N inputs, as the class describes them.
            y: (N,), their labels, strings or numbers; or (N, K), whether each of K labels applies.
            sample_weight: (N,), how much the loss of each example counts relative to the others; by
                default all count the same. It has no effect on the scores.
            groups: (N,), what each example belongs to, such as a person. Examples of a group are
                not divided between training and validation.

        Raises:
            ConfigError: an argument of the constructor is wrong.
            InputError: the inputs or labels cannot be used; it is a DataError and a ValueError.
            ModelFolderError: the model of `start_from` cannot be used.
            TrainingError: training diverged.
            TypeError: `X` or `y` is a single string.
            ClearheadError: the memory of the GPU is full.

        Warns:
            UserWarning: examples are empty and were left out, or are too long and were cut.
        """
        own = type(self).__name__
        with TemporaryDirectory() as temporary, self._errors(temporary):
            inputs = self._inputs(X, True)
            targets = read_targets(y, len(inputs.values), self._unit, own)
            if len(targets.numbers) == 1:
                raise DataError("there is one sample, which leaves none to validate on")
            weights = read_weights(sample_weight, targets, self.class_weight, own)
            examples = self._examples(inputs, targets, weights, groups)
            config = self._run(examples, targets.has_several, temporary)
            observers = []
            if self.verbose and sys.stdout is not None:
                observers = [_Lines(sys.stdout, own)]
            ended = train(
                config, examples=examples, restart=True, observers=observers, resumable=False
            )
            if not ended.finished:
                raise KeyboardInterrupt
            model = load_classifier(config.folder, device=self.device, threads=self.threads)
            # In memory, because the folder will be gone.
            model.folder = model.folder.with_files(SCORES, PROVENANCE)
            _warn_of_examples(model.folder, self._unit)
        self.classes_, self.model_ = targets.classes, model
        self.n_features_in_, self.layout_ = inputs.features, inputs.layout
        if inputs.names:
            self.feature_names_in_ = np.array(inputs.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def predict(self, X: Any, *, normalise: bool = False) -> np.ndarray:  # noqa: N803
        """The most probable label of each input, (N,); or whether each of K labels applies, (N, K).

        A label applies from a threshold of its probability that is fitted to the validation part.
        Arguments and errors are those of `predict_proba`.
        """
        probabilities = self.predict_proba(X, normalise=normalise)
        if self.model_.multi_label:
            return (probabilities >= self._thresholds()).astype(int)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, X: Any, *, normalise: bool = False) -> np.ndarray:  # noqa: N803
        """The calibrated probability of each label, (N, K), in the order of `classes_`.

        `normalise` brings texts into the style of the training text first: case, tokenisation
        and quotation marks.

        Raises:
            ConfigError: texts are to be normalised, and sacremoses is not installed.
            InputError: the inputs cannot be read.
            NotTrainedError: `fit` was not called; with scikit-learn it is also a `NotFittedError`.
            TypeError: `X` is a single string.
        """
        if not self.__sklearn_is_fitted__():
            raise _not_trained()
        with self._errors():
            inputs = self._inputs(X, False)
            names = tuple(getattr(self, "feature_names_in_", ()))
            columns = inputs._replace(names=names).columns
            values = [
                Labelled(value, (), f"input {number}", columns)
                for number, value in enumerate(inputs.values, start=1)
            ]
            found = self.model_.probabilities(values, normalise=normalise)
        return self._of_classes(found, 0.0)

    def predict_log_proba(self, X: Any, *, normalise: bool = False) -> np.ndarray:  # noqa: N803
        """The logarithms of `predict_proba`, (N, K)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, normalise=normalise))

    def decision_function(self, X: Any, *, normalise: bool = False) -> np.ndarray:  # noqa: N803
        """The log-probability of each label, (N, K); of two labels the log-odds, (N,).

        Of several labels for each example the log-odds of each, (N, K), less those of its
        threshold. Where it is positive, or the greatest, `predict` gives the label.
        """
        found = self.predict_proba(X, normalise=normalise)
        if self.model_.multi_label:
            return _log_odds(found) - _log_odds(self._thresholds())
        logs = np.log(np.maximum(found, np.finfo(float).tiny))
        return logs[:, 1] - logs[:, 0] if len(self.classes_) == 2 else logs

    def score(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Iterable[float] | None = None,
        *,
        normalise: bool = False,
    ) -> float:
        """The share of inputs (N,) whose label in `y` (N,) is predicted, from 0 to 1.

        With several labels, those are counted of which all are right. Inputs count by
        `sample_weight` (N,). Errors and `normalise` are as for `predict_proba`.
        """
        predicted, own = self.predict(X, normalise=normalise), type(self).__name__
        with self._errors():
            if not len(predicted):
                raise DataError(f"there are no {self._unit} to score")
            targets = read_targets(y, len(predicted), self._unit, own)
            weights = read_weights(sample_weight, targets, None, own)
            targets.check_like(self.classes_, self.model_.multi_label)
        if targets.has_several:
            right = (predicted == targets.indicators()).all(axis=1)
        else:
            right = predicted == targets.classes[[numbers[0] for numbers in targets.numbers]]
        return float(np.average(right, weights=weights))

    def save(self, folder: str | Path) -> Path:
        """Write the fitted model to a new model folder, and return the folder.

            clearhead.load(model.save("runs/my-model"))

        What is loaded is a `Classifier`, which all commands can use, too.

        Raises:
            ModelFolderError: the folder exists, or cannot be written.
            NotTrainedError: `fit` was not called.
        """
        if not self.__sklearn_is_fitted__():
            raise _not_trained()
        path = Path(folder).expanduser().absolute()
        write_model(path, self.model_.folder, self.model_.model)
        write_card(path)
        return path

    def set_fit_request(
        self,
        *,
        sample_weight: bool | str | None = UNCHANGED,
        groups: bool | str | None = UNCHANGED,
    ) -> Self:
        """Say whether `fit` takes weights and groups from scikit-learn's metadata routing."""
        return self._request("fit", sample_weight=sample_weight, groups=groups)

    def set_score_request(self, *, sample_weight: bool | str | None = UNCHANGED) -> Self:
        """Say whether `score` takes weights from scikit-learn's metadata routing."""
        return self._request("score", sample_weight=sample_weight)

    def get_metadata_routing(self) -> MetadataRequest:
        """The requests of `set_fit_request` and `set_score_request`."""
        from sklearn.utils.metadata_routing import MetadataRequest

        found = getattr(self, "_metadata_request", None)  # scikit-learn's `clone` copies it
        if found is None:
            found = MetadataRequest(owner=type(self).__name__)
            for name in ("sample_weight", "groups"):
                found.fit.add_request(param=name, alias=None)
            found.score.add_request(param="sample_weight", alias=None)
        return deepcopy(found)

    def _request(self, method: str, **wanted: bool | str | None) -> Self:
        found = self.get_metadata_routing()
        for name, alias in wanted.items():
            if alias != UNCHANGED:
                getattr(found, method).add_request(param=name, alias=alias)
        self._metadata_request = found
        return self

    def __repr__(self) -> str:
        changed = []
        for each in fields(self):
            value = getattr(self, each.name)
            if type(value) is not type(each.default) or value != each.default:
                changed.append(f"{each.name}={value!r}")
        return f"{type(self).__name__}({', '.join(changed)})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
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

        is_text = self.kind is Runs.TEXTS
        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(multi_label=True),
            input_tags=InputTags(
                one_d_array=is_text,
                two_d_array=not is_text,
                three_d_array=not is_text,
                string=is_text,
                allow_nan=self.missing != "refuse",
            ),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @property
    def _unit(self) -> str:
        return "texts" if self.kind is Runs.TEXTS else "sequences"

    @property
    def _input(self) -> Literal["text", "features"]:
        return "text" if self.kind is Runs.TEXTS else "features"

    def _thresholds(self) -> np.ndarray:
        """The probability from which each of several labels applies, (K,)."""
        return self._of_classes(np.array(self.model_.thresholds)[None], 1.0)[0]

    def _of_classes(self, found: np.ndarray, absent: float) -> np.ndarray:
        """The columns of the model's labels (N, labels) as those of `classes_` (N, K)."""
        names = [*self.model_.labels]
        columns = np.full((len(found), len(self.classes_)), absent)
        for column, name in enumerate(names_of(self.classes_)):
            if name in names:  # a label of several may never apply
                columns[:, column] = found[:, names.index(name)]
        return columns

    def _examples(
        self,
        inputs: Inputs,
        targets: Targets,
        weights: np.ndarray,
        groups: Iterable[Any] | None = None,
    ) -> list[Labelled[Any]]:
        """The training examples; a DataError if they cannot be used."""
        if not any(map(len, inputs.values)):
            raise DataError(f"there are no {self._unit}, or all are empty")
        labels = [[targets.names[n] for n in each] for each in targets.numbers]
        given = list(zip(inputs.values, labels, weights.tolist(), strict=True))
        examples = labelled_examples(given, "train", self._input, targets.has_several)
        examples = [example._replace(columns=inputs.columns) for example in examples]
        if groups is None:
            return examples
        found = items_of(groups, "groups")
        if len(found) != len(examples):
            raise DataError(f"there are {len(examples):,} examples and {len(found):,} groups")
        for number, group in enumerate(found, start=1):
            if is_missing(group):
                what, todo = "the group is missing", "give each example a group"
                raise DataError(what, where=f"example {number}", todo=todo)
        pairs = zip(examples, found, strict=True)
        return [example._replace(group=f"group {group}") for example, group in pairs]

    def _run(
        self, examples: Sequence[Labelled[Any]], has_several: bool, folder: str | Path
    ) -> RunConfig:
        """The run of the arguments, and of what is proposed where there is none.

        Raises:
            ConfigError: an argument is wrong.
        """
        # A parameter grid may hold numpy's numbers, or arrays.
        numpys = np.generic, np.ndarray
        given = {name: x.tolist() if isinstance(x, numpys) else x for name, x in self._given()}
        epochs = given.get("epochs")
        if isinstance(epochs, int) and epochs < 1:  # for a run 0 means no limit
            raise ConfigError("epochs must be at least 1", setting=SETTINGS["epochs"])
        settings = {path: given[name] for name, path in self.settings.items() if name in given}
        # Checks the numbers that the plan is computed from. Whether the heads divide the width, the
        # result shows.
        task = {"task": "classification", "input": self._input, "training.max_epochs": 1}
        config_of({**task, **settings, SETTINGS["heads"]: 1})
        changes = {of: given[name] for name, of in OF_RECIPE.items() if name in given}
        if "d_model" in changes:
            changes["d_ff"] = 2 * changes["d_model"]
        return run_for(
            examples,
            {**settings, **self._fixed(), "folder": str(folder)},
            drops_duplicates=False,
            multi_label=has_several,
            start_from=str(self.start_from or ""),
            validation_share=self.validation_share,
            class_weights="balanced" if is_balanced(self.class_weight) else "none",
            words=given.get("words"),
            max_length=given.get("max_length", 0),
            **changes,
        )

    def _fixed(self) -> Mapping[str, Any]:
        """Settings that no argument and no proposal changes."""
        return FIXED

    def _given(self) -> Iterator[tuple[str, Any]]:
        """The arguments that are given, with a seed as a number."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "random_state":
                yield field.name, _seed(value)
            elif value is not None or field.default is not None:
                yield field.name, value

    @contextmanager
    def _errors(self, temporary: str | None = None) -> Iterator[None]:
        """Make errors name arguments instead of settings, and never the temporary folder.

        Errors in data become an `InputError`.
        """
        own = type(self).__name__
        try:
            yield
        except DataError as error:
            parts = {"where": error.where, "why": _in_python(error.why)}
            raise InputError(error.what, **parts, todo=_in_python(error.todo)) from None
        except ClearheadError as error:
            if error.where == temporary:
                error.where = own
            setting = (error.setting or "") if isinstance(error, ConfigError) else ""
            for name, path in self.settings.items():
                # model.dropout.embeddings is in model.dropout
                if f"{setting}.".startswith(f"{path}."):
                    error.where = f"{own}({name}={getattr(self, name)!r})"
                    error.what = error.what.replace(setting, name)
                if error.todo and setting == path:
                    error.todo = error.todo.replace(path, name)
            error.what = _in_python(error.what) or ""
            error.why, error.todo = _in_python(error.why), _in_python(error.todo)
            raise


def _log_odds(probabilities: np.ndarray) -> np.ndarray:
    tiny = np.finfo(float).tiny
    return np.log(np.maximum(probabilities, tiny)) - np.log(np.maximum(1 - probabilities, tiny))


def _in_python(text: str | None) -> str | None:
    """A part of an error with arguments instead of settings and commands."""
    for old, new in IN_PYTHON.items():
        text = text and text.replace(old, new)
    return text and re.sub(r"pooling\.\d+ = ", "pooling = ", text)


class _Lines(PlainLines):
    """The lines of a run, without its folder, which is temporary.

    A short run validates every few steps, so validations are written at most once an interval.
    """

    def __init__(self, stream: Any, name: str) -> None:
        super().__init__(stream)
        self._name, self._validated_s = name, -INTERVAL_S

    def observe(self, event: Event) -> None:
        if isinstance(event, RunStarted | RunEnded):
            event = replace(event, folder=self._name)
        if isinstance(event, Validated) and event.weights == "current":
            now = monotonic()
            if now < self._validated_s + INTERVAL_S:
                return
            self._validated_s = now
        if isinstance(event, Note):
            event = replace(event, text=_in_python(event.text) or "")
        super().observe(event)


def _not_trained() -> NotTrainedError:
    kind = NotTrainedError
    with suppress(ImportError):
        from sklearn.exceptions import NotFittedError

        kind = type("NotTrainedError", (NotTrainedError, NotFittedError), {})
    return kind("the classifier has not been trained", todo="call fit first")


def _seed(random_state: Any) -> int:
    """The seed that numpy's generators, a number or None stand for."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    return random_state


def _warn_of_examples(folder: ModelFolder, unit: str) -> None:
    training_report, *_ = folder.tree(PROVENANCE)["reports"]
    for finding in training_report["findings"]:
        if finding["left_out"] or finding["rule"] == "long":
            done = "left out" if finding["left_out"] else "cut"
            warn(f"{unit} that were {done}: {finding['count']:,} ({finding['text']})")
