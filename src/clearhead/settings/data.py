"""Where the data are, and how text becomes numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clearhead.settings.require import require


@dataclass(frozen=True)
class DataConfig:
    """Where the sentence pairs are, and which of them are kept.

    Each of `train`, `validation` and `test` names two parallel files (source, target), or one
    `.tsv` or `.jsonl` file; each may end in `.gz`. An environment variable is written `${NAME}`.
    `test` is not trained on: it is named so that training lines found in it can be left out, of
    the vocabulary too, as they are where they are found in the validation data (unless
    `drop_held_out` is false).
    `train = ["phrasebook:en-es"]` names the built-in data.

    For classification each part is one file (or a folder, for features). `text_column` and
    `label_column` name the columns of a `.csv`, `.tsv` or `.jsonl` file. Without validation
    files, `validation_share` of the training examples are held out. `missing` says what is done
    with missing values of features; a class with fewer than `smallest_class` training examples
    is refused. `normalise` brings each feature to mean 0 and deviation 1 over the training data.
    """

    train: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    max_length: int = 256
    max_length_ratio: float = 9.0
    drop_duplicates: bool = True
    drop_held_out: bool = True
    text_column: str = "text"
    label_column: str = "label"
    validation_share: float = 0.1
    smallest_class: int = 2
    missing: Literal["refuse", "zero", "mean", "interpolate"] = "refuse"
    normalise: bool = True

    def __post_init__(self) -> None:
        require(self.max_length > 0, "max_length must be at least 1")
        require(self.max_length_ratio >= 1, "max_length_ratio must be at least 1")
        require(0.0 < self.validation_share < 1.0, "validation_share lies in (0, 1)")
        require(self.smallest_class > 0, "smallest_class must be at least 1")
        for name in ("train", "validation", "test"):
            files = getattr(self, name)
            require(not isinstance(files, str), f"{name} is one string: give a tuple of files")
            require(
                len(files) <= 2, f"{name} names {len(files)} files: give one, or source and target"
            )
            object.__setattr__(self, name, tuple(map(str, files)))  # a Path has no place in JSON


@dataclass(frozen=True)
class TokenizerConfig:
    """How text becomes numbers; the vocabulary is learned from the training data.

    `sampling` is the chance of another segmentation while training: the share of merges left out
    (BPE-dropout, Provilkov et al. 2020) or the smoothing of the lattice (unigram, Kudo 2018).
    `max_vocabulary` counts whole words kept (0: all) or SentencePiece pieces.
    `split_punctuation` makes the marks around a whole word words of their own.
    """

    kind: Literal["words", "bpe", "unigram"] = "bpe"
    max_vocabulary: int = 8000
    joint: bool = True
    lower: bool = False
    split_punctuation: bool = False
    sampling: float = 0.0
    byte_fallback: bool = True

    def __post_init__(self) -> None:
        require(self.max_vocabulary >= 0, "max_vocabulary must not be negative")
        require(
            self.kind == "words" or self.max_vocabulary > 0,
            "max_vocabulary must be at least 1 for SentencePiece",
        )
        require(0.0 <= self.sampling < 1.0, "sampling lies in [0, 1)")
        require(
            self.kind != "words" or self.sampling == 0.0,
            "whole words cannot be sampled: set sampling = 0 or choose bpe or unigram",
        )
