"""The settings that `clearhead init` proposes for the data, each with its reason.

A recipe is a table of rows: a setting, its value and the reason for it. This module applies the
rows, and has those for a run that starts from a trained model. `translation` and `classification`
have their own rows, and a table of sizes by the number of training examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, get_args

import numpy as np

from clearhead.data.order import expected_batches
from clearhead.data.proposing.survey import Survey
from clearhead.data.reading.phrasebook import Part
from clearhead.settings import ClassifierConfig, DataConfig, SearchConfig, TokenizerConfig
from clearhead.settings.commented import CommentedConfig, Form
from clearhead.settings.training import warmup_of
from clearhead.tokenizer import Tokenizer, learn_tokenizer

VALIDATIONS = 25  # in a run of full length, approximately
AVERAGE = 5  # checkpoints
SHORT_RUN = 200  # steps
PATIENCE = 10  # validations, if the learning rate does not fall to zero
MOST_WEIGHTS = 2**24  # positions of a batch × the longest example

FINE_TUNED = 20  # examples of a step, at least, for a run that starts from trained weights
TUNED_EPOCHS = ((1_000, 10), (20_000, 5), (200_000, 3), (math.inf, 1))
"""The epochs of such a run, for fewer training examples than the first number."""
TUNED_EVERY = 1000  # steps between validations, at most
TUNED_RISE = 10  # the warm-up is a tenth of the run


@dataclass(frozen=True)
class Recipe:
    """A row of a table of sizes: settings for fewer than `below` training examples."""

    below: float
    batch_tokens: int
    peak: float
    warmup: int
    epochs: int
    dropout: float


R = TypeVar("R", bound=Recipe)


def row_for(recipes: Sequence[R], examples: int) -> R:
    """The row of a table for this number of training examples."""
    return next(recipe for recipe in recipes if examples < recipe.below)


class Row(NamedTuple):
    """One setting of a recipe. Of the rows of a setting the first that applies is used.

    It applies if the fact `when` is true, or always. A value may be `Of` a fact, and a reason has
    facts in braces.
    """

    setting: str
    value: Any
    when: str = ""
    reason: str = ""


class Of(NamedTuple):
    """The value of a fact: its name in the table of facts, or an attribute of the proposal."""

    fact: str


Facts = dict[str, Callable[[Any], Any]]
"""What the rows of a recipe ask of a proposal, by name."""


class Plan(NamedTuple):
    """The length of a run.

    `lengths` are those of some examples, of `each` tokens or frames on average. A step has
    `accumulate` batches of `batch_tokens`. An epoch has `steps`, the run has `total` steps.
    """

    lengths: np.ndarray
    each: float
    batch_tokens: int
    accumulate: int
    steps: int
    total: int

    @property
    def batch(self) -> int:
        """About how many examples a batch has."""
        return max(1, round(self.batch_tokens / self.each))


def validations_in(steps: float, usual: int = VALIDATIONS) -> tuple[int, int]:
    """About how many validations a run has, and how many of its last checkpoints are averaged.

    A short run has half as many, because each takes as long as several of its steps. The average
    is over the same share of the run.
    """
    if steps < SHORT_RUN:
        return usual // 2, (AVERAGE + 1) // 2
    return usual, AVERAGE


@dataclass(frozen=True)
class Brought:
    """What a trained model brings to a run that starts from it.

    Attributes:
        longest: the most tokens or frames of an example; None: no limit.
        head: the settings of its output, if it is a classifier.
        search: the settings of its search, if it is a translator.
        labels: of a classifier.
        tokenizers: of source and target, or of the texts; () if they are not read.
        languages: of source and target, if it is a translator; "" if one is unknown.
    """

    longest: int | None
    head: ClassifierConfig
    search: SearchConfig
    labels: tuple[str, ...]
    tokenizers: tuple[Tokenizer, ...] = ()
    languages: tuple[str, str] = ("", "")


FACTS: Facts = {
    "is_divided": lambda p: p.plan.accumulate > 1,
    "averaged": lambda p: validations_in(p.plan.total)[1],
    "times": lambda p: max(1, p.plan.total // p["every"]),
    "tuned_every": lambda p: min(p.plan.steps, TUNED_EVERY),
    "longest_warmup": lambda p: warmup_of(p.plan.total, p.rise),
    "is_short": lambda p: warmup_of(p.plan.total, p.rise) < p.recipe.warmup,
    "falls_to_zero": lambda p: p.values["training.schedule.kind"] == "linear",
    "few": lambda p: p.recipe.dropout >= 0.2,
}


class Proposal:
    """Settings that are being chosen: `values` by dotted path, `reasons` for some of them.

    `surveys` are of the parts that have examples, `files` those of all parts, `notes` further
    lines about the data. `class_weights` are those that are wanted; "": as fits. The warm-up is at
    most 1 / `rise` of the run.
    """

    recipe: Any  # the row of a table of sizes
    plan: Plan  # once the vocabulary is chosen

    def __init__(
        self,
        form: Form,
        surveys: Mapping[Part, Survey],
        files: Sequence[Sequence[str]],
        brought: Brought | None,
        facts: Facts,
        rise: int,
    ) -> None:
        self.form, self.brought, self.rise = form, brought, rise
        self.facts, self.surveys = FACTS | facts, surveys
        self.values: dict[str, Any] = form.defaults()
        named = zip(get_args(Part), files, strict=True)
        self.values |= {f"data.{part}": tuple(names) for part, names in named}
        self.validation_share, self.class_weights = DataConfig().validation_share, ""
        self.reasons: dict[str, str] = {}
        self.notes: list[str] = []

    @property
    def train(self) -> Survey:
        return self.surveys["train"]

    @property
    def amount(self) -> str:
        """The number of training examples: `270 sequences`."""
        return f"{self.train.examples:,} {self.train.unit}"

    @property
    def used(self) -> float:
        """The share of the training data that is not held out for validation."""
        whole = "validation" in self.surveys or self.train.unit == "pairs"
        return 1.0 if whole else 1.0 - self.validation_share

    def choose(self, path: str, value: Any, reason: str = "") -> None:
        """Set a value, with the reason for it."""
        self.values[path] = value
        if reason:
            self.reasons[path] = reason

    def __getitem__(self, name: str) -> Any:
        """A fact, or an attribute by dotted path."""
        fact = self.facts.get(name, attrgetter(name))
        return fact(self)

    def apply(self, rows: Iterable[Row]) -> None:
        """Choose the settings of rows, one after the other."""
        chosen = set[str]()
        for setting, value, when, reason in rows:
            if setting not in chosen and (not when or self[when]):
                chosen.add(setting)
                found = self[value.fact] if isinstance(value, Of) else value
                self.choose(setting, found, reason.format_map(self))

    def make_plan(self, least: int = 0) -> None:
        """Plan the run; a step has the tokens of the recipe, or more for `least` examples.

        If `least` is given, long examples divide a step into batches that need less memory.
        """
        lengths, batch, accumulate = self._lengths(), self.recipe.batch_tokens, 1
        each, longest = max(1.0, float(lengths.mean())), max(1, int(lengths.max()))
        while batch < least * each:
            batch *= 2
        while (
            least and batch * longest > MOST_WEIGHTS * accumulate and batch > longest * accumulate
        ):
            accumulate *= 2
        steps = expected_batches(
            lengths, self.used * self.train.distinct * self.train.examples, batch
        )
        total = steps * self.recipe.epochs
        self.plan = Plan(lengths, each, batch // accumulate, accumulate, steps, total)

    def _lengths(self) -> np.ndarray:
        """The tokens or frames, as they count in a batch, of some of the training examples.

        Tokens are those of a vocabulary that is learned from these, or of the model to start from.
        Pairs that are too long are left out, other examples cut.
        """
        train, longest = self.train, self.values["data.max_length"]
        if train.unit == "sequences":
            return np.minimum(train.lengths, longest)
        tokenizers = self.brought.tokenizers if self.brought else ()
        if not tokenizers:
            settings = ((path.split("."), value) for path, value in self.values.items())
            named: dict[str, Any] = {n[1]: v for n, v in settings if n[0] == "tokenizer"}
            config = TokenizerConfig(**named)
            joint = [[*chain(*train.sample)]] if named.get("joint", True) else train.sample
            tokenizers = tuple(learn_tokenizer(texts, config) for texts in joint)
        encoded = [
            np.array([len(ids) for ids in tokenizer.encode_batch(list(texts))])
            for tokenizer, texts in zip(cycle(tokenizers), train.sample, strict=False)
        ]
        if len(encoded) == 1:
            return np.minimum(encoded[0], longest)
        source, target = encoded
        kept = np.maximum(source, target) <= longest
        return np.maximum(source, target + 1)[kept if kept.any() else slice(None)]

    def fine_tune(
        self, batch_tokens: int, peak: float, epochs: int = 0, least: int = FINE_TUNED
    ) -> None:
        """Choose the length and the learning rate of a run that starts from trained weights."""
        self.limit_length()
        usual = next(epochs for below, epochs in TUNED_EPOCHS if self.train.examples < below)
        epochs = epochs or usual
        self.rise, self.recipe = TUNED_RISE, Recipe(math.inf, batch_tokens, peak, 0, epochs, 0.0)
        self.make_plan(least)
        longest, unit = self.values["data.max_length"], self.train.unit
        if unit != "pairs" and (cut := float((self.plan.lengths >= longest).mean())):
            self.notes.append(
                f"about {100 * cut:.0f} % of the {unit} are cut to {longest} (data.max_length)"
            )
        self.apply(TUNED)

    def limit_length(self) -> None:
        """Lower the maximum length to that of the model to start from."""
        longest = self.brought.longest if self.brought else None
        if longest and longest < self.values["data.max_length"]:
            self.choose("data.max_length", longest, "The model has no more positions.")

    def config(self) -> CommentedConfig:
        """The settings as a commented file."""
        self.limit_length()
        lines = (line for part, survey in self.surveys.items() for line in survey.lines(part))
        return CommentedConfig(self.form, self.values, self.reasons, (*self.notes, *lines))


# fmt: off
RUN = (
    Row("training.batch_tokens", Of("plan.batch_tokens")),
    Row("training.accumulate", Of("plan.accumulate"), "is_divided",
        "A head has a weight for each pair of positions: one batch would need too much memory."),
    Row("training.max_steps", 0),
    Row("training.max_epochs", Of("recipe.epochs"), "",
        "About {plan.steps:,} steps per epoch, {plan.total:,} in total."),
    Row("training.validate_every", Of("every"), "", "About {times} times in the whole run."),
    Row("training.average_last", Of("averaged")),
    Row("training.precision", "auto"),
    Row("training.schedule.warmup", Of("longest_warmup"), "is_short",
        "The run is short: 1/{rise} of it."),
    Row("training.schedule.warmup", Of("recipe.warmup")),
    Row("training.patience", 0, "falls_to_zero",
        "No early stop: the last steps, at a small rate, improve the model most."),
    Row("training.patience", PATIENCE, "", "The run ends earlier if the score no longer improves."),
)
"""The length of a run from random weights, once the kind of its schedule is chosen."""

TUNED = (
    Row("training.batch_tokens", Of("plan.batch_tokens"), "",
        "About {plan.batch:,} {train.unit}."),
    Row("training.accumulate", Of("plan.accumulate"), "is_divided",
        "A head has a weight for each pair of positions: one batch would need too much memory."),
    Row("training.max_steps", 0),
    Row("training.max_epochs", Of("recipe.epochs"), "",
        "About {plan.steps:,} steps per epoch, {plan.total:,} in total: the model knows much "
        "already."),
    Row("training.validate_every", Of("tuned_every")),
    Row("training.average_last", 1, "",
        "The learning rate falls to zero: no need for an average."),
    Row("training.precision", "auto"),
    Row("training.schedule.kind", "linear", "", "Falls to zero at the end of the run."),
    Row("training.schedule.peak", Of("recipe.peak"), "",
        "Low, so that the model keeps what it has learned."),
    Row("training.schedule.warmup", Of("longest_warmup"), "", "A tenth of the run."),
)
"""The length and the learning rate of a run that starts from trained weights."""
# fmt: on


def limit_minutes(proposed: CommentedConfig, minutes: int) -> None:
    """Let a proposed run end after some minutes, with a learning rate of zero."""
    ends = "The learning rate falls to zero at this time, or after all epochs if these end sooner."
    linear = {"training.schedule.kind": "linear", "training.patience": 0}
    proposed.values.update({"training.max_minutes": float(minutes), **linear})
    proposed.reasons["training.max_minutes"] = ends
    for path in linear:
        proposed.reasons.pop(path, None)


def round_figure(value: float) -> int:
    """The nearest of 50, 100, 200, 500, … 5,000, by ratio."""
    figures = (50, 100, 200, 500, 1000, 2000, 5000)
    return min(figures, key=lambda figure: abs(math.log(figure / max(value, 1.0))))
