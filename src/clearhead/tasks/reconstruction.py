"""Reconstruction: an encoder learns without labels, by filling in hidden spans of features.

Zerveas et al. 2021, section 3.2. What it learned is where a classifier may begin
(`classifier.encoder_from`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.data.batches import PREPARED_BATCHES, batch_order, largest, prefetch
from clearhead.data.labelled_data import LabelledData
from clearhead.evaluation.validation import mean_loss
from clearhead.model.build import build_reconstructor
from clearhead.model.transformer import EncoderReconstructor
from clearhead.settings import RunConfig
from clearhead.training.task import Evaluation, Loss

VALIDATION_SEQUENCES = 64
"""Sequences of a batch where the loss on the validation data is computed."""


@dataclass(frozen=True)
class HiddenBatch:
    """B sequences, padded with NaN, and which values (B, length, width) are hidden."""

    features: Tensor
    hidden: Tensor


class ReconstructionTask:
    """Batches of sequences with hidden spans, and the squared error on what was hidden."""

    measure = "loss"
    higher_is_better = False

    def __init__(self, config: RunConfig, data: LabelledData) -> None:
        self.config = config
        self.data = data
        self._lengths = np.minimum([len(row) for row in data.rows], config.data.max_length)

    def build_model(self) -> EncoderReconstructor:
        """A new model of the run's configuration, initialised from its seed."""
        torch.manual_seed(self.config.seed)
        return build_reconstructor(self.config.model, self.data.inputs.width)

    def batch_count(self, epoch: int) -> int:
        """Batches in an epoch."""
        return len(self._order(epoch))

    def batches(self, epoch: int, first: int) -> Iterator[HiddenBatch]:
        """The batches of an epoch from index `first` on, prepared by a thread of their own."""
        order = self._order(epoch)

        def prepare() -> Iterator[HiddenBatch]:
            for index in range(first, len(order)):
                rng = np.random.default_rng((self.config.seed, epoch, index))
                yield self._batch([self.data.rows[i] for i in order[index].tolist()], rng)

        return prefetch(prepare(), PREPARED_BATCHES)

    def largest_batch(self) -> HiddenBatch:
        """The largest batch of the first epoch."""
        order, lengths = self._order(0), self._lengths + self.data.inputs.begun
        return next(self.batches(0, largest(order, lengths)))

    def _order(self, epoch: int) -> list[np.ndarray]:
        limit = self.config.training.batch_tokens
        nothing = np.zeros_like(self._lengths)
        return batch_order(self._lengths, nothing, limit, self.config.seed, epoch)

    def _batch(self, rows: Sequence[np.ndarray], rng: np.random.Generator) -> HiddenBatch:
        features = self.data.inputs.collate(rows)
        how = self.config.reconstruction
        hidden = torch.from_numpy(hidden_spans(features.shape, how.share, how.mean_span, rng))
        return HiddenBatch(features, hidden & ~features.isnan())

    def counts(self, batch: HiddenBatch) -> Mapping[str, int]:
        """Frames, and all places of the padded batch."""
        places = batch.features.shape[0] * batch.features.shape[1]
        return {"frames": self.data.inputs.real(batch.features), "places": places}

    def loss(self, model: nn.Module, batch: HiddenBatch) -> Loss:
        """The summed squared error of the hidden values."""
        model = cast(EncoderReconstructor, model)
        device = model.output.weight.device
        features = batch.features.to(device, non_blocking=True)
        hidden = batch.hidden.to(device, non_blocking=True)
        found = model(features.masked_fill(hidden, 0.0)).float()
        total = torch.where(hidden, found - features, 0.0).square().sum()
        # A batch in which nothing happens to be hidden teaches nothing, and divides by nothing.
        return Loss(total, total.detach(), max(1, int(batch.hidden.sum())))

    def evaluate(self, model: nn.Module) -> Evaluation:
        """The mean squared error on the validation data; the same values are always hidden."""
        loss = mean_loss(self.loss, model, self._validation_batches)
        return Evaluation(scores={"loss": loss}, signatures={}, samples=())

    @cached_property
    def _validation_batches(self) -> list[HiddenBatch]:
        rows = self.data.validation_rows
        rng = np.random.default_rng(self.config.seed)
        groups = range(0, len(rows), VALIDATION_SEQUENCES)
        return [self._batch(rows[i : i + VALIDATION_SEQUENCES], rng) for i in groups]


def hidden_spans(
    shape: Sequence[int], share: float, mean_span: float, rng: np.random.Generator
) -> np.ndarray:
    """Which values of sequences are hidden, bool (batch, length, width).

    Along time, each feature by itself, hidden spans and open ones take turns; their lengths are
    geometric, with means `mean_span` and mean_span · (1 − share) / share (Zerveas et al. 2021,
    section 3.2).
    """
    batch, length, width = shape
    ends = 1 / mean_span
    begins = ends * share / (1 - share)
    hidden = np.zeros((batch, length, width), dtype=bool)
    now = rng.random((batch, width)) < share
    for place in range(length):
        hidden[:, place] = now
        draw = rng.random((batch, width))
        now = np.where(now, draw >= ends, draw < begins)
    return hidden
