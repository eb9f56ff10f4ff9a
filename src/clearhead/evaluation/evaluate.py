"""Evaluate models on examples with known answers, and compare each model with the first."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from clearhead.data.judging.text_style import TextStyle, differences
from clearhead.errors import ConfigError, DataError, warn
from clearhead.evaluation.calibration import THRESHOLD
from clearhead.evaluation.class_scores import (
    BaselineScores,
    ClassifierScores,
    correct_answers,
    mcnemar,
    score_classes,
    truth_of,
)
from clearhead.evaluation.neighbour import score_neighbours
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
from clearhead.text.glossary import Glossary
from clearhead.text.memory import Memory
from clearhead.text.spans import SOFTWARE, count_kept, protection_of

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

        report = translator.evaluate(["A man sleeps."], ["Ein Mann schläft."])
        report.scores["bleu"]

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

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        systems = {name: system.to_dict() for name, system in self.systems.items()}
        return {**self.settings, "systems": systems}

    def __str__(self) -> str:
        """The report as text: short tables for each model."""
        baseline = next(iter(self.systems))
        lines = [self.title]
        for name, system in self.systems.items():
            lines += ["", name, *system.lines(baseline)]
        return "\n".join([*lines, *self.notes])


@dataclass(frozen=True)
class TranslatorSystem:
    """A translator to score: its configuration, and the style of the target text that it learned.

    `translate` gives the translations of the sources (N,). It is called for one system after the
    other, so that only one model needs to be in memory. `glossary` is called after it.
    """

    config: RunConfig
    translate: Callable[[], Sequence[str]]
    style: TextStyle | None = None
    glossary: Callable[[], Glossary | None] = lambda: None


def evaluate_translators(
    systems: Mapping[str, TranslatorSystem],
    files: tuple[str, str],
    sources: Sequence[str],
    references: Sequence[str],
    tokenize: str | None = None,
    lowercase: bool | None = None,
    memory: Callable[[], Memory | None] = lambda: None,
    progress: Callable[[int], object] = lambda done: None,
) -> Report[TranslatorScores]:
    """Score translators; each but the first is compared with the first by paired bootstrap.

    `files` are the names of the sources and references (N,). Of `tokenize` and `lowercase`, None
    takes what the configurations have; a ConfigError if they differ. A DataError if there are other
    numbers of sources than of references, or none. A warning if the references have another style
    than the text that a translator learned.

    If there is a `memory`, the report also has the scores of the nearest neighbours in it;
    `progress` is called with the number of sentences whose neighbour is found.
    """
    source, reference = files
    if len(sources) != len(references):
        raise DataError(
            "the sources and references differ in number, so they do not belong together",
            where=f"{source}, {reference}",
            why=f"{len(sources):,} sources and {len(references):,} references",
        )
    if not sources:
        raise DataError("there is nothing to score")
    if tokenize is None:
        tokenizers = {name: each.config.evaluation.tokenize for name, each in systems.items()}
        tokenize = common_setting(tokenizers, "evaluation.tokenize", "name one with --tokenize")
    if lowercase is None:
        cases = {name: each.config.lowercase for name, each in systems.items()}
        todo = "choose one with --lowercase or --no-lowercase"
        lowercase = common_setting(cases, "evaluation.lowercase", todo)
    for name, system in systems.items():
        _warn_of_references(name, system.style, references, lowercase)
    outputs = {name: system.translate() for name, system in systems.items()}
    form = scored_form([system.config for system in systems.values()], lowercase)
    compared = {name: list(map(form, texts)) for name, texts in outputs.items()}
    correct = list(map(form, references))
    scores = compare(compared, correct, tokenize, lowercase=lowercase)
    found = {}
    protected = [protection_of(system.config.tokenizer) for system in systems.values()]
    # One yardstick for all systems.
    kinds = next((each for each in protected if each.has_symbols), SOFTWARE)
    for name, texts in compared.items():
        glossary = systems[name].glossary()
        terms = glossary.count(sources, outputs[name]) if glossary else None
        exact = exact_match(texts, correct, lowercase=lowercase)
        table = scores_by_length(sources, texts, correct, tokenize, lowercase=lowercase)
        interval = wilson_interval(round(exact * len(texts) / 100), len(texts))
        measures = Scores(*(signed(measure, form) for measure in scores[name].measures))
        spans = count_kept(kinds, sources, outputs[name])
        found[name] = TranslatorScores(measures, exact, interval, tuple(table), spans, terms)
    title = f"{len(sources):,} sentences of {source}, scored against {reference}"
    baseline = dict[str, Any]()
    if known := memory():
        neighbours = score_neighbours(
            known, sources, references, tokenize, lowercase=lowercase, form=form, progress=progress
        )
        title += f"\n{neighbours}"
        baseline["nearest_neighbour"] = asdict(neighbours)
    return Report(
        title,
        len(sources),
        {
            "source": source,
            "reference": reference,
            "sentences": len(sources),
            "tokenize": tokenize,
            "lowercase": lowercase,
            **baseline,
        },
        found,
        {
            name: translated_examples(sources, references, texts, lowercase, form)
            for name, texts in outputs.items()
        },
        _translation_notes(found, lowercase),
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


@dataclass(frozen=True)
class ClassifierSystem:
    """A classifier to score: its configuration and its labels.

    `classify` gives the probability of each label (N, labels) for N examples. It is called for one
    system after the other. `linear_baseline` gives the linear model to compare it with, if any.
    `thresholds` are those of several labels, as in `calibration.decisions`.
    """

    config: RunConfig
    labels: Labels
    classify: Callable[[Sequence[Labelled]], np.ndarray]
    linear_baseline: Callable[[], LinearBaseline | None] = lambda: None
    thresholds: float | np.ndarray = THRESHOLD


def evaluate_classifiers(
    systems: Mapping[str, ClassifierSystem],
    data: str,
    columns: Mapping[str, str | int],
) -> Report[ClassifierScores]:
    """Score classifiers on a file or folder of labelled examples; see `score_classifiers`.

    `columns` are `text_column` and `label_column`, names or positions, where those in the
    configurations do not count. An error if the data cannot be read, or if the classifiers cannot
    be compared on them.
    """
    # Imported here because it loads torch, which a translator may not need.
    from clearhead.data.reading.parts import read_examples

    _multi_label(systems)
    examples: dict[str, Sequence[Labelled]] = {}
    for name, system in systems.items():
        config = system.config
        system.labels.check_any(name)
        _check_columns(name, config, data, columns)
        config = replace(config, data=replace(config.data, **columns))
        examples[name] = read_examples(data, config, system.labels.names)
    baseline = next(iter(systems))
    for name, others in examples.items():
        if [each.labels for each in others] != [each.labels for each in examples[baseline]]:
            raise DataError(
                "the models cannot be compared",
                where=data,
                why=f"{name} reads other examples or other labels than {baseline}",
                todo="name the column with --label-column, or evaluate each model by itself",
            )
    return score_classifiers(data, systems, examples)


def score_classifiers(
    title: str,
    systems: Mapping[str, ClassifierSystem],
    examples: Mapping[str, Sequence[Labelled]],
) -> Report[ClassifierScores]:
    """Score classifiers; each but the first is compared with the first by McNemar's test.

    All have the same N examples, with their own form of the inputs. `title` is the name of the
    data.
    """
    multi_label = _multi_label(systems)
    truths = {name: _truth(name, examples[name], each.labels) for name, each in systems.items()}
    baseline = next(iter(systems))
    scores: dict[str, ClassifierScores] = {}
    predictions: dict[str, Sequence[ClassifiedExample]] = {}
    correct: dict[str, np.ndarray] = {}
    for name, system in systems.items():
        truth, names = truths[name], system.labels.names
        probabilities = system.classify(examples[name])
        decided = multi_label, system.thresholds
        correct[name] = correct_answers(probabilities, truth, *decided)
        linear = None
        if (model := system.linear_baseline()) is not None:
            theirs = model.probabilities(examples[name])
            its_scores = score_classes(theirs, truth, names, multi_label)
            comparison = mcnemar(correct_answers(theirs, truth, multi_label), correct[name])
            linear = BaselineScores(
                model.features,
                model.amount,
                its_scores.accuracy,
                its_scores.macro_f1,
                comparison,
            )
        scores[name] = ClassifierScores(
            score_classes(probabilities, truth, names, *decided),
            None if name == baseline else mcnemar(correct[baseline], correct[name]),
            linear,
        )
        predictions[name] = classified_examples(examples[name], probabilities, names, *decided)
    return Report(title, len(examples[baseline]), {"data": title}, scores, predictions)


def _multi_label(systems: Mapping[str, ClassifierSystem]) -> bool:
    several = {name: each.config.classifier.multi_label for name, each in systems.items()}
    return common_setting(several, "classifier.multi_label", "evaluate each model by itself")


def common_setting(values: Mapping[str, Value], setting: str, todo: str) -> Value:
    """The value that a setting has in the configurations of all models; a ConfigError if none."""
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
