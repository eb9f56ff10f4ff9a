"""A whole run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal

from clearhead.settings.classifier import ClassifierConfig
from clearhead.settings.data import DataConfig, TokenizerConfig
from clearhead.settings.model import Learned, ModelConfig
from clearhead.settings.require import require
from clearhead.settings.search import EvaluationConfig, SearchConfig
from clearhead.settings.training import TrainingConfig

MEASURES = {
    "translation": ("auto", "bleu", "chrf", "loss"),
    "classification": ("auto", "accuracy", "macro_f1", "micro_f1", "loss"),
}
"""The scores that may pick the best model of each task."""


@dataclass(frozen=True)
class RunConfig:
    """A whole run: what `clearhead train` needs to know, and nothing else.

    `task` is what is learned: `translation` from sentence pairs, `classification` from labelled
    texts or feature sequences (`input`).
    `folder` is the model folder that the run writes (empty: `runs/` and the file's name).
    """

    task: Literal["translation", "classification"] = "translation"
    input: Literal["text", "features"] = "text"
    folder: str = ""
    seed: int = 1
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    classifier: ClassifierConfig = field(default_factory=ClassifierConfig)
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(max_steps=100_000))
    search: SearchConfig = field(default_factory=SearchConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        # As a shell would: a folder called ~ is what nobody wants to find, or to remove.
        object.__setattr__(self, "folder", os.path.expanduser(self.folder))
        require(0 <= self.seed < 2**63, "seed lies in [0, 2^63)")
        self._check_task()
        positions = self.model.positions
        if isinstance(positions, Learned):
            needed = self.data.max_length + 1
            require(
                needed <= positions.max_length,
                f"data.max_length = {self.data.max_length} needs {needed} positions, the start "
                f"symbol's among them, and model.positions.max_length = {positions.max_length}: "
                "raise it, or lower data.max_length",
            )

    def _check_task(self) -> None:
        require(
            self.task == "classification" or self.input == "text",
            f"task = {self.task!r} needs input = 'text', and input = {self.input!r}",
        )
        require(
            self.task == "classification" or not self.classifier.encoder_from,
            f"classifier.encoder_from is for task = 'classification', not for {self.task!r}",
        )
        # The vocabulary that an encoder brings along is seen where its folder is read.
        learns_vocabulary = (
            self.task == "classification"
            and self.input == "text"
            and not self.classifier.encoder_from
        )
        for path, asked in (
            ("tokenizer.split_punctuation", self.tokenizer.split_punctuation),
            ("model.character_ngrams", self.model.character_ngrams),
        ):
            require(
                not (learns_vocabulary and asked) or self.tokenizer.kind == "words",
                f"{path} is for whole words, and tokenizer.kind = {self.tokenizer.kind!r} has "
                "pieces: set tokenizer.kind = 'words'",
            )
        features = self.task == "classification" and self.input == "features"
        require(
            not (features and self.classifier.multi_label),
            "classifier.multi_label needs input = 'text': a sequence of features has one label, of "
            "which a | is a part like any other; leave classifier.multi_label out",
        )
        measure = self.evaluation.measure
        require(
            measure in MEASURES[self.task],
            f"evaluation.measure = {measure!r} does not score task = {self.task!r}: "
            f"choose one of {', '.join(MEASURES[self.task])}",
        )

    @property
    def lowercase(self) -> bool:
        """Whether translations are scored without regard to case."""
        asked = self.evaluation.lowercase
        return self.tokenizer.lower if asked == "auto" else asked

    @property
    def measure(self) -> str:
        """The score that picks the best model."""
        if self.evaluation.measure != "auto":
            return self.evaluation.measure
        if self.task == "classification":
            return "loss" if self.classifier.multi_label else "accuracy"
        return "bleu"
