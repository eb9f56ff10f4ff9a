"""The settings of search and of evaluation."""

from collections.abc import Collection
from dataclasses import fields
from functools import cache
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from clearhead.settings.declare import (
    STRICT,
    Natural,
    Runs,
    Section,
    Setting,
    require,
    setting,
    settings_of,
)

Method = Literal["beam", "sampling"]

MOST = 1_000_000  # larger counts have no use and could overflow during a search

WIDEST_BEAM, MOST_OUTPUTS, LONGEST_OUTPUT, LARGEST_RATIO = 1000, 10_000, 5000, 20
"""Limits of memory and time: all hypotheses of a batch are in memory, with a cache by token.

`max_length` only lowers the maximum length, so it needs no such limit.
"""

Limit = Annotated[int, Field(ge=0, le=MOST)]
Length = Annotated[int, Field(ge=0, le=LONGEST_OUTPUT)]

MOST_TOKENS = 100_000
"""Of all hypotheses of a sentence, beside those that `max_length_ratio` allows for its source."""


@dataclass(frozen=True, config=STRICT)
class SearchConfig(Section):
    """How translations are searched for, in validation and by default in `clearhead translate`.

    Each setting is also an option of `clearhead translate` (`--sample` sets `method`), and an
    argument of `translate` in Python.
    """

    method: Method = setting(
        "beam", "search method", details='`"sampling"` draws outputs at random.'
    )
    beam_size: Annotated[int, Field(ge=1, le=WIDEST_BEAM)] = setting(
        5,
        "number of hypotheses kept at each step; 1: greedy search",
        only_with=("method", "beam"),
        init=Runs.TRANSLATION,
    )
    n_best: Annotated[int, Field(ge=1, le=MOST_OUTPUTS)] = setting(
        1, "number of outputs per sentence"
    )
    length_penalty: Annotated[float, Field(ge=0, le=10)] = setting(
        0.6,
        "length penalty; 0: none, higher: longer outputs",
        details="The α of Wu et al. 2016, equation 14.",
        init=Runs.TRANSLATION,
    )
    min_length: Length = setting(0, "minimum length of an output in tokens")
    max_length: Limit = setting(
        0,
        "maximum length of an output in tokens; 0: no further limit",
        details="An output never has more than `max_length_ratio` · source length + "
        "`max_length_offset` tokens, or `min_length` and the end symbol where that is more. This "
        "number of tokens for an empty source, times `beam_size` (for sampling `n_best`), is at "
        "most 100,000.",
    )
    max_length_ratio: Annotated[float, Field(ge=0, le=LARGEST_RATIO)] = setting(
        2.0, "maximum length of an output per token of the source"
    )
    max_length_offset: Length = setting(20, "tokens added to the maximum length")
    no_repeat_ngram: Limit = setting(
        0,
        "length of token sequences that must not repeat; 0: all may",
        details="Paulus et al. 2018, section 2.5.",
    )
    temperature: Annotated[float, Field(gt=0, le=1000)] = setting(
        1.0,
        "divisor of the logits; below 1: more likely tokens, above 1: more varied ones",
        only_with=("method", "sampling"),
    )
    top_k: Limit = setting(
        0, "number of most likely tokens to draw from; 0: all", only_with=("method", "sampling")
    )
    top_p: Annotated[float, Field(gt=0, le=1)] = setting(
        1.0,
        "draw from the most likely tokens with this total probability; 1: all",
        details="Holtzman et al. 2020, section 3.",
        only_with=("method", "sampling"),
    )
    seed: Natural = setting(1, "seed of the random draws", only_with=("method", "sampling"))

    def __post_init__(self) -> None:
        require(
            self.method == "sampling" or self.n_best <= self.beam_size,
            "n_best",
            f"= {self.n_best} is more than beam_size = {self.beam_size}",
            f"raise beam_size to at least {self.n_best}, or lower n_best",
        )
        require(
            self.max_length == 0 or self.min_length <= self.max_length,
            "min_length",
            f"= {self.min_length} is more than max_length = {self.max_length}",
            "lower min_length, or raise max_length",
        )
        name = "n_best" if self.method == "sampling" else "beam_size"
        rows, longest = getattr(self, name), max(self.max_length_offset, self.min_length + 1)
        longest = min(longest, self.max_length or longest)
        require(
            rows * longest <= MOST_TOKENS,
            name,
            f"= {rows:,} outputs of {longest:,} tokens are more than {MOST_TOKENS:,} tokens",
            f"lower {name}, min_length, max_length_offset or max_length",
        )


def method_for(named: Collection[str], default: Method) -> Method:
    """The method of a search for which these settings are given, but no method."""
    # Settings of beam search imply beam search, whatever the model's configuration is.
    return "beam" if idle_for("sampling", named) else default


def idle_for(method: Method, named: Collection[str]) -> str | None:
    """The first of the given settings that has no effect with the method, if any."""
    return next(
        (
            each.path
            for each in _search_settings()
            if each.path in named and (only := each.only_with[1]) and method not in only
        ),
        None,
    )


@cache
def _search_settings() -> tuple[Setting, ...]:
    """The settings of a search; kept, since each call of `translate` needs them."""
    return tuple(settings_of(SearchConfig))


def beyond(search: SearchConfig, supported: Collection[str]) -> str | None:
    """The first setting that changes a search and is not among the supported ones, if any."""
    others = (field for field in fields(search) if field.name not in supported)
    return next((each.name for each in others if getattr(search, each.name) != each.default), None)


MEASURES = {
    "translation": ("auto", "bleu", "chrf", "loss"),
    "classification": ("auto", "accuracy", "macro_f1", "micro_f1", "loss"),
}
"""The scores that can select the best model of each task."""


@dataclass(frozen=True, config=STRICT)
class EvaluationConfig(Section):
    """How outputs are scored, and which score selects the best model."""

    tokenize: Literal["13a", "none", "intl", "char", "zh"] = setting(
        "13a",
        "tokenizer of sacreBLEU",
        details='`"none"`: the text is tokenised already.',
        runs=Runs.TRANSLATION,
        init=Runs.TRANSLATION,
    )
    lowercase: Literal["auto", True, False] = setting(
        "auto",
        "score translations without regard to case",
        details='`"auto"`: if the model lower-cases its text (`tokenizer.lower`).',
        runs=Runs.TRANSLATION,
        init=Runs.TRANSLATION,
    )
    measure: Literal["auto", "loss", "bleu", "chrf", "accuracy", "macro_f1", "micro_f1"] = setting(
        "auto",
        "selects the best model",
        details='`"auto"`: `"bleu"` for translation; `"accuracy"` for classification, or `"loss"` '
        "with `classifier.multi_label`.",
        choices=MEASURES,
        init=Runs.ALL,
    )
    max_sentences: Natural = setting(
        0,
        "number of validation pairs that are translated and scored, from the first; 0: all",
        runs=Runs.TRANSLATION,
    )
