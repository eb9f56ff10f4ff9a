"""The inputs of the stacks: each returns vectors (batch, length, d_model) and their mask."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from clearhead.model.attention import padding_mask
from clearhead.model.dropout import Dropout
from clearhead.model.positions import Positions


class TokenEmbedding(nn.Module):
    """Embeddings of tokens, optionally scaled by √d_model, plus positions (section 3.4, 3.5).

    The paper has no norm of the sum; BERT has one.
    """

    positions: Positions

    def __init__(
        self,
        embedding: nn.Embedding,
        positions: Positions,
        norm: nn.Module,
        dropout: Dropout,
        scaled: bool,
        pad_id: int,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = positions
        self.norm = norm
        self.dropout = dropout
        self.scale = math.sqrt(embedding.embedding_dim) if scaled else 1.0
        self.pad_id = pad_id

    @property
    def max_length(self) -> int | None:
        """The maximum number of tokens of a sequence; None: no limit."""
        return self.positions.max_length

    def forward(
        self, ids: Int[Tensor, "batch length"], start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        return self.dropout(self.norm(self.positions(self.embedding(ids) * self.scale, start)))

    def mask(self, ids: Int[Tensor, "batch length"]) -> Bool[Tensor, "batch 1 1 length"]:
        """True where a token is not padding."""
        return padding_mask(ids, self.pad_id)


class SpelledEmbedding(TokenEmbedding):
    """The embedding of each word plus the mean embedding of its character n-grams.

    Words with the same stem or ending thus share vectors, and an unknown word has the vector of
    its n-grams (after Bojanowski et al. 2017, section 3.2, who sum them). Each position of the
    input has several numbers: the id of the word, then those of its n-grams, padded with 0.

    Args:
        embedding: of the words; its `padding_idx` is the unknown word, whose vector stays zero.
        ngrams: mean of the embeddings of n-grams; its `padding_idx` is 0.
        positions: added to the sum.
        norm: of the sum.
        dropout: of the norm's output.
        scaled: whether the sum is multiplied by √d_model.
        pad_id: of the words.
    """

    def __init__(
        self,
        embedding: nn.Embedding,
        ngrams: nn.EmbeddingBag,
        positions: Positions,
        norm: nn.Module,
        dropout: Dropout,
        scaled: bool,
        pad_id: int,
    ) -> None:
        super().__init__(embedding, positions, norm, dropout, scaled, pad_id)
        self.ngrams = ngrams

    def forward(
        self, ids: Int[Tensor, "batch length columns"], start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        words, ngrams = ids[..., 0], ids[..., 1:]
        of_ngrams = self.ngrams(ngrams.flatten(0, 1)).unflatten(0, words.shape)
        vectors = (self.embedding(words) + of_ngrams) * self.scale
        return self.dropout(self.norm(self.positions(vectors, start)))

    def mask(self, ids: Int[Tensor, "batch length columns"]) -> Bool[Tensor, "batch 1 1 length"]:
        """True where a word is not padding."""
        return padding_mask(ids[..., 0], self.pad_id)


class FeatureProjection(nn.Module):
    """Feature vectors projected to d_model, plus positions.

    All numbers of a padded frame are NaN, and no others.
    """

    positions: Positions

    def __init__(
        self, projection: nn.Linear, positions: Positions, norm: nn.Module, dropout: Dropout
    ) -> None:
        super().__init__()
        self.projection = projection
        self.positions = positions
        self.norm = norm
        self.dropout = dropout

    @property
    def max_length(self) -> int | None:
        """The maximum number of frames of a sequence; None: no limit."""
        return self.positions.max_length

    def forward(
        self, features: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch length d_model"]:
        # Features are float32, whatever the type of the model.
        real = features.nan_to_num(0.0).to(self.projection.weight.dtype)
        return self.dropout(self.norm(self.positions(self.projection(real), 0)))

    def mask(
        self, features: Float[Tensor, "batch length width"]
    ) -> Bool[Tensor, "batch 1 1 length"]:
        """True where a frame is not padding."""
        return ~torch.isnan(features[..., 0])[:, None, None, :]


class ConvolvedInput(nn.Module):
    """An input plus the output of convolutions over it.

    Neighbours are thus combined before attention, which would have to learn from positions alone
    which tokens are neighbours. Padding is zero for a convolution. Convolutions of several widths
    each compute a part of the dimensions of the model, as the feature maps of Kim 2014 (section 2).
    """

    input: TokenEmbedding | FeatureProjection

    def __init__(
        self,
        input: TokenEmbedding | FeatureProjection,
        convolutions: Sequence[nn.Conv1d],
        activation: nn.Module,
        dropout: Dropout,
    ) -> None:
        super().__init__()
        self.input = input
        self.convolutions = nn.ModuleList(convolutions)
        self.activation = activation
        self.dropout = dropout

    @property
    def max_length(self) -> int | None:
        """The maximum length of a sequence; None: no limit."""
        return self.input.max_length

    def forward(self, x: Tensor) -> Float[Tensor, "batch length d_model"]:
        vectors = self.input(x)
        real = vectors * self.mask(x)[:, 0, 0, :, None]
        channels = real.transpose(1, 2)
        convolutions = cast("Iterable[nn.Conv1d]", self.convolutions)
        convolved = torch.cat([_same_length(channels, each) for each in convolutions], dim=1)
        return vectors + self.dropout(self.activation(convolved.transpose(1, 2)))

    def mask(self, x: Tensor) -> Bool[Tensor, "batch 1 1 length"]:
        """True at what is not padding."""
        return self.input.mask(x)


def _same_length(
    channels: Float[Tensor, "batch d_model length"], convolution: nn.Conv1d
) -> Float[Tensor, "batch share length"]:
    """A convolution at every position; an even width has one more position on the left."""
    width = convolution.kernel_size[0]
    return convolution(F.pad(channels, (width // 2, (width - 1) // 2)))


Input = TokenEmbedding | FeatureProjection | ConvolvedInput
