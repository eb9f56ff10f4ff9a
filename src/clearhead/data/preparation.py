"""From the parts of the data to the data of a task: read, check, encode.

There may be many millions of sentence pairs: training pairs are read as a stream and written to a
corpus on disk. Labelled examples are kept in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clearhead.data.corpus import (
    Corpus,
    Tokenizers,
    build_corpus,
    encode_pairs,
    lengths_of,
    mask_pair,
    remove_other_corpora,
)
from clearhead.data.inputs import FeatureInputs, Inputs, feature_inputs, text_inputs
from clearhead.data.judging.checks import PAIRS, Checker
from clearhead.data.judging.report import FINDINGS, DataReport, Finding, write_findings
from clearhead.data.labels import Labels
from clearhead.data.normaliser import Normaliser
from clearhead.data.reading.labelled import Labelled
from clearhead.data.reading.pairs import Pair
from clearhead.data.reading.parts import DataPart, Parts
from clearhead.data.trainable import (
    check_labelled,
    learn_labels,
    pairs_to_learn,
    unknown_labels,
    unusable,
)
from clearhead.errors import ConfigError, DataError
from clearhead.folder.files import atomic_file
from clearhead.settings import RunConfig
from clearhead.text.spans import protection_of
from clearhead.tokenizer import Tokenizer, form_of, learn_tokenizer, with_form

FEWEST = 20
"""Fewer validation examples do not choose the weights or the temperature of a classifier: see
docs/decisions/0021."""


@dataclass(frozen=True)
class TranslationData:
    """The training and validation data of a translator, and the earlier pairs to replay.

    `findings` are files with all places, for the reports that have only the first ones.
    """

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    corpus: Corpus
    validation: tuple[Pair, ...]
    reports: tuple[DataReport, ...]
    replay: Corpus | None = None
    findings: tuple[Path, ...] = ()


def learn_tokenizers(config: RunConfig, parts: Parts) -> Tokenizers:
    """The tokenizers of source and target, learned from the training pairs.

    Held-out pairs are ignored, unless `drop_held_out` is false.
    """
    form = form_of(config, (pair.source for pair in parts.train.pairs()))
    forms = form, form.of_target()
    protection = protection_of(config.tokenizer)

    def learn(*sides: int) -> Tokenizer:
        pairs = (mask_pair(pair, protection) for pair in pairs_to_learn(config, parts))
        texts = (forms[side](pair[side]) for pair in pairs for side in sides)
        return learn_tokenizer(texts, config.tokenizer, forms[sides[-1]])

    if config.tokenizer.joint:
        both = learn(0, 1)
        return with_form(both, form), both
    if config.model.shares_inputs:
        sharing = config.model.share_embeddings
        raise ConfigError(
            f"model.share_embeddings = {sharing!r} needs one joint vocabulary",
            why="tokenizer.joint = false makes two",
            todo="set tokenizer.joint = true, or share_embeddings = 'target'",
        )
    return learn(0), learn(1)


def prepare_pairs(
    config: RunConfig,
    parts: Parts,
    tokenizers: Tokenizers,
    folder: Path,
    progress: Callable[[int], None] | None = None,
    note: Callable[[str], object] = lambda line: None,
    checks: bool = True,
) -> TranslationData:
    """Check all pairs and encode the training pairs into a corpus under `folder`.

    The validation and test pairs of `parts` are in memory. `progress` is called with the number of
    training pairs read so far, `note` with lines about an earlier corpus. With `checks` the
    findings in the validation and test pairs are reported and written beside the corpus.
    """
    data, held_out, protection = config.data, parts.held_out, protection_of(config.tokenizer)
    corpus = build_corpus(
        folder, parts.train, tokenizers, data, held_out, progress, note, protection
    )
    found = [(corpus.report, corpus.findings)]
    replay = None
    if parts.replay:
        replay = build_corpus(
            folder, parts.replay, tokenizers, data, held_out, note=note, protection=protection
        )
        found.append((replay.report, replay.findings))
    remove_other_corpora(folder, [each.folder for each in (corpus, replay) if each is not None])
    for part, earlier in ((parts.validation, ()), (parts.test, parts.validation.examples)):
        if not (part and checks):
            continue
        file = corpus.folder / f"{part.name}-{FINDINGS}"
        checker = Checker(part, PAIRS, data, earlier, protection)
        lengths = lengths_of(encode_pairs(part.examples, tokenizers, protection))
        with atomic_file(file, DataError) as unfinished, write_findings(unfinished) as note_place:
            checker.check(part.examples, lengths, note_place)
        found.append((checker.report(), file))
    reports = tuple(report for report, _ in found)
    files = tuple(file for report, file in found if report.has_more)
    return TranslationData(*tokenizers, corpus, parts.validation.examples, reports, replay, files)


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


def learn_inputs(config: RunConfig, train: Sequence[Labelled]) -> Inputs:
    """The vocabulary, or the scale of features, learned from the training examples."""
    if config.input == "features":
        normaliser = Normaliser.learn(
            (example.input for example in train),
            enabled=config.data.normalise,
            names=train[0].columns,
        )
        return feature_inputs(config, normaliser)
    texts = [example.input for example in train]
    # A classifier reads spans as text.
    settings = replace(config.tokenizer, protect=(), protect_patterns=())
    tokenizer = learn_tokenizer(texts, settings, form_of(config, texts))
    return text_inputs(config, tokenizer)


def prepare_labelled(
    config: RunConfig, parts: Parts, make_inputs: Callable[[Sequence[Labelled]], Inputs]
) -> LabelledData:
    """Check all examples of `read_labelled` and turn them into numbers.

    `make_inputs` is called with the training examples that no rule drops.
    """
    data, features = config.data, config.input == "features"
    learned: list[tuple[Inputs, list[np.ndarray]]] = []

    def count(left: Sequence[Labelled]) -> list[int]:
        inputs = make_inputs(left)
        learned.append((inputs, inputs.rows(left)))
        return [len(row) for row in learned[0][1]]

    train, report, labels = learn_labels(parts, data, count)
    [(inputs, rows)] = learned  # of the examples that no rule drops, which are those of `train`
    validation, test = parts.validation.examples, parts.test.examples
    validation_rows = inputs.rows(validation)
    lengths = lengths_of([validation_rows])
    on_validation = check_labelled(parts.validation, data, (), lengths)[1]
    if len(validation) < FEWEST:
        findings = (*on_validation.findings, _too_few(parts.validation, config.training.keep))
        on_validation = replace(on_validation, findings=findings)
    reports = [report, on_validation]
    if test:
        # Some test sequences may be unreadable.
        contents = [example.input for example in test] if features else inputs.rows(test)
        _, on_test = check_labelled(parts.test, data, validation, lengths_of([contents]))
        findings = (*on_test.findings, *_unusable(parts.test, labels, inputs))
        reports.append(replace(on_test, findings=findings))
    return LabelledData(inputs, labels, train, rows, validation, validation_rows, tuple(reports))


def _too_few(part: DataPart, keep: str) -> Finding:
    text = f"fewer than {FEWEST} examples are too few to choose by: the temperature stays 1"
    if keep == "auto":
        text += ', and the last weights are kept (training.keep = "average")'
    return Finding("too_few", text, len(part.examples), (), left_out=False)


def _unusable(part: DataPart, labels: Labels, inputs: Inputs) -> tuple[Finding, ...]:
    """The test examples that an evaluation would reject, one finding for each reason."""
    found: dict[str, list[Labelled]] = {}
    for example in part.examples if isinstance(inputs, FeatureInputs) else ():
        try:
            inputs.rows([example])
        except DataError as error:  # such as another number of features, or a missing value
            found.setdefault(error.what, []).append(example)
    unreadable = (unusable(part, "unreadable", what, each) for what, each in found.items())
    return (*unknown_labels(part, labels), *unreadable)
