"""A linear model of the n-grams of a text, which a classifier of few texts adds to its encoder."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from clearhead.model.layers import fixed

LEAST = 2
"""An n-gram is used if at least this many training texts contain it."""

FITTED_STEPS, REMEMBERED = 100, 10
"""The most steps of a fit, and the steps from which L-BFGS estimates the curvature."""

PADDED = 2.0**53
"""Number of unused entries. It is larger than that of any n-gram."""

Ids = Int[Tensor, "batch length"] | Int[Tensor, "batch length columns"]


class NgramClassifier(nn.Module):
    """A linear support vector machine on TF-IDF of tokens, pairs and character n-grams.

    The n-grams of a text are weighted by TF-IDF: 1 + ln(how often) in the text, times
    1 + ln((1 + texts) / (1 + texts with it)) of the training texts, scaled to length 1. Few texts
    are enough to learn what single words say; an encoder learns from more texts what a word means
    beside others. The margins are added to the logits of the encoder, both times their `factors`.
    `fit` learns everything but the factors.

    Args:
        count: the most n-grams that it knows, the most frequent ones.
        vocabulary: the number of token ids.
        labels: the number of labels.
        pad_id: the id of padding.
    """

    def __init__(self, count: int, vocabulary: int, labels: int, pad_id: int) -> None:
        super().__init__()
        self.vocabulary, self.pad_id = vocabulary, pad_id
        # In float64 a number is exact, and stays so in an average of weights.
        self.numbers = fixed(torch.full((count,), PADDED, dtype=torch.float64))
        self.idf = fixed(torch.zeros(count))
        self.weight = fixed(torch.zeros(labels, count))
        self.bias = fixed(torch.zeros(labels))
        self.factors = fixed(torch.ones(2))

    def forward(
        self, logits: Float[Tensor, "batch labels"], ids: Ids
    ) -> Float[Tensor, "batch labels"]:
        """The logits of the encoder and the margins of the n-grams, each times its factor."""
        of_logits, of_margins = self.factors
        return of_logits * logits + of_margins * self.margins(ids)

    def margins(self, ids: Ids) -> Float[Tensor, "batch labels"]:
        """The margin of each label: about 1 if the n-grams speak for it, −1 if against it."""
        return F.linear(self.tfidf(ids), self.weight, self.bias)

    def tfidf(self, ids: Ids) -> Float[Tensor, "batch count"]:
        """The weight of each known n-gram in each text; rows of length 1, or of 0 without any."""
        found = self._columns(self.ngrams(ids))
        # The last column takes the n-grams that are unknown.
        counts = self.idf.new_zeros(ids.size(0), len(self.idf) + 1)
        counts = counts.scatter_add(1, found, torch.ones_like(found, dtype=counts.dtype))[:, :-1]
        often = torch.where(counts > 0, 1 + counts.clamp(min=1).log(), 0.0)
        return F.normalize(often * self.idf)

    def ngrams(self, ids: Ids) -> Float[Tensor, "batch ngrams"]:
        """The number of each n-gram of each text, float64, −1 for padding.

        Of V tokens, the token i has the number i, a pair (i, j) the number (1 + i) · V + j, and the
        character n-gram c the number (1 + V) · V + c.
        """
        words = ids if ids.dim() == 2 else ids[..., 0]
        size, real = float(self.vocabulary), words != self.pad_id
        tokens = words.double()
        pairs = (1 + tokens[:, :-1]) * size + tokens[:, 1:]
        found = [_marked(tokens, real), _marked(pairs, real[:, :-1] & real[:, 1:])]
        if ids.dim() == 3:
            spelled = ids[..., 1:].flatten(1)
            found.append(_marked((1 + size) * size + spelled.double(), spelled != 0))
        return torch.cat(found, dim=1)

    def _columns(self, ngrams: Float[Tensor, "batch ngrams"]) -> Int[Tensor, "batch ngrams"]:
        """The column of each n-gram. Unknown n-grams get the last column."""
        # By bisection, because ONNX has no operation for it: the last known number that is not
        # larger.
        last = len(self.numbers) - 1
        found = torch.zeros_like(ngrams, dtype=torch.int64)
        step = 1 << last.bit_length()
        while step := step // 2:
            further = (found + step).clamp(max=last)
            found = torch.where(self.numbers[further] <= ngrams, further, found)
        return torch.where(self.numbers[found] == ngrams, found, last + 1)

    @torch.no_grad()
    def fit(
        self,
        batches: Sequence[Tensor],
        truth: Float[Tensor, "texts labels"],
        weights: Float[Tensor, " texts"],
    ) -> None:
        """Choose the n-grams and learn their weights from training texts.

        A label's margin m minimises |w|² / 2 + Σ c · max(0, 1 − y · m)² over the texts, with y = 1
        for a text of the label and −1 otherwise, and c the weight of the text: a linear support
        vector machine with the squared hinge loss (Fan et al. 2008, LIBLINEAR, equation 2), for
        which 1 is the usual weight.

        Args:
            batches: the ids of the texts, in the order of the truth.
            truth: 1.0 for each label of a text, else 0.0.
            weights: of the texts.
        """
        self._choose(batches, len(truth))
        sparse = [self.tfidf(batch).to_sparse() for batch in batches]
        features = torch.cat(sparse).coalesce()
        across = features.t().coalesce()
        sign = 2 * truth - 1
        both = truth.new_zeros(len(self.idf) + 1, truth.size(1))
        costs = weights[:, None]

        def loss() -> float:
            """The loss at `both`, the weights and, in the last row, the bias; sets the gradient."""
            margins = torch.sparse.mm(features, both[:-1]) + both[-1]
            missing = (1 - sign * margins).clamp(min=0)
            slopes = -2 * costs * sign * missing
            both.grad = both + torch.cat((torch.sparse.mm(across, slopes), slopes.sum(0)[None]))
            return float(both.square().sum() / 2 + (costs * missing.square()).sum())

        solver = torch.optim.LBFGS(
            [both],
            max_iter=FITTED_STEPS,
            history_size=REMEMBERED,
            line_search_fn="strong_wolfe",
        )
        solver.step(loss)
        self.weight.copy_(both[:-1].T)
        self.bias.copy_(both[-1])

    def _choose(self, batches: Sequence[Tensor], texts: int) -> None:
        """Know the n-grams that the most texts have, and how many have each."""
        each = [text[text >= 0].unique() for batch in batches for text in self.ngrams(batch)]
        numbers, having = torch.cat(each).unique(return_counts=True)
        chosen = having.sort(descending=True, stable=True).indices[: len(self.idf)]
        chosen = chosen[having[chosen] >= LEAST].sort().values
        self.numbers.fill_(PADDED)[: len(chosen)] = numbers[chosen]
        idf = 1 + torch.log((1 + texts) / (1 + having[chosen]))
        self.idf.zero_()[: len(chosen)] = idf


def _marked(numbers: Tensor, real: Bool[Tensor, "batch ngrams"]) -> Float[Tensor, "batch ngrams"]:
    return numbers.masked_fill(~real, -1.0)
