"""A linear model of fixed features of an input, which a classifier adds to its encoder."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.model.layers import fixed

FITTED_STEPS, REMEMBERED = 100, 10
"""The most steps of a fit, and the steps from which L-BFGS estimates the curvature."""

ACTIVE = 0.05
"""About the share of examples that a label's loss depends on near its minimum: the curvature by
which the weights are scaled in `fit`. It changes the number of steps alone."""


class Features(nn.Module):
    """Features of an input that steps do not train.

    Attributes:
        outputs: how many there are.
        cost: of the loss of an example in `LinearClassifier.fit`, relative to the squared weights.
    """

    outputs: int
    cost: float

    def forward(self, x: Tensor, /) -> Float[Tensor, "batch outputs"]:
        """The features of each input, whatever its padding."""
        raise NotImplementedError

    def rows(self, x: Tensor) -> Tensor:
        """The same; as a sparse tensor, which needs less memory and time, if nearly all are 0."""
        return self(x)

    def fit(self, batches: Sequence[Tensor]) -> None:
        """Choose the features by these inputs."""
        raise NotImplementedError


class LinearClassifier(nn.Module):
    """A linear support vector machine of `Features`, which a classifier adds to its encoder.

    Few examples are enough to learn what each feature says; an encoder learns from more examples
    what to look for. The margins are added to the logits of the encoder, both times their
    `factors`. `fit` learns everything but the factors.
    """

    def __init__(self, features: Features, labels: int) -> None:
        super().__init__()
        self.features = features
        self.weight = fixed(torch.zeros(features.outputs, labels))
        self.bias = fixed(torch.zeros(labels))
        self.factors = fixed(torch.ones(2))

    def forward(
        self, logits: Float[Tensor, "batch labels"], x: Tensor
    ) -> Float[Tensor, "batch labels"]:
        """The logits of the encoder and the margins, each times its factor."""
        of_logits, of_margins = self.factors
        return of_logits * logits + of_margins * self.margins(x)

    def margins(self, x: Tensor) -> Float[Tensor, "batch labels"]:
        """The margin of each label: about 1 if the features speak for it, −1 if against it."""
        # ONNX has no sparse tensors.
        dense = torch.compiler.is_exporting()
        return (self.features(x) if dense else self.features.rows(x)) @ self.weight + self.bias

    @torch.no_grad()
    def fit(
        self,
        batches: Sequence[Tensor],
        truth: Float[Tensor, "examples labels"],
        weights: Float[Tensor, " examples"],
    ) -> None:
        """Choose the features and learn their weights from training examples.

        A label's margin m minimises |w|² / 2 + Σ c · max(0, 1 − y · m)² over the examples, with
        y = 1 for an example of the label and −1 otherwise, and c the weight of the example times
        the features' `cost`: a linear support vector machine with the squared hinge loss (Fan et
        al. 2008, LIBLINEAR, equation 2).

        Args:
            batches: the examples, in the order of the truth.
            truth: 1.0 for each label of an example, else 0.0.
            weights: of the examples.
        """
        self.features.fit(batches)
        features = torch.cat([*map(self.features.rows, batches)])
        across, multiply = features.t(), torch.mm
        if features.is_sparse:
            features, across, multiply = features.coalesce(), across.coalesce(), torch.sparse.mm
        sign = 2 * truth - 1
        costs = self.features.cost * weights[:, None]
        squares = torch.cat((multiply(across * across, costs), costs.sum(0)[None]))
        scale = (1 + 2 * ACTIVE * squares).rsqrt()
        # The weights, and in the last row the bias, in units of `scale`.
        scaled = truth.new_zeros(self.features.outputs + 1, truth.size(1))

        def loss() -> float:
            """The loss at `scaled`, whose gradient it sets."""
            both = scale * scaled
            margins = multiply(features, both[:-1]) + both[-1]
            missing = (1 - sign * margins).clamp(min=0)
            slopes = -2 * costs * sign * missing
            gradient = both + torch.cat((multiply(across, slopes), slopes.sum(0)[None]))
            scaled.grad = scale * gradient
            return float(both.square().sum() / 2 + (costs * missing.square()).sum())

        solver = torch.optim.LBFGS(
            [scaled],
            max_iter=FITTED_STEPS,
            history_size=REMEMBERED,
            line_search_fn="strong_wolfe",
        )
        solver.step(loss)
        both = scale * scaled
        self.weight.copy_(both[:-1])
        self.bias.copy_(both[-1])
