"""How translations are looked for and how they are scored."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from clearhead.settings.require import require

Method = Literal["beam", "sampling"]

BEAM_ONLY = ("beam_size",)
SAMPLING_ONLY = ("temperature", "top_k", "top_p", "seed")


MOST = {
    **{"length_penalty": 10.0, "max_length_ratio": 1000.0, "temperature": 1000.0},
    **dict.fromkeys(("beam_size", "n_best", "no_repeat_ngram", "top_k"), 1_000_000),
    **dict.fromkeys(("min_length", "max_length", "max_length_offset"), 1_000_000),
}


@dataclass(frozen=True)
class SearchConfig:
    """How a translation is looked for.

    Greedy search is a beam of 1. `length_penalty` is the alpha of Wu et al. 2016, equation 14
    (0: plain sums of log-probabilities). The longest output has
    `max_length_ratio * source length + max_length_offset` tokens, or, where that is more,
    `min_length` and the end symbol; never more than `max_length` where that is set.
    `no_repeat_ngram` = n forbids an n-gram to come twice (0: allowed; Paulus et al. 2018, section
    2.5).
    Sampling draws from the distribution sharpened by `temperature` and cut to the `top_k`
    likeliest tokens and to the likeliest that hold `top_p` of the mass (0 and 1: not cut;
    Holtzman et al. 2020, section 3).
    """

    method: Method = "beam"
    beam_size: int = 5
    n_best: int = 1
    length_penalty: float = 0.6
    min_length: int = 0
    max_length: int = 0
    max_length_ratio: float = 2.0
    max_length_offset: int = 20
    no_repeat_ngram: int = 0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("beam_size", "n_best"):
            require(getattr(self, name) > 0, f"{name} must be at least 1")
        for name in (
            *("length_penalty", "min_length", "max_length", "max_length_ratio"),
            *("max_length_offset", "no_repeat_ngram", "top_k", "seed"),
        ):
            require(getattr(self, name) >= 0, f"{name} must not be negative")
        for name, most in MOST.items():
            # What is not finite, or far beyond use, would overflow in the middle of a search.
            found = getattr(self, name)
            require(math.isfinite(found) and found <= most, f"{name} must be at most {most:,}")
        require(
            self.method == "sampling" or self.n_best <= self.beam_size,
            f"n_best = {self.n_best} is more than beam_size = {self.beam_size}",
        )
        require(self.temperature > 0, "temperature must be greater than 0")
        require(0.0 < self.top_p <= 1.0, "top_p lies in (0, 1]")
        require(
            self.max_length == 0 or self.min_length <= self.max_length,
            f"min_length = {self.min_length} is more than max_length = {self.max_length}",
        )


def method_for(named: Collection[str], default: Method) -> Method:
    """The method of a search of which these settings are named and no method is.

    Who names a beam wants one, whatever the model's configuration says.
    """
    return "beam" if any(name in named for name in BEAM_ONLY) else default


def idle_for(method: Method, named: Collection[str]) -> str | None:
    """The first of the settings that are named that means nothing for the method, if any."""
    idle = BEAM_ONLY if method == "sampling" else SAMPLING_ONLY
    return next((name for name in idle if name in named), None)


Measure = Literal["auto", "loss", "bleu", "chrf", "accuracy", "macro_f1", "micro_f1"]


@dataclass(frozen=True)
class EvaluationConfig:
    """How output is scored: sacreBLEU's tokenizer and the measure that picks the best model.

    `measure = "auto"` is BLEU for translation, accuracy for classification (the loss, where an
    example may have several labels). `lowercase` says whether
    translations and references are lower-cased before they are compared; "auto" does so for a
    model that lower-cases (`tokenizer.lower`), which cannot hit a capital.
    """

    tokenize: Literal["13a", "none", "intl", "char", "zh"] = "13a"
    lowercase: Literal["auto", True, False] = "auto"
    measure: Measure = "auto"
    max_sentences: int = 0

    def __post_init__(self) -> None:
        require(self.max_sentences >= 0, "max_sentences must not be negative")
