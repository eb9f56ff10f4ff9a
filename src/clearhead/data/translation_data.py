"""The data of a translation: what is held out, the vocabulary, and the encoded training pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clearhead.data.checks import FINDINGS, HeldOut, check_kept, noting, pair_hash
from clearhead.data.corpus import Corpus, build_corpus
from clearhead.data.readers import Pair, read_pairs
from clearhead.data.report import DataReport
from clearhead.errors import ConfigError, DataError
from clearhead.settings import RunConfig
from clearhead.tokenizer import Tokenizer, learn_tokenizer


@dataclass(frozen=True)
class TranslationData:
    """What a run learns from and is judged by, ready to use.

    `findings` are files of all that was found in a part, where its report has the first places.
    """

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    corpus: Corpus
    validation: tuple[Pair, ...]
    reports: tuple[DataReport, ...]
    findings: tuple[Path, ...] = ()


@dataclass(frozen=True)
class HeldOutPairs:
    """The pairs that a run is judged by, and does not learn from."""

    validation: tuple[Pair, ...] = ()
    test: tuple[Pair, ...] = ()


NOTHING_HELD_OUT = HeldOutPairs()


def read_held_out(config: RunConfig) -> HeldOutPairs:
    """The validation and test pairs, read whole, so that their errors come before all work.

    Raises:
        DataError: a file cannot be used; the message has the file and line.
        ConfigError: no training or validation data is named.
    """
    _training_files(config)
    if not config.data.validation:
        raise ConfigError(
            "data.validation names no files",
            why="training is judged, and its best model picked, on pairs it does not learn from",
            todo="name two parallel files; a thousand pairs split off the training data will do",
        )
    validation = tuple(read_pairs(config.data.validation, "validation"))
    test = tuple(read_pairs(config.data.test, "test")) if config.data.test else ()
    return HeldOutPairs(validation, test)


def learn_tokenizers(
    config: RunConfig, held_out: HeldOutPairs = NOTHING_HELD_OUT
) -> tuple[Tokenizer, Tokenizer]:
    """The source's and the target's tokenizer, learned from the training pairs.

    Those of them that are held out are not learned from, unless `drop_held_out` is false.

    Raises:
        DataError: a file cannot be used, or no pair is left.
        ConfigError: no training data is named, or `max_vocabulary` is too small for them, or both
            vocabularies are to share one matrix though they are two.
    """
    if config.tokenizer.joint:
        pairs = _pairs_to_learn(config, held_out)
        both = learn_tokenizer((text for pair in pairs for text in pair[:2]), config.tokenizer)
        return both, both
    if config.model.share_embeddings == "all":
        raise ConfigError(
            "model.share_embeddings = 'all' needs one joint vocabulary",
            why="tokenizer.joint = false makes two",
            todo="set tokenizer.joint = true, or share_embeddings = 'target'",
        )
    sources = (pair.source for pair in _pairs_to_learn(config, held_out))
    targets = (pair.target for pair in _pairs_to_learn(config, held_out))
    return learn_tokenizer(sources, config.tokenizer), learn_tokenizer(targets, config.tokenizer)


def _pairs_to_learn(config: RunConfig, held_out: HeldOutPairs) -> Iterator[Pair]:
    files, left = _training_files(config), False
    dropped = (*held_out.validation, *held_out.test) if config.data.drop_held_out else ()
    hashes = set(HeldOut(dropped).pairs.tolist())
    for pair in read_pairs(files):
        if pair_hash(pair.source, pair.target) not in hashes:
            left = True
            yield pair
    if not left:
        raise DataError(
            "no pair is left to train on",
            where=", ".join(files),
            why="every one of them is also in the validation or test data",
            todo="name other files, or set data.drop_held_out = false",
        )


def prepare_data(
    config: RunConfig,
    folder: Path,
    tokenizers: tuple[Tokenizer, Tokenizer],
    held_out: HeldOutPairs,
    progress: Callable[[int], None] | None = None,
) -> TranslationData:
    """Check all data and encode the training pairs into a corpus under `folder`.

    Raises:
        DataError: a file cannot be used; the message has the file and line.
        ConfigError: no training data is named.
    """
    corpus, report = build_corpus(
        folder,
        _training_files(config),
        *tokenizers,
        config.data,
        forbidden=(*held_out.validation, *held_out.test),
        progress=progress,
    )
    reports, files_of_findings = [report], [corpus.findings]
    for name, files, pairs, others in (
        ("validation", config.data.validation, held_out.validation, ()),
        ("test", config.data.test, held_out.test, held_out.validation),
    ):
        if files:
            lengths = _lengths(pairs, tokenizers)
            findings = corpus.folder / f"{name}-{FINDINGS}"
            try:
                with noting(findings) as note:
                    found = check_kept(name, files, pairs, lengths, config.data, others, note)
            except OSError as error:
                what = "the findings cannot be written"
                raise DataError(what, where=findings, why=str(error)) from None
            reports.append(found)
            files_of_findings.append(findings)
    more = tuple(
        file for file, part in zip(files_of_findings, reports, strict=True) if part.has_more
    )
    return TranslationData(*tokenizers, corpus, held_out.validation, tuple(reports), more)


def _lengths(
    pairs: Sequence[Pair], tokenizers: tuple[Tokenizer, Tokenizer]
) -> tuple[list[int], list[int]]:
    """The tokens of each source and of each target."""
    source_ids = tokenizers[0].encode_batch([pair.source for pair in pairs])
    target_ids = tokenizers[1].encode_batch([pair.target for pair in pairs])
    return [len(ids) for ids in source_ids], [len(ids) for ids in target_ids]


def _training_files(config: RunConfig) -> Sequence[str]:
    if not config.data.train:
        raise ConfigError(
            "data.train names no files",
            todo="name two parallel files: train = ['train.en', 'train.de']",
        )
    return config.data.train
