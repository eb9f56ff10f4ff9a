"""Whether data can be trained on, as far as that is known without a vocabulary.

`check_trainable` is for `init`. Training makes the same checks, and later those that need tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, compress
from typing import NamedTuple

from clearhead.data.judging.agreement import check_agreement, check_labels
from clearhead.data.judging.checks import LABELLED, PAIRS, Checker, Lengths
from clearhead.data.judging.report import SHOWN_PLACES, DataReport, Finding, count_classes
from clearhead.data.labels import Labels
from clearhead.data.reading.columns import columns_hint
from clearhead.data.reading.features import count_features
from clearhead.data.reading.labelled import SEPARATOR, Labelled, in_columns
from clearhead.data.reading.pairs import Pair, corpora_of
from clearhead.data.reading.parts import DataPart, Parts, parts_of
from clearhead.data.validation_split import count_apart, split_validation
from clearhead.errors import ConfigError, DataError, first_few
from clearhead.settings import DataConfig, RunConfig

SHOWN_NAMES = 5

NONE_TO_TRAIN = "correct the data, or change the settings in [data] that leave the examples out"
NONE_TO_VALIDATE = "give more examples, name validation files, or raise data.validation_share"
NO_REGRESSION = (
    "if the labels are numbers (no regression): put them into a few groups, such as low and high"
)


def check_trainable(config: RunConfig) -> list[str]:
    """Read and check the files of a run; the result has a line for each warning.

    Raises:
        DataError: training would refuse the data.
        ConfigError: a part that the run needs is missing.
    """
    if config.task == "translation" and not config.data.validation:
        # If these are no pairs, that is the first thing to know.
        train = DataPart("train", config.data.train)
        check_agreement(config, Parts(train, DataPart("validation"), DataPart("test")))
    parts = parts_of(config)
    if config.task == "translation":
        check_weights(config)
        validation, test = parts.validation.read(config), parts.test.read(config)
        parts = parts._replace(validation=validation, test=test)
        warnings = check_agreement(config, parts)
        next(pairs_to_learn(config, parts))
        return warnings
    parts = read_labelled(config, parts)
    warnings = check_agreement(config, parts)
    labels = learn_labels(parts, config.data).labels
    unknown = unknown_labels(parts.test, labels)
    return [*warnings, *(finding.line(parts.test.name) for finding in unknown)]


def check_weights(config: RunConfig) -> None:
    """Raise a `ConfigError` unless there is a weight for each data set, or none."""
    weights, sets = config.data.weights, len(corpora_of(config.data.train))
    if weights and not any(weights):
        what, why = "all of data.weights are 0", "so no pair is left to train on"
    elif weights and len(weights) != sets:
        what = f"data.weights has {len(weights)} numbers for {sets} data sets"
        why = "two parallel files are one data set, like a file with both sides"
    else:
        return
    todo = "give one for each data set, at least one of them above 0"
    raise ConfigError(what, setting="data.weights", why=why, todo=todo)


def pairs_to_learn(config: RunConfig, parts: Parts) -> Iterator[Pair]:
    """The training pairs that are not held out; it is an error if there are none."""
    dropped = parts.held_out if config.data.drop_held_out else ()
    of_pair = PAIRS.hashes["pair"]
    hashes = {of_pair(pair) for pair in dropped}
    learned = (pair for pair in parts.train.pairs() if of_pair(pair) not in hashes)
    if (first := next(learned, None)) is None:
        raise DataError(
            "no pair is left to train on",
            where=parts.train.where,
            why="all pairs are also in the validation or test data",
            todo="name other files, or set data.drop_held_out = false",
        )
    yield from chain([first], learned)


def read_labelled(config: RunConfig, parts: Parts) -> Parts:
    """The parts with all examples in memory.

    Without validation files, a share of the training data becomes the validation part. If files
    name their features, these are put into the order of the first training example.

    Raises:
        DataError: a file cannot be used, or no example is left to validate on.
    """
    train, validation, test = (part.read(config) for part in parts[:3])
    check_labels(config, train)
    columns = train.examples[0].columns
    train = replace(train, examples=tuple(in_columns(each, columns) for each in train.examples))

    def in_columns_if_possible(example: Labelled) -> Labelled:
        try:
            return in_columns(example, columns)
        except DataError:
            return example  # the report on the test data mentions it

    test = replace(test, examples=tuple(map(in_columns_if_possible, test.examples)))
    if not validation:
        return Parts(*_split(config, train), test)
    ordered = tuple(in_columns(example, columns) for example in validation.examples)
    return Parts(train, replace(validation, examples=ordered), test)


def _split(config: RunConfig, part: DataPart) -> tuple[DataPart, DataPart]:
    examples = part.examples
    share, smallest = config.data.validation_share, config.data.smallest_class
    train, validation = split_validation(examples, share, config.seed, smallest)
    if validation:
        return replace(part, examples=train), DataPart("validation", part.files, validation)
    number, todo = len(examples), NONE_TO_VALIDATE
    if round(share * number) == 0:
        why = f"{number} × data.validation_share = {number} × {share:g} is 0 examples when rounded"
    else:
        apart, labels = count_apart(examples), len({each.labels for each in examples})
        unit = "groups" if any(each.group for each in examples) else "different inputs"
        why = (
            f"{number:,} examples with {labels:,} labels are {apart:,} {unit}; these stay "
            f"together, and each label keeps {smallest} of them to train on"
        )
        if apart <= (smallest + 1) * labels:
            todo = f"give examples with more {unit}"
        if 2 * labels > number:
            todo += f"; {NO_REGRESSION}"
    raise DataError("no example is left to validate on", where=part.where, why=why, todo=todo)


class Learned(NamedTuple):
    """The training examples that are used, the report on all, and the labels."""

    train: tuple[Labelled, ...]
    report: DataReport
    labels: Labels


def learn_labels(parts: Parts, config: DataConfig, lengths: Lengths | None = None) -> Learned:
    """Check the training examples of `read_labelled`, and learn their labels.

    Raises:
        DataError: no example is left, a class has too few, or a validation label is none of these.
    """
    part = parts.train
    train, report = check_labelled(part, config, parts.held_out, lengths)
    if report.kept == 0:
        why = "\n".join(report.lines())
        what = "no example is left to train on"
        raise DataError(what, where=part.where, why=why, todo=NONE_TO_TRAIN)
    check_classes(part.examples, report, config.smallest_class)
    labels = Labels.learn(example.labels for example in train)
    for example in parts.validation.examples:
        labels.encode(example.labels, example.place)
    return Learned(train, report, labels)


def check_labelled(
    part: DataPart,
    config: DataConfig,
    held_out: Sequence[Labelled] = (),
    lengths: Lengths | None = None,
) -> tuple[tuple[Labelled, ...], DataReport]:
    """The examples that are used, and the report on all; see `Checker` for the arguments."""
    checker = Checker(part, LABELLED, config, held_out)
    kept = tuple(compress(part.examples, checker.check(part.examples, lengths)))
    features = count_features(kept, config.missing)
    return kept, replace(checker.report(), classes=count_classes(kept), features=features)


def check_classes(examples: Sequence[Labelled], report: DataReport, smallest_class: int) -> None:
    """Check that there are classes, with enough training examples that are not dropped."""
    kept, read = dict(report.classes), dict(count_classes(examples))
    for name in sorted(read):
        count = kept.get(name, 0)
        if count >= smallest_class:
            continue
        place = next(example.place for example in examples if name in example.labels)
        allow = f", or allow it: data.smallest_class = {count}" if count else ""
        if SEPARATOR in name:
            allow += "; if | separates labels: classifier.multi_label = true (init: --multi-label)"
        allow += columns_hint(place, name)
        raise DataError(
            f"the class {name!r} has {count} training example{'' if count == 1 else 's'}, "
            f"and {smallest_class} are needed",
            where=place,
            why=f"{read[name] - count} more were left out" if read[name] > count else None,
            todo=f"add examples, merge it with another class or remove it{allow}",
        )
    if len(read) < 2:
        raise DataError(
            f"there is only one class: {next(iter(read))!r}" if read else "there is no label",
            where=examples[0].place,
            todo="give examples of at least two classes",
        )


def unknown_labels(part: DataPart, labels: Labels) -> tuple[Finding, ...]:
    """A finding for the examples of a part with labels that the training data lack, if any."""
    known = set(labels.names)
    unknown = [example for example in part.examples if not known.issuperset(example.labels)]
    names = sorted({name for example in unknown for name in example.labels} - known)
    if not names:
        return ()
    listed = first_few(list(map(repr, names)), SHOWN_NAMES)
    what = f"the training data lack the label{'s' * (len(names) > 1)} {listed}"
    return (unusable(part, "unknown_label", what, unknown),)


def unusable(part: DataPart, rule: str, what: str, examples: Sequence[Labelled]) -> Finding:
    """The finding for examples on which no model can be evaluated."""
    text = f"the model cannot be evaluated on it: {what}"
    places = tuple(map(part.place, examples[:SHOWN_PLACES]))
    return Finding(rule, text, len(examples), places, left_out=False)
