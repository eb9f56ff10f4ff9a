"""What turns the encoder's output into labels, and how labels are learned."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from clearhead.settings.require import require


@dataclass(frozen=True)
class ClassifierConfig:
    """The head of a classifier.

    `pooling` names how the encoder's vectors become one: several are put side by side.
    `multi_label` allows several labels, or none, for a text. With `class_weights = "balanced"`
    every class counts the same in the loss, however many examples it has; where a text may have
    several, having a label counts the same as not having it, but for very rare ones.
    `encoder_from` is the model folder of a translator or a classifier of the same
    shape: the encoder begins with its weights, and the vocabulary, or the scale of the
    features, is that model's. One of the folder's checkpoints may be named in its place.
    """

    pooling: tuple[Literal["mean", "first", "maximum", "attention"], ...] = ("mean",)
    dropout: float = 0.1
    multi_label: bool = False
    class_weights: Literal["none", "balanced"] = "none"
    encoder_from: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoder_from", os.path.expanduser(self.encoder_from))
        require(not isinstance(self.pooling, str), "pooling is one string: give a tuple of names")
        require(bool(self.pooling), "pooling names nothing")
        require(len(set(self.pooling)) == len(self.pooling), "pooling names the same twice")
        require(0.0 <= self.dropout < 1.0, "dropout lies in [0, 1)")
