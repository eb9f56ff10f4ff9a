"""TF-IDF of the n-grams of a text, from which a linear model learns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from clearhead.model.layers import fixed
from clearhead.model.linear import Features

PADDED = 2.0**53
"""Number of unused entries. It is larger than that of any n-gram."""

Ids = Int[Tensor, "batch length"] | Int[Tensor, "batch length columns"]


class Ngrams(Features):
    """TF-IDF of tokens, pairs of neighbours and character n-grams.

    An n-gram is weighted by 1 + ln(how often) in the text, times
    1 + ln((1 + texts) / (1 + texts with it)) of the training texts. Of each text, tokens and pairs
    are scaled to length 1, and so are its character n-grams, which are many more.

    Args:
        count: the most n-grams that it knows, the most frequent ones.
        vocabulary: the number of token ids.
        pad_id: the id of padding.
    """

    cost = 1.0

    def __init__(self, count: int, vocabulary: int, pad_id: int) -> None:
        super().__init__()
        self.outputs, self.pad_id = count, pad_id
        self.vocabulary = float(vocabulary)
        self._first = (1 + self.vocabulary) * self.vocabulary
        """The number before that of the first character n-gram, which is 1 more or greater."""
        # In float64 a number is exact, and stays so in an average of weights.
        self.numbers = fixed(torch.full((count,), PADDED, dtype=torch.float64))
        self.idf = fixed(torch.zeros(count))

    def forward(self, ids: Ids) -> Float[Tensor, "batch count"]:
        """The weight of each known n-gram in each text; see the class."""
        found = self._columns(self.ngrams(ids))
        # The last column takes the n-grams that are unknown.
        counts = self.idf.new_zeros(ids.size(0), len(self.idf) + 1)
        counts = counts.scatter_add(1, found, torch.ones_like(found, dtype=counts.dtype))[:, :-1]
        often = torch.where(counts > 0, 1 + counts.clamp(min=1).log(), 0.0)
        weights = often * self.idf
        of_words = torch.where(self.numbers < self._first, weights, 0.0)
        return F.normalize(of_words) + F.normalize(weights - of_words)

    def rows(self, x: Ids) -> Tensor:
        """The same as a sparse tensor."""
        found = self._columns(self.ngrams(x))
        places = (found < self.outputs).nonzero().T
        at = torch.stack((places[0], found[places[0], places[1]]))
        size = (len(found), self.outputs)
        ones = self.idf.new_ones(at.size(1))
        counts = torch.sparse_coo_tensor(at, ones, size, check_invariants=False).coalesce()
        row, column = counts.indices()
        weights = (1 + counts.values().log()) * self.idf[column]
        # Two lengths for each text: that of its words, and that of its characters.
        part = 2 * row + (self.numbers[column] >= self._first)
        lengths = weights.new_zeros(2 * len(found)).index_add(0, part, weights**2).sqrt()
        values = weights / lengths[part]
        return torch.sparse_coo_tensor(counts.indices(), values, size, check_invariants=False)

    def ngrams(self, ids: Ids) -> Float[Tensor, "batch ngrams"]:
        """The number of each n-gram of each text, float64, −1 for padding.

        Of V tokens, the token i has the number i, a pair (i, j) the number (1 + i) · V + j, and the
        character n-gram c the number (1 + V) · V + c.
        """
        words = ids if ids.dim() == 2 else ids[..., 0]
        real = words != self.pad_id
        tokens = words.double()
        pairs = (1 + tokens[:, :-1]) * self.vocabulary + tokens[:, 1:]
        found = [_marked(tokens, real), _marked(pairs, real[:, :-1] & real[:, 1:])]
        if ids.dim() == 3:
            spelled = ids[..., 1:].flatten(1)
            found.append(_marked(self._first + spelled.double(), spelled != 0))
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
    def fit(self, batches: Sequence[Tensor]) -> None:
        """Know the n-grams that the most texts have, and how many have each."""
        each = [text[text >= 0].unique() for ids in batches for text in self.ngrams(ids)]
        numbers, having = torch.cat(each).unique(return_counts=True)
        chosen = having.sort(descending=True, stable=True).indices[: len(self.idf)]
        chosen = chosen.sort().values
        self.numbers.fill_(PADDED)[: len(chosen)] = numbers[chosen]
        idf = 1 + torch.log((1 + len(each)) / (1 + having[chosen]))
        self.idf.zero_()[: len(chosen)] = idf


def _marked(numbers: Tensor, real: Bool[Tensor, "batch ngrams"]) -> Float[Tensor, "batch ngrams"]:
    return numbers.masked_fill(~real, -1.0)
