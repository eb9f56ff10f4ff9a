"""Text to ids and back: whole words, or SentencePiece pieces (BPE and unigram).

All tokenizers have three ids in common: padding 0, begin of sentence 1, end of sentence 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any, TypeVar

from clearhead.errors import ConfigError
from clearhead.folder.model_folder import ModelFolder, Stored
from clearhead.settings import TokenizerConfig
from clearhead.tokenizer.marian import MarianTokenizer
from clearhead.tokenizer.normal_form import NormalForm, form_of
from clearhead.tokenizer.pretrained import JsonTokenizer, Numbering
from clearhead.tokenizer.protocol import BOS, EOS, PAD, SYMBOLS, Boundaries, Tokenizer, cut
from clearhead.tokenizer.sentencepieces import SentencePieceTokenizer
from clearhead.tokenizer.words import WordTokenizer

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SYMBOLS",
    "Boundaries",
    "JsonTokenizer",
    "MarianTokenizer",
    "NormalForm",
    "SentencePieceTokenizer",
    "Tokenizer",
    "WordTokenizer",
    "cut",
    "form_of",
    "learn_tokenizer",
    "read_tokenizers",
    "tokenizer_files",
    "with_form",
]


def learn_tokenizer(
    texts: Iterable[str], config: TokenizerConfig, form: NormalForm | None = None
) -> Tokenizer:
    """The tokenizer that the configuration describes, learned from the texts in their form.

    Without a form, texts are lower-cased if the configuration has it.

    Raises:
        DataError: there is nothing to learn from.
        ConfigError: `max_vocabulary` is too small for the texts, or nothing is to be learned.
    """
    if config.kind == "pretrained":
        raise ConfigError(
            "tokenizer.kind = 'pretrained' needs a model to start from",
            setting="tokenizer.kind",
            todo="name one in start_from, or choose words, bpe or unigram",
        )
    if config.kind == "words":
        return WordTokenizer.learn(
            texts,
            max_vocabulary=config.max_vocabulary,
            form=form or NormalForm(lower=config.lower),
            split_punctuation=config.split_punctuation,
            symbols=config.has_symbols,
        )
    return SentencePieceTokenizer.learn(texts, config, form)


T = TypeVar("T", bound=Tokenizer)


def with_form(tokenizer: T, form: NormalForm) -> T:
    """The same tokenizer with another form of texts, sharing its vocabulary."""
    if tokenizer.form == form:
        return tokenizer
    found: Any = copy(tokenizer)
    found.form = form
    return found


JOINT, SOURCE, TARGET = "tokenizer", "source", "target"
"""Names in a model folder. A classifier has one tokenizer, named as that of both languages."""


def tokenizer_files(source: Tokenizer, target: Tokenizer, joint: bool) -> dict[str, Stored]:
    """The tokenizers of a translator by their names in its folder."""
    return {JOINT: source} if joint else {SOURCE: source, TARGET: target}


def read_tokenizers(folder: ModelFolder) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target; a joint vocabulary is shared. A classifier has one.

    Raises:
        ModelFolderError: a file is missing or damaged.
    """
    if folder.config.task == "classification":
        only = _read(folder, JOINT)
        return only, only
    if folder.config.tokenizer.joint:
        source = _read(folder, JOINT)
        return source, with_form(source, source.form.of_target())
    return _read(folder, SOURCE), _read(folder, TARGET)


def _read(folder: ModelFolder, name: str) -> Tokenizer:
    def build(tree: dict[str, Any]) -> Tokenizer:
        kind, library = tree["kind"], tree.get("library")
        if kind == "words":
            words, split = [str(word) for word in tree["words"]], bool(tree["split_punctuation"])
            return WordTokenizer(words, form=NormalForm.from_tree(tree), split_punctuation=split)
        if kind == "pretrained" and library in ("tokenizers", "marian"):
            numbering, unk = Numbering(*tree["numbering"]), tree["unk"]
            if library == "tokenizers":
                return JsonTokenizer(tree["description"], numbering, unk)
            model, names = folder.read(f"{name}.model"), tree["vocabulary"]
            return MarianTokenizer(model, names, numbering, unk, tree["boundaries"])
        if kind not in ("bpe", "unigram"):
            raise ValueError(f"kind {kind!r}")
        model, form = folder.read(f"{name}.model"), NormalForm.from_tree(tree)
        return SentencePieceTokenizer(model, kind=kind, form=form, sampling=float(tree["sampling"]))

    return folder.built(name, "the tokenizer", build)
