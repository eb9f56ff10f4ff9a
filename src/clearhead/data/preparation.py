"""From the parts of the data to the data of a task: read, check, encode.

There may be many millions of sentence pairs: training pairs are read as a stream and written to a
corpus on disk. Labelled examples are kept in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import numpy as np

from clearhead.data.checks import LABELLED, PAIRS, Checker, Lengths
from clearhead.data.corpus import Corpus, Tokenizers, build_corpus, encode_pairs, lengths_of
from clearhead.data.features import count_features
from clearhead.data.inputs import FeatureInputs, Inputs, feature_inputs, text_inputs
from clearhead.data.labelled import Labelled, in_columns
from clearhead.data.labels import Labels
from clearhead.data.normaliser import Normaliser
from clearhead.data.parts import DataPart, Parts
from clearhead.data.readers import Pair
from clearhead.data.report import (
    FINDINGS,
    SHOWN_PLACES,
    DataReport,
    Finding,
    count_classes,
    write_findings,
)
from clearhead.data.tables import header_hint
from clearhead.data.validation_split import split_validation
from clearhead.errors import ConfigError, DataError, first_few
from clearhead.files import unwritable
from clearhead.settings import DataConfig, RunConfig
from clearhead.tokenizer import Tokenizer, learn_tokenizer

SHOWN_NAMES = 5


@dataclass(frozen=True)
class TranslationData:
    """The training and validation data of a translator.

    `findings` are files with all places, for the reports that have only the first ones.
    """

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    corpus: Corpus
    validation: tuple[Pair, ...]
    reports: tuple[DataReport, ...]
    findings: tuple[Path, ...] = ()


def learn_tokenizers(config: RunConfig, parts: Parts) -> Tokenizers:
    """The tokenizers of source and target, learned from the training pairs.

    Held-out pairs are ignored, unless `drop_held_out` is false.

    Raises:
        DataError: a file cannot be used, or no pair is left.
        ConfigError: `max_vocabulary` is too small for the pairs, or one matrix is to be shared by
            two vocabularies.
    """

    def learn(*sides: int) -> Tokenizer:
        texts = (pair[side] for pair in _pairs_to_learn(config, parts) for side in sides)
        return learn_tokenizer(texts, config.tokenizer)

    if config.tokenizer.joint:
        both = learn(0, 1)
        return both, both
    if config.model.shares_inputs:
        sharing = config.model.share_embeddings
        raise ConfigError(
            f"model.share_embeddings = {sharing!r} needs one joint vocabulary",
            why="tokenizer.joint = false makes two",
            todo="set tokenizer.joint = true, or share_embeddings = 'target'",
        )
    return learn(0), learn(1)


def _pairs_to_learn(config: RunConfig, parts: Parts) -> Iterator[tuple[str, str]]:
    dropped = parts.held_out if config.data.drop_held_out else ()
    of_pair = PAIRS.hashes["pair"]
    hashes = {of_pair(pair) for pair in dropped}
    is_empty = True
    for pair in parts.train.pairs():
        if of_pair(pair) not in hashes:
            is_empty = False
            yield pair.source, pair.target
    if is_empty:
        raise DataError(
            "no pair is left to train on",
            where=parts.train.where,
            why="all pairs are also in the validation or test data",
            todo="name other files, or set data.drop_held_out = false",
        )


def prepare_pairs(
    config: RunConfig,
    parts: Parts,
    tokenizers: Tokenizers,
    folder: Path,
    progress: Callable[[int], None] | None = None,
) -> TranslationData:
    """Check all pairs and encode the training pairs into a corpus under `folder`.

    The validation and test pairs of `parts` are in memory. `progress` is called with the number of
    training pairs read so far.

    Raises:
        DataError: a file cannot be used; `where` is the file and line.
    """
    corpus = build_corpus(folder, parts.train, tokenizers, config.data, parts.held_out, progress)
    found = [(corpus.report, corpus.findings)]
    for part, held_out in ((parts.validation, ()), (parts.test, parts.validation.examples)):
        if not part:
            continue
        file = corpus.folder / f"{part.name}-{FINDINGS}"
        checker = Checker(part, PAIRS, config.data, held_out)
        lengths = lengths_of(encode_pairs(part.examples, tokenizers))
        try:
            with write_findings(file) as note:
                checker.check(part.examples, lengths, note)
        except OSError as error:
            raise unwritable(file, error, DataError) from None
        found.append((checker.report(), file))
    reports = tuple(report for report, _ in found)
    files = tuple(file for report, file in found if report.has_more)
    return TranslationData(*tokenizers, corpus, parts.validation.examples, reports, files)


@dataclass(frozen=True)
class LabelledData:
    """The training and validation data of a classifier.

    `rows` are the training examples as numbers, `validation_rows` the validation examples.
    """

    inputs: Inputs
    labels: Labels
    train: Sequence[Labelled]
    rows: Sequence[np.ndarray]
    validation: Sequence[Labelled]
    validation_rows: Sequence[np.ndarray]
    reports: tuple[DataReport, ...]


def read_labelled(config: RunConfig, parts: Parts) -> Parts:
    """The parts with all examples in memory.

    Without validation files, a share of the training data becomes the validation part. If files
    name their features, these are put into the order of the training data.

    Raises:
        DataError: a file cannot be used, or no example is left to validate on.
        ConfigError: a part has two files.
    """
    train, validation, test = (part.read(config) for part in parts)
    columns = train.examples[0].columns

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
    count = round(share * len(examples))
    why = f"{len(examples)} × data.validation_share = {len(examples)} × {share:g} is {count} "
    why += f"example{'' if count == 1 else 's'} when rounded"
    if count:
        why += f", and each class keeps {smallest} different inputs to train on"
    raise DataError(
        "no example is left to validate on",
        where=part.where,
        why=why,
        todo="give more examples, name validation files, or raise data.validation_share",
    )


def learn_inputs(config: RunConfig, train: Sequence[Labelled]) -> Inputs:
    """The vocabulary, or the scale of features, learned from the training examples.

    Sequences that are too long are ignored, because they are dropped. Which texts are too long is
    not known without a vocabulary.
    """
    if config.input == "features":
        short = [example for example in train if len(example.input) <= config.data.max_length]
        normaliser = Normaliser.learn(
            (example.input for example in short or train),
            enabled=config.data.normalise,
            names=train[0].columns,
        )
        return feature_inputs(config, normaliser)
    tokenizer = learn_tokenizer((example.input for example in train), config.tokenizer)
    return text_inputs(config, tokenizer)


def prepare_labelled(
    config: RunConfig, parts: Parts, make_inputs: Callable[[Sequence[Labelled]], Inputs]
) -> LabelledData:
    """Check all examples of `read_labelled` and turn them into numbers.

    `make_inputs` is called with the training examples that no rule has dropped so far, among them
    examples that are too long.

    Raises:
        DataError: a value or a class cannot be learned from; `where` is its place.
    """
    data, features = config.data, config.input == "features"
    inputs: Inputs | None = None
    row_of: dict[int, np.ndarray] = {}

    def count(left: Sequence[Labelled]) -> list[int]:
        nonlocal inputs
        inputs = make_inputs(left)
        # Sequences that are too long may have values outside the learned scale.
        if features:
            return [len(example.input) for example in left]
        rows = inputs.rows(left)
        row_of.update(zip(map(id, left), rows, strict=True))
        return [len(row) for row in rows]

    train, report = check_labelled(parts.train, data, parts.held_out, count)
    if inputs is None or not train:
        why = "\n".join(report.lines())
        todo = "correct the data, or change the settings in [data] that leave the examples out"
        raise DataError("no example is left to train on", where="train", why=why, todo=todo)
    check_classes(parts.train.examples, report, data.smallest_class)
    rows = inputs.rows(train) if features else [row_of[id(example)] for example in train]

    labels = Labels.learn(example.labels for example in train)
    validation, test = parts.validation.examples, parts.test.examples
    validation_rows = inputs.rows(validation)
    for example in validation:
        labels.encode(example.labels, example.place)
    lengths = lengths_of([validation_rows])
    reports = [report, check_labelled(parts.validation, data, (), lengths)[1]]
    if test:
        # Some test sequences may be unreadable.
        contents = [example.input for example in test] if features else inputs.rows(test)
        _, on_test = check_labelled(parts.test, data, validation, lengths_of([contents]))
        findings = (*on_test.findings, *_unusable(parts.test, labels, inputs))
        reports.append(replace(on_test, findings=findings))
    return LabelledData(inputs, labels, train, rows, validation, validation_rows, tuple(reports))


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
    """Check the classes of the training examples, including dropped ones, and of their report.

    Raises:
        DataError: a class has fewer than `smallest_class` examples, or there is only one class.
    """
    kept, read = dict(report.classes), dict(count_classes(examples))
    for name in sorted(read):
        count = kept.get(name, 0)
        if count >= smallest_class:
            continue
        place = next(example.place for example in examples if name in example.labels)
        allow = f", or allow it: data.smallest_class = {count}" if count else ""
        allow += header_hint(place)
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


def _unusable(part: DataPart, labels: Labels, inputs: Inputs) -> tuple[Finding, ...]:
    """The test examples that an evaluation would reject, one finding for each reason."""
    found: dict[tuple[str, str], list[Labelled]] = {}
    known = set(labels.names)
    unknown = [example for example in part.examples if not known.issuperset(example.labels)]
    if names := sorted({name for example in unknown for name in example.labels} - known):
        listed = first_few(list(map(repr, names)), SHOWN_NAMES)
        what = f"the training data lack the label{'s' * (len(names) > 1)} {listed}"
        found["unknown_label", what] = unknown
    for example in part.examples if isinstance(inputs, FeatureInputs) else ():
        try:
            inputs.rows([example])
        except DataError as error:  # such as another number of features, or a missing value
            found.setdefault(("unreadable", error.what), []).append(example)
    return tuple(
        Finding(
            rule,
            f"the model cannot be evaluated on it: {what}",
            len(examples),
            tuple(map(part.place, examples[:SHOWN_PLACES])),
            left_out=False,
        )
        for (rule, what), examples in found.items()
    )
