"""Text to ids and back: whole words, or SentencePiece pieces (BPE and unigram).

All tokenizers have three ids in common: padding 0, begin of sentence 1, end of sentence 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

from clearhead.errors import ConfigError
from clearhead.folder.files import read_bounded, read_description
from clearhead.settings import TokenizerConfig
from clearhead.tokenizer.marian import MarianTokenizer
from clearhead.tokenizer.normal_form import NormalForm, form_of
from clearhead.tokenizer.pretrained import JsonTokenizer
from clearhead.tokenizer.protocol import BOS, EOS, PAD, Boundaries, Tokenizer, cut
from clearhead.tokenizer.sentencepieces import SentencePieceTokenizer
from clearhead.tokenizer.words import WordTokenizer

__all__ = [
    "BOS",
    "EOS",
    "PAD",
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
    "load_tokenizer",
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


def load_tokenizer(folder: Path, name: str) -> Tokenizer:
    """The tokenizer that `save(folder, name)` wrote.

    Raises:
        ModelFolderError: a file is missing or damaged, or of another version.
    """
    model = folder / f"{name}.model"
    return read_description(folder, name, "the tokenizer", lambda tree: _built(tree, model))


def _built(tree: dict[str, Any], model: Path) -> Tokenizer:
    if tree["kind"] == "words":
        return WordTokenizer(
            [str(word) for word in tree["words"]],
            form=NormalForm.from_tree(tree),
            # Older folders do not have this key.
            split_punctuation=bool(tree.get("split_punctuation", False)),
        )
    if tree["kind"] == "pretrained" and tree["library"] == "marian":
        return MarianTokenizer.from_tree(tree, read_bounded(model))
    if tree["kind"] == "pretrained":
        return JsonTokenizer.from_tree(tree)
    kind, form, sampling = tree["kind"], NormalForm.from_tree(tree), float(tree["sampling"])
    if kind not in ("bpe", "unigram"):
        raise ValueError(f"kind {kind!r}")
    return SentencePieceTokenizer(read_bounded(model), kind=kind, form=form, sampling=sampling)
