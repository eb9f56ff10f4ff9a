"""Where the data are, and how text becomes numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clearhead.config.require import require


@dataclass(frozen=True)
class DataConfig:
    """Where the sentence pairs are, and which of them are kept.

    Each of `train`, `validation` and `test` names two parallel files (source, target), or one
    `.tsv` or `.jsonl` file; each may end in `.gz`. An environment variable is written `${NAME}`.
    `test` is not trained on: it is named so that training lines found in it can be left out.
    `train = ["phrasebook:en-es"]` names the built-in data.
    """

    train: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    max_length: int = 256
    max_length_ratio: float = 9.0
    drop_duplicates: bool = True

    def __post_init__(self) -> None:
        require(self.max_length > 0, "max_length must be at least 1")
        require(self.max_length_ratio >= 1, "max_length_ratio must be at least 1")
        for name in ("train", "validation", "test"):
            count = len(getattr(self, name))
            require(count <= 2, f"{name} names {count} files: give one, or source and target")


@dataclass(frozen=True)
class TokenizerConfig:
    """How text becomes numbers; the vocabulary is learned from the training data.

    `sampling` is the chance of another segmentation while training: the share of merges left out
    (BPE-dropout, Provilkov et al. 2020) or the smoothing of the lattice (unigram, Kudo 2018).
    `max_vocabulary` counts whole words kept (0: all) or SentencePiece pieces.
    """

    kind: Literal["words", "bpe", "unigram"] = "bpe"
    max_vocabulary: int = 8000
    joint: bool = True
    lower: bool = False
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
