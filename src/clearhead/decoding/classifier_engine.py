"""Runs a classifier with PyTorch: rows of numbers in, logits out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from clearhead.decoding.device import full_memory_said
from clearhead.decoding.engine import batches_by_length
from clearhead.model.transformer import EncoderClassifier, evaluating

PADDED_PLACES = 16_384
"""Places of a batch, padding included, at most: what bounds memory for long inputs."""

SMALLER = "take a smaller --batch-size, or the CPU: --device cpu"
"""What makes a batch that the memory of a GPU does not hold one that it holds."""


class ClassifierEngine:
    """Sorts rows by length, classifies them batch by batch, and gives them back in order.

    Args:
        model: the classifier.
        smaller: what to do where the memory of a GPU does not hold a batch.
    """

    def __init__(self, model: EncoderClassifier, smaller: str = SMALLER) -> None:
        self.model = model
        self._smaller = smaller

    @torch.inference_mode()
    def logits(
        self,
        rows: Sequence[np.ndarray],
        collate: Callable[[Sequence[np.ndarray]], Tensor],
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> np.ndarray:
        """The logits of each row, float64 (rows, labels).

        Args:
            rows: ids (length,), of spelt words (length, 1 + most), or features (length, width).
            collate: makes the padded tensor of some rows.
            batch_size: rows at a time, at most.
            progress: told how many rows are done, after each batch.
        """
        found = np.zeros((len(rows), self.model.output.out_features))
        device = self.model.output.weight.device
        with evaluating(self.model):
            done = 0
            for batch in batches_by_length([len(row) for row in rows], batch_size, PADDED_PLACES):
                with full_memory_said(self._smaller, f"a batch of {len(batch)} inputs"):
                    inputs = collate([rows[i] for i in batch]).to(device)
                    found[batch] = self.model(inputs).double().cpu().numpy()
                done += len(batch)
                if progress is not None:
                    progress(done)
        return found
