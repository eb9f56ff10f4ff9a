"""From the files of a run to checked examples, and to what turns them into numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.config import RunConfig
from clearhead.data.feature_sequences import read_feature_sequences
from clearhead.data.labelled import Labelled
from clearhead.data.labelled_checks import check_kept_labelled, check_labelled
from clearhead.data.labelled_report import LabelledReport
from clearhead.data.labelled_texts import read_labelled_texts
from clearhead.data.labels import Labels
from clearhead.data.normaliser import Normaliser
from clearhead.data.validation_split import split_validation
from clearhead.errors import ConfigError
from clearhead.tasks.inputs import FeatureInputs, Inputs, TextInputs
from clearhead.tokenizer import Tokenizer, learn_tokenizer


@dataclass(frozen=True)
class Examples:
    """The examples of each part, as they were read; `test` is only there to be left out."""

    train: Sequence[Labelled]
    validation: Sequence[Labelled]
    test: Sequence[Labelled]


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

    Raises:
        DataError: a file cannot be used.
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
    if not data.validation:
        train, validation = split_validation(train, data.validation_share, config.seed)
    return Examples(train, validation, test)


def _single(files: Sequence[str], part: str) -> Sequence[str]:
    if len(files) > 1:
        raise ConfigError(
            f"data.{part} names {len(files)} files",
            why="examples and their labels are in one file, or one folder",
        )
    return files


def learn_inputs(config: RunConfig, train: Sequence[Labelled]) -> Inputs:
    """What makes numbers of the examples, learned from the training data."""
    if config.input == "features":
        normaliser = Normaliser.learn(
            (example.input for example in train), enabled=config.data.normalise
        )
        return feature_inputs(config, normaliser)
    tokenizer = learn_tokenizer((example.input for example in train), config.tokenizer)
    return text_inputs(config, tokenizer)


def text_inputs(config: RunConfig, tokenizer: Tokenizer) -> TextInputs:
    """Texts by a tokenizer, as the run has them read."""
    return TextInputs(tokenizer, config.data.max_length, "first" in config.classifier.pooling)


def feature_inputs(config: RunConfig, normaliser: Normaliser) -> FeatureInputs:
    """Features by a normaliser, as the run has them read."""
    return FeatureInputs(normaliser, config.data.missing, config.data.max_length)


def checked(
    config: RunConfig, examples: Examples, inputs: Inputs, labels: Labels | None
) -> tuple[Sequence[Labelled], tuple[LabelledReport, LabelledReport]]:
    """The training examples that are used, and the reports on them and on the validation data.

    Raises:
        DataError: a value or a class cannot be learned from; the message has its place.
    """
    lengths = [len(row) for row in inputs.rows(examples.train)]
    kept, report = check_labelled(
        "train",
        examples.train,
        config.data,
        (*examples.validation, *examples.test),
        lengths=lengths,
        labelled=labels is not None,
    )
    lengths = [len(row) for row in inputs.rows(examples.validation)]
    on_validation = check_kept_labelled(
        "validation", examples.validation, config.data, labels, lengths=lengths
    )
    return kept, (report, on_validation)
