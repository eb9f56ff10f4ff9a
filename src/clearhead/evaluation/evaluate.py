"""Evaluate models on examples with known answers, and compare each model with the first.

`evaluate_models` is the same for all models. What differs between translators and classifiers is
in an `EvaluationSet`: the examples, how outputs are scored, and what the report contains.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from clearhead.errors import ConfigError, DataError
from clearhead.evaluation.class_scores import (
    ClassifierScores,
    mcnemar,
    right_answers,
    score_classes,
    truth_of,
)
from clearhead.evaluation.scores import TranslatorScores, compare, exact_match, scores_by_length
from clearhead.settings import RunConfig

if TYPE_CHECKING:
    import numpy as np

    from clearhead.data.labelled import Labelled
    from clearhead.data.labels import Labels

Input = TypeVar("Input", covariant=True)
Output = TypeVar("Output", contravariant=True)
System = TypeVar("System", bound="SystemScores")
Setting = TypeVar("Setting", str, bool)


class SystemScores(Protocol):
    """All scores of one model."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        ...

    def lines(self, baseline: str) -> Iterable[str]:
        """The scores as lines of text; `baseline` is the name of the first model."""
        ...


class EvaluationSet(Protocol[Input, Output, System]):
    """Examples with known answers, and how the outputs of models are scored on them."""

    @property
    def title(self) -> str:
        """The first line of the report."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the JSON report contains besides the scores."""
        ...

    def inputs(self, model: str) -> Sequence[Input]:
        """The examples that a model is run on."""
        ...

    def score(self, outputs: Mapping[str, Output]) -> Mapping[str, System]:
        """The scores of each model, with a paired test of each but the first against the first."""
        ...

    def notes(self, systems: Mapping[str, System]) -> Sequence[str]:
        """The last lines of the report."""
        ...


@dataclass(frozen=True)
class Report(Generic[System]):
    """The scores of each model by its name; the others are compared with the first."""

    examples: EvaluationSet[Any, Any, System]
    systems: Mapping[str, System]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        systems = {name: system.to_dict() for name, system in self.systems.items()}
        return {**self.examples.settings, "systems": systems}

    def to_text(self) -> str:
        """The report as text: short tables for each model."""
        baseline = next(iter(self.systems))
        lines = [self.examples.title]
        for name, system in self.systems.items():
            lines += ["", name, *system.lines(baseline)]
        return "\n".join([*lines, *self.examples.notes(self.systems)])


def evaluate_models(
    examples: EvaluationSet[Input, Output, System],
    models: Sequence[str],
    run: Callable[[str, Sequence[Input]], Output],
) -> Report[System]:
    """Run each model on the examples, score the outputs and compare each model with the first.

    Args:
        examples: what the models are run on.
        models: their names, the baseline first.
        run: computes a model's outputs (translations or probabilities) from its name and inputs.
            Models are run one after the other, so that only one needs to be in memory.
    """
    outputs = {model: run(model, examples.inputs(model)) for model in models}
    return Report(examples, examples.score(outputs))


class TranslationSet:
    """Sentences with their correct translations: an `EvaluationSet` for translators.

    Args:
        configs: the configuration of each translator, by its name.
        files: the names of the source and the reference file.
        sources: (N,) sentences to translate.
        references: (N,) correct translations.
        tokenize: sacreBLEU's tokenizer for BLEU; None takes the one in the configurations.
        lowercase: ignore case; None takes the choice in the configurations.

    Raises:
        ConfigError: a choice was left to the configurations, and they differ.
        DataError: the numbers of sources and references differ.
    """

    def __init__(
        self,
        configs: Mapping[str, RunConfig],
        files: tuple[str, str],
        sources: Sequence[str],
        references: Sequence[str],
        tokenize: str | None = None,
        lowercase: bool | None = None,
    ) -> None:
        source, reference = files
        if len(sources) != len(references):
            raise DataError(
                "the files differ in length, so their lines do not belong together",
                where=f"{source}, {reference}",
                why=f"{len(sources):,} lines and {len(references):,} lines",
            )
        if tokenize is None:
            found = {name: config.evaluation.tokenize for name, config in configs.items()}
            tokenize = _common(found, "evaluation.tokenize", "name one with --tokenize")
        if lowercase is None:
            cased = {name: config.lowercase for name, config in configs.items()}
            todo = "choose one with --lowercase or --no-lowercase"
            lowercase = _common(cased, "evaluation.lowercase", todo)
        self.sources, self.references = sources, references
        self.tokenize, self.lowercase = tokenize, lowercase
        self.title = f"{len(sources):,} sentences of {source}, scored against {reference}"
        self.settings = {
            "source": source,
            "reference": reference,
            "sentences": len(sources),
            "tokenize": tokenize,
            "lowercase": lowercase,
        }

    def inputs(self, model: str) -> Sequence[str]:
        """The sentences to translate: the same for every model."""
        return self.sources

    def score(self, outputs: Mapping[str, Sequence[str]]) -> dict[str, TranslatorScores]:
        """BLEU, chrF and TER of each translator; the test is paired bootstrap resampling.

        Raises:
            DataError: there is nothing to score.
        """
        references, tokenize, lowercase = self.references, self.tokenize, self.lowercase
        scores = compare(outputs, references, tokenize, lowercase=lowercase)
        return {
            name: TranslatorScores(
                scores[name],
                exact_match(texts, references, lowercase=lowercase),
                tuple(
                    scores_by_length(self.sources, texts, references, tokenize, lowercase=lowercase)
                ),
            )
            for name, texts in outputs.items()
        }

    def notes(self, systems: Mapping[str, TranslatorScores]) -> list[str]:
        """What the tables mean, and the signatures of the scores."""
        baseline = next(iter(systems))
        lines = [
            "",
            "In brackets: the 95 % confidence interval by bootstrap. TER: lower is better.",
        ]
        if self.lowercase:
            lines.append("All without regard to case, exact matches too.")
        if len(systems) > 1:
            lines.append(
                f"p: how often a difference from {baseline} as large as this comes by chance "
                "(paired bootstrap)."
            )
        measures = systems[baseline].scores.measures
        return [*lines, "Signatures:", *(f"  {m.name:<5} {m.signature}" for m in measures)]


def _common(found: Mapping[str, Setting], setting: str, todo: str) -> Setting:
    """The value that a setting has in the configurations of all models."""
    if len(set(found.values())) > 1:
        raise ConfigError(
            f"the models' configurations differ in {setting}",
            why=", ".join(f"{name} has {str(value).lower()}" for name, value in found.items()),
            todo=todo,
        )
    return next(iter(found.values()))


class ClassificationSet:
    """Examples with their correct labels: an `EvaluationSet` for classifiers.

    Each classifier may know other labels and expect other columns, so the examples are read for
    each. They must have the same labels for all.

    Args:
        configs: the configuration of each classifier, by its name.
        labels: the labels that each classifier knows.
        data: the file or folder of the examples.
        text_column, label_column: the names of its columns; None takes those of the configuration.

    Raises:
        ConfigError: an example may have several labels for one classifier but not for another, or
            a column is named where columns have no names.
        DataError: the data cannot be read, contain a label that a classifier does not know, or
            give one classifier other labels than another.
    """

    def __init__(
        self,
        configs: Mapping[str, RunConfig],
        labels: Mapping[str, Labels],
        data: str,
        text_column: str | None = None,
        label_column: str | None = None,
    ) -> None:
        # Imported here because it loads torch, which a translator may not need.
        from clearhead.data.parts import read_examples

        self.title = data
        self.settings = {"data": data}
        self.labels = labels
        several = {name: config.classifier.multi_label for name, config in configs.items()}
        self.multi_label = _common(
            several, "classifier.multi_label", "evaluate each model by itself"
        )
        self.examples: dict[str, list[Labelled]] = {}
        self.truths: dict[str, np.ndarray] = {}
        named = {"text_column": text_column, "label_column": label_column}
        columns = {key: column for key, column in named.items() if column}
        for name, config in configs.items():
            _check_columns(name, config, data, columns)
        for name, config in configs.items():
            config = replace(config, data=replace(config.data, **columns))
            self.examples[name] = read_examples(data, config)
            self.truths[name] = self._truth(name)
        self._check_same_labels()

    def inputs(self, model: str) -> Sequence[Labelled]:
        """The examples as this model reads them."""
        return self.examples[model]

    def score(self, outputs: Mapping[str, np.ndarray]) -> dict[str, ClassifierScores]:
        """Accuracy, F1 and calibration of each classifier; the test is McNemar's."""
        right, systems = {}, {}
        for name, found in outputs.items():
            truth, labels = self.truths[name], self.labels[name].names
            right[name] = right_answers(found, truth, self.multi_label)
            first = next(iter(right))
            systems[name] = ClassifierScores(
                score_classes(found, truth, labels, self.multi_label),
                None if name == first else mcnemar(right[first], right[name]),
            )
        return systems

    def notes(self, systems: Mapping[str, ClassifierScores]) -> list[str]:
        """None: each line says what it means."""
        return []

    def _truth(self, name: str) -> np.ndarray:
        try:
            return truth_of(self.examples[name], self.labels[name])
        except DataError as error:
            # Another of the classifiers may know the label.
            why = f"{name} does not know it; {error.why}"
            raise DataError(error.what, where=error.where, why=why, todo=error.todo) from None

    def _check_same_labels(self) -> None:
        (first, baseline), *others = self.examples.items()
        wanted = [example.labels for example in baseline]
        for name, examples in others:
            if [example.labels for example in examples] != wanted:
                raise DataError(
                    "the models cannot be compared",
                    where=self.title,
                    why=f"{name} reads other examples or other labels than {first}",
                    todo="name the column with --label-column, or evaluate each model by itself",
                )


def _check_columns(name: str, config: RunConfig, data: str, columns: Mapping[str, str]) -> None:
    """Refuse names of columns that the data cannot have."""
    from clearhead.data.feature_sequences import FEATURE_FORMATS
    from clearhead.data.labelled import TEXT_FORMATS

    if "text_column" in columns and config.input == "features":
        raise ConfigError(
            "--text-column has no effect on features", where=name, todo="leave it out"
        )
    is_file = not os.path.isdir(os.path.expanduser(data))
    form = (FEATURE_FORMATS if config.input == "features" else TEXT_FORMATS).of(data)
    if columns and is_file and form is not None and not form.named_columns:
        raise ConfigError(
            "the columns of such a file have no names",
            where=data,
            todo="leave --text-column and --label-column out",
        )
