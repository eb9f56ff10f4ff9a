"""The loss of a classifier, and the divergence of two passes (R-Drop).

The loss of a translator is in cross_entropy.py. Both smooth the labels.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def label_loss(
    logits: Tensor, truth: Tensor, weights: Tensor, smoothing: float, multi_label: bool
) -> Tensor:
    """The summed loss of a batch.

    With one label an example: cross-entropy, `smoothing` of the truth spread evenly over the labels
    (Szegedy et al. 2016, section 7), an example weighted by its class. With several: the binary
    cross-entropy of each label, weighted if the example has it; `smoothing` moves the truth towards
    one half.

    Args:
        logits: (B, labels).
        truth: (B, labels).
        weights: (labels,).
        smoothing: from 0 to 1.
        multi_label: whether an example may have several labels, or none.
    """
    if multi_label:
        soft = truth * (1 - smoothing) + smoothing / 2
        each = F.binary_cross_entropy_with_logits(logits, soft, reduction="none")
        return (each * torch.where(truth > 0, weights, 1.0)).sum()
    soft = truth * (1 - smoothing) + smoothing / truth.size(1)
    each = -(soft * logits.log_softmax(dim=-1)).sum(dim=-1)
    return (each * (truth @ weights)).sum()


def divergence(logits: Tensor, multi_label: bool) -> Tensor:
    """Half of KL(p₁‖p₂) + KL(p₂‖p₁), summed; both halves of the batch are the same examples.

    Liang et al. 2021, R-Drop, equation 3. With one label an example p is the softmax; with several,
    each label has a Bernoulli distribution of its own.

    Args:
        logits: (2 · B, labels).
        multi_label: whether an example may have several labels, or none.
    """
    if multi_label:
        first, second = logits.chunk(2)
        # Summed over both outcomes, ln(p / q) leaves the difference of the logits.
        apart = (first.sigmoid() - second.sigmoid()) * (first - second)
    else:
        first, second = logits.log_softmax(dim=-1).chunk(2)
        apart = (first.exp() - second.exp()) * (first - second)
    return apart.sum() / 2
