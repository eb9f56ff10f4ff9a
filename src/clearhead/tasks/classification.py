"""Classification: an encoder learns labels of texts or of feature sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.data.batches import PREPARED_BATCHES, prefetch
from clearhead.data.labels import Labels
from clearhead.data.order import batch_order, largest
from clearhead.data.preparation import FEWEST, LabelledData
from clearhead.data.reading.labelled import Labelled
from clearhead.decoding.torch_engine import ClassifierEngine
from clearhead.errors import DataError
from clearhead.evaluation.calibration import (
    FACTORS,
    THRESHOLD,
    expected_calibration_error,
    fit_factors,
    fit_temperature,
    fit_thresholds,
    negative_log_likelihood,
    probabilities,
)
from clearhead.evaluation.class_scores import score_classes, truth_of
from clearhead.losses.cross_entropy import label_divergence, label_loss
from clearhead.model.build import build_classifier, linear_classifier
from clearhead.model.linear import LinearClassifier
from clearhead.model.transformer import EncoderClassifier
from clearhead.ranks import ALONE, Ranks
from clearhead.settings import RunConfig
from clearhead.training.task import Evaluation, Loss, Sample, diverged

SAMPLES = 3
"""Validation examples to show at each validation."""

FITTED = 20_000
"""The most examples from which a linear model learns: it keeps their features in memory."""

FITTED_BATCH = {"text": 64, "features": 16}
"""Examples at a time, of those from which a linear model learns."""

SMALLER = "use the CPU: training.device = 'cpu'"
"""What to do if a validation needs more memory than a GPU has."""

LARGEST_WEIGHT = 100.0
"""Maximum weight of a rare label, if an example may have several labels."""


@dataclass(frozen=True)
class LabelledBatch:
    """B padded inputs, the truth (B, labels): 1.0 for each label, else 0.0, and weights (B,).

    `rows` are the indices of the training examples.
    """

    inputs: Tensor
    truth: Tensor
    weights: Tensor
    rows: tuple[int, ...] = ()


class ClassificationTask:
    """Batches of examples, the loss of their labels, and accuracy, F1 and calibration.

    Args:
        config: of the run.
        data: its examples.
        ranks: the processes that train together.
        is_split: whether the validation examples are a share of the training data, rather than data
            that the user gave as validation data.
    """

    def __init__(
        self,
        config: RunConfig,
        data: LabelledData,
        ranks: Ranks = ALONE,
        is_split: bool = False,
    ) -> None:
        self.config = config
        self.is_split = is_split
        self.data = data
        self.ranks = ranks
        self.measure = config.measure
        self.higher_is_better = self.measure != "loss"
        self.multi_label = config.classifier.multi_label
        self.truth = truth_of(data.train, data.labels)
        self._validation_truth = truth_of(data.validation, data.labels)
        self._lengths = np.minimum([len(row) for row in data.rows], config.data.max_length)
        self._weights = self._class_weights()
        self._example_weights = _weights_of(data.train)

    def build_model(self) -> EncoderClassifier:
        """A new model of the run's configuration, initialised from its seed."""
        torch.manual_seed(self.config.seed)
        model = build_classifier(self.config, self.data.inputs.width, len(self.data.labels))
        if model.linear is not None:
            data, rows, truth = self.data, [*self.data.rows], self.truth
            weights = self._example_weights
            if self.is_split:
                rows += data.validation_rows
                truth = np.concatenate((truth, self._validation_truth))
                weights = _weights_of([*data.train, *data.validation])
            self._fit(model.linear, rows, truth, weights)
            model.linear.factors.copy_(torch.tensor(FACTORS))
        return model

    @property
    def features(self) -> str:
        """What the linear model reads, for people."""
        return "n-grams" if self.config.input == "text" else "random kernels"

    @cached_property
    def _margins(self) -> np.ndarray:
        """The margins of the validation examples, by a model that has not learned from them.

        Factors, temperature and scores use these margins. The linear model of the classifier itself
        also learns from the validation examples if these are a share of the training data.
        """
        config, data = self.config, self.data
        is_features = config.input == "features"
        # The training must not depend on when this is computed.
        with torch.random.fork_rng(devices=()), torch.no_grad():
            torch.manual_seed(config.seed)
            linear = linear_classifier(
                config.classifier, data.inputs.width, len(data.labels), is_features
            )
            assert linear is not None, "there are no features"
            self._fit(linear, data.rows, self.truth, self._example_weights)
            found = map(linear.margins, self._collated(data.validation_rows))
        return torch.cat([*found]).double().numpy()

    def _fit(
        self,
        linear: LinearClassifier,
        rows: Sequence[np.ndarray],
        truth: np.ndarray,
        weights: Tensor,
    ) -> None:
        chosen = np.sort(np.random.default_rng(self.config.seed).permutation(len(rows))[:FITTED])
        batches = [*self._collated([rows[i] for i in chosen])]
        linear.fit(batches, torch.from_numpy(truth[chosen]).float(), weights[chosen])

    def _collated(self, rows: Sequence[np.ndarray]) -> Iterator[Tensor]:
        """Rows as batches, in their order."""
        size = FITTED_BATCH[self.config.input]
        for first in range(0, len(rows), size):
            yield self.data.inputs.collate(rows[first : first + size])

    def batch_count(self, epoch: int) -> int:
        """Batches in an epoch."""
        return len(self._order(epoch))

    def batches(self, epoch: int, first: int, every: int = 1) -> Iterator[LabelledBatch]:
        """The batches of an epoch from index `first` on, or every n-th, prepared by a thread."""
        order = self._order(epoch)

        def prepare() -> Iterator[LabelledBatch]:
            for index in range(first, len(order), every):
                chosen = order[index].tolist()
                seed = np.random.SeedSequence((self.config.seed, epoch, index)).generate_state(1)
                rows = self.data.inputs.sampled(
                    [self.data.train[i] for i in chosen],
                    [self.data.rows[i] for i in chosen],
                    int(seed[0]),
                )
                truth = torch.from_numpy(self.truth[chosen]).float()
                inputs = self.data.inputs.collate(rows)
                weights = self._example_weights[chosen]
                yield LabelledBatch(inputs, truth, weights, tuple(chosen))

        return prefetch(prepare(), PREPARED_BATCHES)

    def largest_batch(self, epoch: int = 0) -> LabelledBatch:
        """The largest batch of an epoch."""
        order, lengths = self._order(epoch), self._lengths + self.data.inputs.prepended
        return next(self.batches(epoch, largest(order, lengths)))

    def split(self, batch: LabelledBatch) -> list[LabelledBatch]:
        """The two halves of a batch, or the batch alone if it has one example."""
        middle = len(batch.truth) // 2
        parts = [slice(middle), slice(middle, None)] if middle else [slice(None)]
        return [
            LabelledBatch(
                batch.inputs[part], batch.truth[part], batch.weights[part], batch.rows[part]
            )
            for part in parts
        ]

    def _order(self, epoch: int) -> list[np.ndarray]:
        config, nothing = self.config, np.zeros_like(self._lengths)
        return batch_order(self._lengths, nothing, config.training.batch_tokens, config.seed, epoch)

    def counts(self, batch: LabelledBatch) -> Mapping[str, int]:
        """Tokens or frames, and all positions of the padded batch."""
        places = batch.inputs.shape[0] * batch.inputs.shape[1]
        return {self.data.inputs.unit: self.data.inputs.real(batch.inputs), "positions": places}

    def places(self, batch: LabelledBatch, epoch: int) -> list[str]:
        """The file and line of each example of a batch."""
        return [self.data.train[row].place for row in batch.rows]

    def loss(self, model: nn.Module, batch: LabelledBatch) -> Loss:
        """The summed cross-entropy of the examples' labels, each times the weight of its example.

        With R-Drop (Liang et al. 2021) the batch passes twice. The passes differ in dropout and in
        hidden words.
        """
        training = self.config.training
        model = cast(EncoderClassifier, model)
        device = model.output.weight.device
        inputs = batch.inputs.to(device, non_blocking=True)
        truth = batch.truth.to(device, non_blocking=True)
        of_examples = batch.weights.to(device, non_blocking=True)
        passes = 2 if training.r_drop > 0 else 1
        if passes == 2:
            inputs, truth = torch.cat((inputs, inputs)), torch.cat((truth, truth))
        if training.word_dropout > 0:
            inputs = self.data.inputs.hide(inputs, training.word_dropout)
        logits = model(inputs).float()
        weights = self._weights.to(device)
        plain = label_loss(logits, truth, torch.ones_like(weights), 0.0, self.multi_label).sum()
        each = label_loss(logits, truth, weights, training.label_smoothing, self.multi_label)
        total = (each * of_examples.repeat(passes)).sum()
        if passes == 2:
            divergence = label_divergence(logits, self.multi_label)
            total = total + training.r_drop * (divergence * of_examples).sum()
        return Loss(total / passes, plain.detach() / passes, len(batch.truth))

    def evaluate(self, model: nn.Module) -> Evaluation:
        """Loss, accuracy, F1 and calibration on the validation examples.

        The scores include the temperature, by which logits are divided when the model is used; it
        is 1 if there are fewer than `FEWEST` examples. With several labels, a label is predicted
        from its fitted threshold. The factors of encoder and linear model are set to those with the
        highest likelihood; with fewer examples they are the usual ones.
        """
        data, model = self.data, cast(EncoderClassifier, model)
        part, truth = self.ranks.part(data.validation_rows), self._validation_truth
        with _encoder_alone(model):
            engine = ClassifierEngine(model, SMALLER)
            found = self.ranks.gathered([engine.logits(part, data.inputs)] if part else [])
        logits = np.concatenate(found)
        if not np.isfinite(logits).all():
            return diverged(self.measure)
        if model.linear is not None:
            logits = self._mixed(logits, model.linear)
        uncalibrated = probabilities(logits, 1.0, self.multi_label)
        temperature = 1.0
        if len(truth) >= FEWEST:
            temperature = fit_temperature(logits, truth, self.multi_label, prior=1.0)
        calibrated = probabilities(logits, temperature, self.multi_label)
        thresholds, fitted = np.array(THRESHOLD), {}
        if self.multi_label and len(truth) >= FEWEST:
            thresholds = fit_thresholds(calibrated, truth)
            fitted = {"thresholds": thresholds.tolist()}
        names = data.labels.names
        scores = score_classes(calibrated, truth, names, self.multi_label, thresholds)
        return Evaluation(
            scores={
                "loss": negative_log_likelihood(uncalibrated, truth, self.multi_label),
                "accuracy": scores.accuracy,
                "macro_f1": scores.macro_f1,
                "micro_f1": scores.micro_f1,
                "ece": scores.calibration_error,
                "ece_uncalibrated": expected_calibration_error(
                    uncalibrated, truth, self.multi_label
                ),
                "temperature": temperature,
            },
            signatures={},
            fitted=fitted,
            samples=tuple(
                Sample(_source(example), " | ".join(example.labels), _output(row, data.labels))
                for example, row in zip(data.validation[:SAMPLES], calibrated, strict=False)
            ),
        )

    def _mixed(self, logits: np.ndarray, linear: LinearClassifier) -> np.ndarray:
        """The encoder's logits for the validation examples with the margins; sets the factors."""
        truth, factors = self._validation_truth, FACTORS
        if len(truth) >= FEWEST:
            factors = fit_factors(logits, self._margins, truth, self.multi_label)
        linear.factors.copy_(torch.tensor(factors))
        return factors[0] * logits + factors[1] * self._margins

    def _class_weights(self) -> Tensor:
        """The weight of each label in the loss (labels,): 1, or balanced.

        For N examples with one of K labels each, a label of c examples has N / (K · c): the mean
        over the examples is 1, and the sum over those of a label is N / K. If examples may have
        several labels, positive cases have (N - c) / c, within [1 / 100, 100], so that they have
        the same total weight as negative ones.
        """
        counts = self.truth.sum(axis=0)
        if self.config.classifier.class_weights == "none":
            return torch.ones(len(counts))
        examples = len(self.truth)
        if self.multi_label:
            # Without limits, two examples in 10,000 would weigh 4,999 each and dominate their
            # batches, and a label that every example has would weigh nothing and not be learned.
            balanced = (examples - counts) / np.maximum(counts, 1)
            return torch.tensor(balanced.clip(1 / LARGEST_WEIGHT, LARGEST_WEIGHT)).float()
        return torch.tensor(examples / (len(counts) * np.maximum(counts, 1))).float()


@contextmanager
def _encoder_alone(model: EncoderClassifier) -> Iterator[None]:
    """Compute logits without the linear model."""
    if model.linear is None:
        yield
        return
    before = model.linear.factors.clone()
    model.linear.factors.copy_(torch.tensor((1.0, 0.0)))
    try:
        yield
    finally:
        model.linear.factors.copy_(before)


def _weights_of(examples: Sequence[Labelled]) -> Tensor:
    """The weight of each training example in the loss (examples,), with the mean 1."""
    weights = np.array([example.weight for example in examples])
    if not weights.any():
        raise DataError("no example is left to train on: all have the weight 0", where="train")
    return torch.from_numpy(weights / weights.mean()).float()


def _source(example: Labelled) -> str:
    """The text of an example, or the place of its features."""
    return example.input if isinstance(example.input, str) else example.place


def _output(probabilities: np.ndarray, labels: Labels) -> str:
    """The most probable label, e.g. `place (87 %)`."""
    best = int(probabilities.argmax())
    return f"{labels.names[best]} ({100 * probabilities[best]:.0f} %)"
