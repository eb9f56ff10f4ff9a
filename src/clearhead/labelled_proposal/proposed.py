"""A proposal that is being put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from clearhead.config import DataConfig
from clearhead.data.labelled_survey import LabelledSurvey, TextSurvey
from clearhead.labelled_proposal.recipes import Recipe


class Proposed(NamedTuple):
    """What is being put together.

    Attributes:
        parts: what was seen, the training data under `train`.
        recipe: for so many training examples.
        values: of settings by dotted path, so far.
        reasons: for some of them.
    """

    parts: Mapping[str, LabelledSurvey]
    recipe: Recipe
    values: dict[str, Any]
    reasons: dict[str, str]

    @property
    def train(self) -> LabelledSurvey:
        """The training data."""
        return self.parts["train"]

    @property
    def tokens(self) -> float:
        """The tokens or frames of all training examples, roughly; at least 1."""
        if self.recipe.ngrams and isinstance(self.train, TextSurvey):
            return max(1.0, float(self.train.words.sum()))
        return self.train.tokens

    @property
    def most_tokens(self) -> list[np.ndarray]:
        """Of the examples of each part: hardly one has more tokens, or frames."""
        if not self.recipe.ngrams:
            return [found.most_tokens for found in self.parts.values()]
        return [found.words for found in self.parts.values() if isinstance(found, TextSurvey)]

    @property
    def amount(self) -> str:
        """How many training examples there are: `270 sequences`."""
        return f"{self.train.examples:,} {self.train.kind}"

    @property
    def used(self) -> float:
        """The share of the training data that is not held out for validation."""
        return 1.0 if "validation" in self.parts else 1.0 - DataConfig().validation_share

    @property
    def validated(self) -> int:
        """The number of validation examples."""
        found = self.parts.get("validation")
        return round((1.0 - self.used) * self.train.examples) if found is None else found.examples

    def say(self, path: str, value: Any, reason: str = "") -> None:
        """Choose a value, and say why."""
        self.values[path] = value
        if reason:
            self.reasons[path] = reason
