"""Evaluate models on examples with known answers, and compare each model with the first."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from clearhead.data.judging.text_style import TextStyle, differences
from clearhead.errors import ConfigError, DataError, warn
from clearhead.evaluation.class_scores import (
    BaselineScores,
    ClassifierScores,
    correct_answers,
    mcnemar,
    score_classes,
    truth_of,
)
from clearhead.evaluation.predictions import (
    ClassifiedExample,
    classified_examples,
    translated_examples,
    write_table,
)
from clearhead.evaluation.scores import (
    Scores,
    TranslatorScores,
    compare,
    exact_match,
    scored_form,
    scores_by_length,
    signed,
    wilson_interval,
)
from clearhead.settings import RunConfig

if TYPE_CHECKING:
    import numpy as np

    from clearhead.data.labels import Labels
    from clearhead.data.reading.labelled import Labelled
    from clearhead.evaluation.baseline import LinearBaseline

System = TypeVar("System", TranslatorScores, ClassifierScores)
Value = TypeVar("Value", str, bool)


@dataclass(frozen=True)
class Report(Generic[System]):
    """The result of an evaluation; `str(report)` is what `clearhead evaluate` prints.

    If there are several models, each but the first is compared with the first.

    Attributes:
        title: the first line of the text.
        size: the number of examples.
        settings: what the JSON report contains besides the scores.
        systems: all scores of each model, by its name.
        predictions: for each model, by its name, a `TranslatedExample` or `ClassifiedExample` for
            each example; the worst errors first.
        notes: the last lines of the text.
    """

    title: str
    size: int
    settings: Mapping[str, Any]
    systems: Mapping[str, System]
    predictions: Mapping[str, Sequence[Any]]
    notes: Sequence[str] = ()

    @property
    def scores(self) -> dict[str, float]:
        """The scores of the first model by name, in percent unless stated otherwise.

        Of a translator `bleu`, `chrf`, `ter` and `exact`; of a classifier `accuracy`, `macro_f1`,
        `micro_f1`, `calibration_error`, and `negative_log_likelihood` in nats an example.
        """
        return next(iter(self.systems.values())).summary

    def write_predictions(self, path: str | Path) -> None:
        """Write the predictions of the first model to a .csv, .tsv or .jsonl file.

        The rows are examples, the worst errors first: translations with the lowest chrF; or labels
        that are wrong and most probable, and after all wrong ones those that are right and least
        probable.

        Raises:
            ConfigError: the name has another ending.
            DataError: the file cannot be written, for example because its folder does not exist.
        """
        rows = [example.row() for example in next(iter(self.predictions.values()))]
        write_table(Path(path).expanduser(), rows)

    def __str__(self) -> str:
        return self.to_text()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        systems = {name: system.to_dict() for name, system in self.systems.items()}
        return {**self.settings, "systems": systems}

    def to_text(self) -> str:
        """The report as text: short tables for each model."""
        baseline = next(iter(self.systems))
        lines = [self.title]
        for name, system in self.systems.items():
            lines += ["", name, *system.lines(baseline)]
        return "\n".join([*lines, *self.notes])


def evaluate_translators(
    configs: Mapping[str, RunConfig],
    files: tuple[str, str],
    sources: Sequence[str],
    references: Sequence[str],
    translate: Callable[[str], Sequence[str]],
    style_of: Callable[[str], TextStyle | None],
    tokenize: str | None = None,
    lowercase: bool | None = None,
) -> Report[TranslatorScores]:
    """Score translators; each but the first is compared with the first by paired bootstrap.

    Args:
        configs: the configuration of each translator, by its name; the baseline first.
        files: the names of the sources and of the references: their files.
        sources: (N,) sentences to translate.
        references: (N,) correct translations.
        translate: gives the translations of the sources (N,) by the translator of a name. It is
            called for one translator after the other, so that only one needs to be in memory.
        style_of: gives the style of the target text that the translator of a name learned, if it is
            known.
        tokenize: sacreBLEU's tokenizer for BLEU; None takes the one in the configurations.
        lowercase: ignore case; None takes the choice in the configurations.

    Raises:
        ConfigError: a choice was left to the configurations, and they differ.
        DataError: the numbers of sources and references differ, or there is nothing to score.

    Warns:
        UserWarning: the references have another style than the text that a translator learned.
    """
    source, reference = files
    if len(sources) != len(references):
        raise DataError(
            "the sources and references differ in number, so they do not belong together",
            where=f"{source}, {reference}",
            why=f"{len(sources):,} sources and {len(references):,} references",
        )
    if tokenize is None:
        tokenizers = {name: config.evaluation.tokenize for name, config in configs.items()}
        tokenize = common_setting(tokenizers, "evaluation.tokenize", "name one with --tokenize")
    if lowercase is None:
        cases = {name: config.lowercase for name, config in configs.items()}
        todo = "choose one with --lowercase or --no-lowercase"
        lowercase = common_setting(cases, "evaluation.lowercase", todo)
    for name in configs:
        _warn_of_references(name, style_of(name), references, lowercase)
    outputs = {name: translate(name) for name in configs}
    form = scored_form(configs.values(), lowercase)
    compared = {name: list(map(form, texts)) for name, texts in outputs.items()}
    correct = list(map(form, references))
    scores = compare(compared, correct, tokenize, lowercase=lowercase)
    systems = {}
    for name, texts in compared.items():
        exact = exact_match(texts, correct, lowercase=lowercase)
        table = scores_by_length(sources, texts, correct, tokenize, lowercase=lowercase)
        interval = wilson_interval(round(exact * len(texts) / 100), len(texts))
        measures = Scores(*(signed(measure, form) for measure in scores[name].measures))
        systems[name] = TranslatorScores(measures, exact, interval, tuple(table))
    return Report(
        f"{len(sources):,} sentences of {source}, scored against {reference}",
        len(sources),
        {
            "source": source,
            "reference": reference,
            "sentences": len(sources),
            "tokenize": tokenize,
            "lowercase": lowercase,
        },
        systems,
        {
            name: translated_examples(sources, references, texts, lowercase, form)
            for name, texts in outputs.items()
        },
        _translation_notes(systems, lowercase),
    )


def _warn_of_references(
    name: str, learned: TextStyle | None, references: Sequence[str], lowercase: bool
) -> None:
    """Warn of references in another style than the translations, which have the learned style."""
    if learned is None:
        return
    if lowercase:
        learned = replace(learned, lower_cased=None)
    if found := differences(learned, TextStyle.of(references)):
        warn(
            f"the references look different from the training text of {name}, so scores may be too "
            f"low: they have {', '.join(found)}; give references in the style of the training text "
            "(normalising changes the input only)"
        )


def _translation_notes(systems: Mapping[str, TranslatorScores], lowercase: bool) -> list[str]:
    """What the tables mean, and the signatures of the scores."""
    notes = [
        "",
        "In brackets: the 95 % confidence interval by bootstrap, for exact by Wilson's formula.",
        "TER: lower is better. It ignores case (case:lc), as is usual.",
    ]
    if lowercase:
        notes.append("All scores ignore case, exact matches too.")
    baseline, *others = systems
    if others:
        notes.append(
            f"p: probability of a difference from {baseline} at least this large by chance "
            "(paired bootstrap)."
        )
    measures = systems[baseline].scores.measures
    return [*notes, "Signatures:", *(f"  {m.name:<5} {m.signature}" for m in measures)]


def evaluate_classifiers(
    configs: Mapping[str, RunConfig],
    labels: Mapping[str, Labels],
    data: str,
    classify: Callable[[str, Sequence[Labelled]], np.ndarray],
    text_column: str | int | None = None,
    label_column: str | int | None = None,
    linear_baseline: Callable[[str], LinearBaseline | None] = lambda name: None,
) -> Report[ClassifierScores]:
    """Score classifiers; each but the first is compared with the first by McNemar's test.

    Args:
        configs: the configuration of each classifier, by its name; the baseline first.
        labels: the labels that each classifier knows.
        data: file or folder of labelled examples.
        classify: gives the probability of each label (N, labels) by the classifier of a name. It
            is called for one classifier after the other, so that only one needs to be in memory.
        text_column, label_column: names or positions of columns; None takes those in the
            configurations.
        linear_baseline: gives the linear model to compare the classifier of a name with, if any.

    Raises:
        ConfigError: an example may have several labels for one classifier but not for another, or
            a column is named where columns have no names.
        DataError: the data cannot be read, contain a label that a classifier does not know, or
            give one classifier other labels than another.
        ModelFolderError: a model has no labels.
    """
    # Imported here because it loads torch, which a translator may not need.
    from clearhead.data.reading.parts import read_examples

    several = {name: config.classifier.multi_label for name, config in configs.items()}
    multi_label = common_setting(several, "classifier.multi_label", "evaluate each model by itself")
    named = {"text_column": text_column, "label_column": label_column}
    columns = {key: column for key, column in named.items() if column}
    for name, config in configs.items():
        labels[name].check_any(name)
        _check_columns(name, config, data, columns)
    examples = {
        name: read_examples(
            data, replace(config, data=replace(config.data, **columns)), labels[name].names
        )
        for name, config in configs.items()
    }
    baseline = next(iter(configs))
    for name, others in examples.items():
        if [each.labels for each in others] != [each.labels for each in examples[baseline]]:
            raise DataError(
                "the models cannot be compared",
                where=data,
                why=f"{name} reads other examples or other labels than {baseline}",
                todo="name the column with --label-column, or evaluate each model by itself",
            )
    return score_classifiers(data, labels, examples, classify, multi_label, linear_baseline)


def score_classifiers(
    title: str,
    labels: Mapping[str, Labels],
    examples: Mapping[str, Sequence[Labelled]],
    classify: Callable[[str, Sequence[Labelled]], np.ndarray],
    multi_label: bool,
    linear_baseline: Callable[[str], LinearBaseline | None] = lambda name: None,
) -> Report[ClassifierScores]:
    """Score classifiers on examples in memory; see `evaluate_classifiers`.

    Args:
        title: the name of the data.
        labels: the labels that each classifier knows, by its name; the baseline first.
        examples: for each classifier the same N examples.
        classify: gives the probability of each label (N, labels) by the classifier of a name.
        multi_label: whether an example may have several labels.
        linear_baseline: gives the linear model to compare the classifier of a name with, if any.

    Raises:
        DataError: there is a label that a classifier does not know, or no example.
    """
    truths = {name: _truth(name, examples[name], labels[name]) for name in labels}
    baseline = next(iter(labels))
    systems: dict[str, ClassifierScores] = {}
    predictions: dict[str, Sequence[ClassifiedExample]] = {}
    correct: dict[str, np.ndarray] = {}
    for name, truth in truths.items():
        probabilities, names = classify(name, examples[name]), labels[name].names
        correct[name] = correct_answers(probabilities, truth, multi_label)
        systems[name] = ClassifierScores(
            score_classes(probabilities, truth, names, multi_label),
            None if name == baseline else mcnemar(correct[baseline], correct[name]),
            _linear_scores(
                linear_baseline(name), examples[name], truth, labels[name], correct[name]
            ),
        )
        predictions[name] = classified_examples(examples[name], probabilities, names, multi_label)
    return Report(title, len(examples[baseline]), {"data": title}, systems, predictions)


def _linear_scores(
    model: LinearBaseline | None,
    examples: Sequence[Labelled],
    truth: np.ndarray,
    labels: Labels,
    correct: np.ndarray,
) -> BaselineScores | None:
    """The scores of a linear model; `correct` are the answers of the classifier beside it (N,)."""
    if model is None:
        return None
    probabilities = model.probabilities([example.input for example in examples])
    scores = score_classes(probabilities, truth, labels.names, model.multi_label)
    its_correct = correct_answers(probabilities, truth, model.multi_label)
    comparison = mcnemar(its_correct, correct)
    return BaselineScores(model.amount, scores.accuracy, scores.macro_f1, comparison)


def common_setting(values: Mapping[str, Value], setting: str, todo: str) -> Value:
    """The value that a setting has in the configurations of all models.

    Raises:
        ConfigError: the models differ.
    """
    if len(set(values.values())) > 1:
        raise ConfigError(
            f"the models' configurations differ in {setting}",
            why=", ".join(f"{name} has {str(value).lower()}" for name, value in values.items()),
            todo=todo,
        )
    return next(iter(values.values()))


def _truth(name: str, examples: Sequence[Labelled], labels: Labels) -> np.ndarray:
    try:
        return truth_of(examples, labels)
    except DataError as error:
        # Another of the classifiers may know the label.
        why = f"{name} does not know it; {error.why}"
        raise DataError(error.what, where=error.where, why=why, todo=error.todo) from None


def _check_columns(name: str, config: RunConfig, data: str, columns: Mapping[str, Any]) -> None:
    """Reject columns that the data cannot have."""
    from clearhead.data.reading.feature_sequences import FEATURE_FORMATS
    from clearhead.data.reading.labelled import TEXT_FORMATS

    if "text_column" in columns and config.input == "features":
        raise ConfigError(
            "--text-column has no effect on features", where=name, todo="leave it out"
        )
    if config.input == "features" and isinstance(columns.get("label_column"), int):
        raise ConfigError(
            "--label-column is a position, and files of sequences have a header",
            where=name,
            todo="give the name of the column",
        )
    is_file = not os.path.isdir(os.path.expanduser(data))
    form = (FEATURE_FORMATS if config.input == "features" else TEXT_FORMATS).of(data)
    named = any(isinstance(column, str) for column in columns.values())
    if named and is_file and form is not None and not form.named_columns:
        raise ConfigError(
            "the columns of such a file have no names",
            where=data,
            todo="leave --text-column and --label-column out",
        )
