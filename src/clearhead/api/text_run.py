"""The run that the arguments of a `TextClassifier` describe.

The model is that of examples/trec.toml, where it is said what each setting is for, and nearly as
wide; punctuation, which stands apart there, is split off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clearhead.config import RunConfig, config_from
from clearhead.data.survey import Side, SideCounter, pieces_for
from clearhead.errors import ConfigError
from clearhead.labelled_proposal.classes import FEW
from clearhead.labelled_proposal.recipes import WORD_NGRAMS, read_by_words
from clearhead.tokenizer import WordTokenizer

VALIDATIONS = 20  # in a run, roughly
VERY_FEW = 100  # validation texts, of which too many weights have the same accuracy to compare by
PIECES = 4000  # of a vocabulary
LOOKED_AT = 10_000  # texts, to see what all are like


def run_on_texts(
    given: Mapping[str, Any], data: Path, folder: Path, texts: Sequence[str]
) -> RunConfig:
    """The configuration that is meant.

    Args:
        given: the arguments by name.
        data: the file with the texts and their labels.
        folder: where the model is to be.
        texts: those of the file.

    Raises:
        ConfigError: an argument cannot be used.
    """
    text = _look_at(texts)
    words = read_by_words(text, len(texts)) if given["words"] is None else given["words"]
    if not isinstance(words, bool):
        what = f"words is {words!r}, not True, False or None"
        raise ConfigError(what, where="TextClassifier")
    if given["epochs"] == 0:  # to a run it is no limit
        raise ConfigError("epochs must be at least 1", where="TextClassifier")
    # Each character is a piece, and of some scripts there are thousands.
    pieces = max(PIECES, pieces_for(text.alphabet))
    tree: dict[str, Any] = {
        "task": "classification",
        "folder": str(folder),
        "seed": given["seed"],
        "data": {
            "train": [str(data)],
            "validation_share": given["validation_share"],
            "max_length": given["max_length"],
            # Each text counts that was given, however often, and however rare its label.
            "drop_duplicates": False,
            "smallest_class": 1,
        },
        "tokenizer": {
            "kind": "words" if words else "bpe",
            "split_punctuation": words,
            "max_vocabulary": given["vocabulary"] if words else given["vocabulary"] or pieces,
            "byte_fallback": False,
        },
        "model": _model(given, words),
        "classifier": {
            "pooling": given["pooling"],
            "dropout": given["head_dropout"],
            "class_weights": given["class_weights"],
        },
    }
    # The types first: what is planned reckons with these numbers.
    config_from(tree | _given_training(given), where="TextClassifier")
    tokens = _words_in(texts) if words else text.tokens
    tree |= _training(given, tokens, len(texts))
    return config_from(tree, where="TextClassifier")


def _model(given: Mapping[str, Any], words: bool) -> dict[str, Any]:
    return {
        "encoder_layers": given["layers"],
        "n_heads": given["heads"],
        "d_model": given["d_model"],
        "d_ff": given["d_model"],
        "dropout": given["dropout"],
        "input_convolution": given["convolution"],
        "character_ngrams": list(WORD_NGRAMS) if words else [],
        "initialisation": "xavier_scaled",
        "scale_embeddings": False,
        "final_norm": False,
        # The convolutions know what stands beside what.
        "positions": {"kind": "none" if given["convolution"] else "sinusoidal"},
    }


def _given_training(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "training": {
            "batch_tokens": given["batch_tokens"],
            "max_epochs": given["epochs"],
            "schedule": {"kind": "linear", "peak": given["learning_rate"]},
        }
    }


def _training(given: Mapping[str, Any], tokens: float, texts: int) -> dict[str, Any]:
    steps = given["epochs"] * max(1.0, tokens / given["batch_tokens"])
    validated = given["validation_share"] * texts
    training = _given_training(given)["training"]
    schedule = training["schedule"] | {"warmup": round(steps / 10)}
    planned = {
        "validate_every": max(1, round(steps / VALIDATIONS)),
        "keep": "average" if validated < FEW else "best",
        "schedule": schedule,
    }
    return {
        "training": training | planned,
        "evaluation": {"measure": "loss" if validated < VERY_FEW else "accuracy"},
    }


def _words_in(texts: Sequence[str]) -> float:
    """The words of all texts, roughly, marks before and behind a word among them."""
    reader, seen = WordTokenizer((), split_punctuation=True), texts[:LOOKED_AT]
    return len(texts) / max(1, len(seen)) * sum(len(reader.words_of(text)) for text in seen)


def _look_at(texts: Sequence[str]) -> Side:
    """What the texts look like together."""
    counter = SideCounter()
    for text in texts[:LOOKED_AT]:
        counter.count(text)
    return counter.side(len(texts) / max(1, counter.lines))
