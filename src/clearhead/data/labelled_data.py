"""Test data that do not fit what is learned: what an evaluation would refuse, found before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clearhead.data.feature_sequences import read_feature_sequences
from clearhead.data.inputs import FeatureInputs, Inputs, NGrams, SpelledInputs, TextInputs
from clearhead.data.labelled import Labelled, in_columns, read_labelled_texts
from clearhead.data.labelled_checks import check_kept_labelled, check_labelled
from clearhead.data.labelled_report import LabelledReport, finding_of
from clearhead.data.labels import Labels
from clearhead.data.normaliser import Normaliser
from clearhead.data.report import Finding
from clearhead.data.validation_split import split_validation
from clearhead.errors import ConfigError, DataError
from clearhead.settings import RunConfig
from clearhead.tokenizer import Tokenizer, WordTokenizer, learn_tokenizer

SHOWN_NAMES = 5


def in_columns_if_alike(examples: Iterable[Labelled], names: Sequence[str]) -> list[Labelled]:
    """Each example as `in_columns` gives it; as it is, where it has other features."""

    def put(example: Labelled) -> Labelled:
        try:
            return in_columns(example, names)
        except DataError:
            return example

    return [put(example) for example in examples]


def unknown_labels(examples: Sequence[Labelled], labels: Labels, named: str) -> list[Finding]:
    """The examples with a label that the training data lack, in at most one finding.

    Args:
        examples: of the test data.
        labels: those of the training data.
        named: the file or folder that the examples were read from.
    """
    known = set(labels.names)
    found = [example for example in examples if not known.issuperset(example.labels)]
    if not found:
        return []
    names = sorted({name for example in found for name in example.labels} - known)
    more = len(names) - SHOWN_NAMES
    shown = ", ".join(map(repr, names[:SHOWN_NAMES])) + (f" and {more:,} more" if more > 0 else "")
    what = f"the training data lack the label{'s' * (len(names) > 1)} {shown}"
    text = f"the model cannot be judged by it: {what}"
    return [finding_of("unknown_label", text, found, named)]


def unreadable(examples: Sequence[Labelled], inputs: Inputs, named: str) -> list[Finding]:
    """The examples that cannot be brought into the numbers that the model reads.

    They have, for instance, another number of features than the training data, or lack values
    where `data.missing` is "refuse".

    Args:
        examples: of the test data.
        inputs: what makes numbers of them.
        named: the file or folder that the examples were read from.

    Returns:
        a finding for each reason.
    """
    reasons: dict[str, list[Labelled]] = {}
    for example in examples:
        try:
            inputs.rows([example])
        except DataError as error:
            reasons.setdefault(error.what, []).append(example)
    return [
        finding_of("unreadable", f"the model cannot be judged by it: {what}", found, named)
        for what, found in reasons.items()
    ]


# ---- tasks.labelled_data
# From the files of a run to checked examples, and to what turns them into numbers.


@dataclass(frozen=True)
class Examples:
    """The examples of each part, as they were read.

    `test` is only there to be left out of the others, and to be reported on.
    """

    train: Sequence[Labelled]
    validation: Sequence[Labelled]
    test: Sequence[Labelled]


@dataclass(frozen=True)
class LabelledData:
    """What a run learns from and is judged by, ready to use.

    `rows` are the training examples as numbers, `validation_rows` the validation examples.
    """

    inputs: Inputs
    labels: Labels
    train: Sequence[Labelled]
    rows: Sequence[np.ndarray]
    validation: Sequence[Labelled]
    validation_rows: Sequence[np.ndarray]
    reports: tuple[LabelledReport, ...]


def read_examples(path: str, config: RunConfig) -> list[Labelled]:
    """The examples of one file, or of a folder of features, in the form that the run has.

    Raises:
        DataError: it cannot be used; the message has the file and line.
    """
    data = config.data
    if config.input == "features":
        labelled = config.task == "classification"
        return list(read_feature_sequences(path, data.label_column, labelled=labelled))
    several = config.classifier.multi_label
    return list(read_labelled_texts(path, data.text_column, data.label_column, several))


def read_parts(config: RunConfig) -> Examples:
    """All examples of a run; without validation files, a share of the training data stands in.

    Where files name their features, these come in the order that the training data have. Test
    examples with other features are as they were read.

    Raises:
        DataError: a file cannot be used, or no example is left to validate on.
        ConfigError: no training data are named, or a part names more than one file.
    """
    data = config.data
    if not data.train:
        raise ConfigError(
            "data.train names no file", todo="name one: train = ['train.csv'], or a folder"
        )
    train, validation, test = (
        [example for path in _single(files, part) for example in read_examples(path, config)]
        for part, files in (
            ("train", data.train),
            ("validation", data.validation),
            ("test", data.test),
        )
    )
    columns = train[0].columns
    validation = [in_columns(example, columns) for example in validation]
    test = in_columns_if_alike(test, columns)
    if not data.validation:
        train, validation = _split(train, config)
    return Examples(train, validation, test)


def _split(
    examples: Sequence[Labelled], config: RunConfig
) -> tuple[Sequence[Labelled], Sequence[Labelled]]:
    """The examples to train on and those to validate on, of which there is at least one."""
    share = config.data.validation_share
    smallest = config.data.smallest_class if config.task == "classification" else 1
    train, validation = split_validation(examples, share, config.seed, smallest)
    if validation:
        return train, validation
    count = round(share * len(examples))
    why = f"{len(examples)} × data.validation_share = {len(examples)} × {share:g}"
    rounded = f" is {count} example{'' if count == 1 else 's'} when rounded"
    kept = f", and each class keeps {smallest} different inputs to train on"
    raise DataError(
        "no example is left to validate on",
        where=config.data.train[0],
        why=why + rounded + (kept if count else ""),
        todo="give more examples, name validation files, or raise data.validation_share",
    )


def _single(files: Sequence[str], part: str) -> Sequence[str]:
    if len(files) > 1:
        raise ConfigError(
            f"data.{part} names {len(files)} files",
            why="examples and their labels are in one file, or one folder",
        )
    return files


def learn_inputs(config: RunConfig, train: Sequence[Labelled]) -> Inputs:
    """What makes numbers of the examples, learned from the training data.

    Sequences that are too long have no part in it, as they are not trained on. How long a text is
    only the vocabulary tells.
    """
    if config.input == "features":
        short = [e for e in train if len(e.input) <= config.data.max_length]
        normaliser = Normaliser.learn(
            (example.input for example in short or train),
            enabled=config.data.normalise,
            names=train[0].columns,
        )
        return feature_inputs(config, normaliser)
    tokenizer = learn_tokenizer((example.input for example in train), config.tokenizer)
    return text_inputs(config, tokenizer)


def text_inputs(config: RunConfig, tokenizer: Tokenizer) -> TextInputs:
    """Texts by a tokenizer, as the run has them read.

    Raises:
        ConfigError: the words are to be spelt, and the tokenizer knows none.
    """
    model, max_length = config.model, config.data.max_length
    start = "first" in config.classifier.pooling
    if not model.character_ngrams:
        return TextInputs(tokenizer, max_length, start)
    if not isinstance(tokenizer, WordTokenizer):
        raise ConfigError(
            "model.character_ngrams are those of words",
            why="the vocabulary has pieces of words",
            todo="leave character_ngrams out",
        )
    ngrams = NGrams(model.character_ngrams, model.ngram_vectors)
    return SpelledInputs(tokenizer, ngrams, max_length, start)


def feature_inputs(config: RunConfig, normaliser: Normaliser) -> FeatureInputs:
    """Features by a normaliser, as the run has them read."""
    return FeatureInputs(normaliser, config.data.missing, config.data.max_length)


def checked(
    config: RunConfig, examples: Examples, make_inputs: Callable[[Sequence[Labelled]], Inputs]
) -> LabelledData:
    """The examples that are used, the numbers and labels made of them, and the reports on them.

    Args:
        config: the run.
        examples: as they were read.
        make_inputs: given the training examples that are used, those that will prove too long
            among them; makes numbers of examples.

    Raises:
        DataError: a value or a class cannot be learned from; the message has its place.
    """
    made: list[Inputs] = []
    rows: list[np.ndarray] = []

    def lengths(left: Sequence[Labelled]) -> list[int]:
        made.append(make_inputs(left))
        if config.input == "features":
            # Rows are not made of those too long, which had no part in the scale.
            return [len(example.input) for example in left]
        rows.extend(made[0].rows(left))
        return [len(row) for row in rows]

    data, labelled = config.data, config.task == "classification"
    held_out = (*examples.validation, *examples.test)
    train, report = check_labelled(
        "train",
        examples.train,
        data,
        held_out,
        lengths=lengths,
        labelled=labelled,
        named=data.train[0],
    )
    (inputs,) = made
    labels = Labels.learn(example.labels for example in train)
    validation_rows = inputs.rows(examples.validation)
    on_validation = check_kept_labelled(
        "validation",
        examples.validation,
        data,
        labels if labelled else None,
        lengths=[len(row) for row in validation_rows],
        named=(data.validation or data.train)[0],
    )
    if config.input == "features":
        rows = inputs.rows(train)
    kept_rows = [row for row in rows if len(row) <= data.max_length]
    reports = (report, on_validation, *_on_test(config, examples, inputs, labels))
    return LabelledData(
        inputs, labels, train, kept_rows, examples.validation, validation_rows, reports
    )


def _on_test(
    config: RunConfig, examples: Examples, inputs: Inputs, labels: Labels
) -> list[LabelledReport]:
    """What is found in the test examples, if there are any; nothing in them ends a training."""
    test, data = examples.test, config.data
    if not test:
        return []
    named = data.test[0]
    findings: list[Finding] = []
    if config.task == "classification":
        findings += unknown_labels(test, labels, named)
    if config.input == "features":
        # Rows are not made of all, since some may be refused.
        findings += unreadable(test, inputs, named)
        lengths = [len(example.input) for example in test]
    else:
        lengths = [len(row) for row in inputs.rows(test)]
    validation = examples.validation
    report = check_kept_labelled(
        "test", test, data, lengths=lengths, validation=validation, named=named
    )
    return [replace(report, findings=(*report.findings, *findings))]
