"""The settings that `clearhead init` proposes for the data, each with its reason.

This module has what all proposals have in common. `proposal_translation` and
`proposal_classification` have the recipes: tables of settings by the number of training examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, cycle
from typing import Any, TypeVar, get_args

import numpy as np

from clearhead.data.batch_ranges import expected_batches
from clearhead.data.proposing.survey import Survey
from clearhead.data.reading.phrasebook import Part
from clearhead.settings import ClassifierConfig, SearchConfig, TokenizerConfig
from clearhead.settings.commented import CommentedConfig, Form
from clearhead.tokenizer import Tokenizer, learn_tokenizer

VALIDATIONS = 25  # in a run of full length, approximately
AVERAGE = 5  # checkpoints
SHORT_RUN = 200  # steps
PATIENCE = 10  # validations, if the learning rate does not fall to zero

FINE_TUNED = 20  # examples of a step, at least, for a run that starts from trained weights
TUNED_EPOCHS = ((1_000, 10), (20_000, 5), (200_000, 3), (math.inf, 1))
"""The epochs of such a run, for fewer training examples than the first number."""
TUNED_EVERY = 1000  # steps between validations, at most


@dataclass(frozen=True)
class Recipe:
    """A row of a table: settings for fewer than `below` training examples."""

    below: float
    batch_tokens: int
    peak: float
    warmup: int
    epochs: int
    dropout: float


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


R = TypeVar("R", bound=Recipe)


def row_for(recipes: Sequence[R], examples: int) -> R:
    """The row of a table for this number of training examples."""
    return next(recipe for recipe in recipes if examples < recipe.below)


class Proposal:
    """Settings that are being chosen.

    Args:
        form: the settings of this kind of run.
        files: of the training, validation and test data.
        survey: surveys the files of a part.

    Attributes:
        notes: lines about the data besides those of the surveys.
        surveys: of the parts that have files.
        values: of the settings by dotted path, initially the defaults.
        reasons: for some of the values.
    """

    def __init__(
        self,
        form: Form,
        files: Sequence[Sequence[str]],
        survey: Callable[[Part, Sequence[str]], Survey],
    ) -> None:
        named = dict(zip(get_args(Part), files, strict=True))
        self.form = form
        self.surveys: dict[Part, Survey] = {part: survey(part, n) for part, n in named.items() if n}
        self.values = form.defaults() | {f"data.{part}": tuple(n) for part, n in named.items()}
        self.reasons: dict[str, str] = {}
        self.notes: list[str] = []

    @property
    def train(self) -> Survey:
        """The survey of the training data."""
        return self.surveys["train"]

    @property
    def amount(self) -> str:
        """The number of training examples: `270 sequences`."""
        return f"{self.train.examples:,} {self.train.unit}"

    def lengths(self, brought: Brought | None = None) -> np.ndarray:
        """The tokens or frames, as they count in a batch, of some of the training examples.

        Tokens are those of a vocabulary that is learned from these, or of the model to start from.
        Pairs that are too long are left out, other examples cut.
        """
        train, longest = self.train, self.values["data.max_length"]
        if train.unit == "sequences":
            return np.minimum(train.lengths, longest)
        tokenizers = brought.tokenizers if brought else ()
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

    def choose(self, path: str, value: Any, reason: str = "") -> None:
        """Set a value, with the reason for it."""
        self.values[path] = value
        if reason:
            self.reasons[path] = reason

    def choose_run(self, recipe: Recipe, kind: str, steps: int, every: int, rise: int) -> None:
        """Choose the length of the run, its validations, and the schedule of the learning rate.

        An epoch has `steps` steps, and there are `every` steps between validations. The warm-up is
        at most 1 / `rise` of the run.
        """
        total = steps * recipe.epochs
        self.choose("training.max_steps", 0)
        length = f"About {steps:,} steps per epoch, {total:,} in total."
        self.choose("training.max_epochs", recipe.epochs, length)
        times = f"About {max(1, total // every)} times in the whole run."
        self.choose("training.validate_every", every, times)
        self.choose("training.average_last", validations_in(total)[1])
        self.choose("training.precision", "auto")
        self.choose("training.schedule.kind", kind)
        self.choose("training.schedule.peak", recipe.peak)
        self.choose("training.schedule.warmup", recipe.warmup)
        if (most := max(1, total // rise)) < recipe.warmup:
            self.choose("training.schedule.warmup", most, f"The run is short: 1/{rise} of it.")
        if kind != "linear":
            stops = "The run ends earlier if the score no longer improves."
            self.choose("training.patience", PATIENCE, stops)
            return
        none = "No early stop: the last steps, at a small rate, improve the model most."
        self.choose("training.patience", 0, none)
        falls = "Falls to zero at the end of the run."
        self.choose("training.schedule.kind", kind, falls)

    def limit_length(self, brought: Brought | None) -> None:
        """Lower the maximum length to that of the model to start from."""
        most: Any = self.values["data.max_length"]
        longest = brought.longest if brought else None
        if longest and longest < most:
            self.choose("data.max_length", longest, "The model has no more positions.")

    def config(self) -> CommentedConfig:
        """The settings as a commented file."""
        lines = (line for part, survey in self.surveys.items() for line in survey.lines(part))
        return CommentedConfig(self.form, self.values, self.reasons, (*self.notes, *lines))


def choose_fine_tuning(
    p: Proposal, used: float, batch_tokens: int, peak: float, brought: Brought | None
) -> None:
    """Choose the length and the learning rate of a run that starts from trained weights.

    Args:
        p: the proposal; its training data are surveyed.
        used: the share of the training data that is not held out.
        batch_tokens: of a step; more if that is fewer than `FINE_TUNED` examples.
        peak: of the learning rate.
        brought: what the model to start from brings, if that is known.
    """
    p.limit_length(brought)
    lengths = p.lengths(brought)
    each = max(1.0, float(lengths.mean()))
    longest, unit = p.values["data.max_length"], p.train.unit
    if unit != "pairs" and (cut := float((lengths >= longest).mean())):
        p.notes.append(
            f"about {100 * cut:.0f} % of the {unit} are cut to {longest} (data.max_length)"
        )
    while batch_tokens < FINE_TUNED * each:
        batch_tokens *= 2
    many = max(1, round(batch_tokens / each))
    p.choose("training.batch_tokens", batch_tokens, f"About {many:,} {p.train.unit}.")
    steps = expected_batches(lengths, used * p.train.distinct * p.train.examples, batch_tokens)
    epochs = next(epochs for below, epochs in TUNED_EPOCHS if p.train.examples < below)
    total = steps * epochs
    length = f"About {steps:,} steps per epoch, {total:,} in total: the model knows much already."
    p.choose("training.max_steps", 0)
    p.choose("training.max_epochs", epochs, length)
    p.choose("training.validate_every", min(steps, TUNED_EVERY))
    p.choose("training.average_last", 1, "The learning rate falls to zero: no need for an average.")
    p.choose("training.precision", "auto")
    p.choose("training.schedule.kind", "linear", "Falls to zero at the end of the run.")
    low = "Low, so that the model keeps what it has learned."
    p.choose("training.schedule.peak", peak, low)
    p.choose("training.schedule.warmup", max(1, total // 10), "A tenth of the run.")


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


def fit_reason(few: bool) -> str:
    """The reason for the size of a model."""
    return "a larger model would memorise them." if few else "there is enough to learn."
