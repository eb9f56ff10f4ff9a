"""What enters the stacks: each input gives vectors (batch, length, d_model) and their mask."""

from __future__ import annotations

import math

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.model.dropout import Dropout
from clearhead.model.masks import padding_mask
from clearhead.model.positions import Positions


class TokenEmbedding(nn.Module):
    """Embeddings of tokens, scaled by √d_model where asked, plus positions (section 3.4, 3.5)."""

    positions: Positions

    def __init__(
        self,
        embedding: nn.Embedding,
        positions: Positions,
        dropout: Dropout,
        scaled: bool,
        pad_id: int,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = positions
        self.dropout = dropout
        self.scale = math.sqrt(embedding.embedding_dim) if scaled else 1.0
        self.pad_id = pad_id

    @property
    def max_length(self) -> int | None:
        """The most tokens of a sequence, as its positions have it; None: any number."""
        return self.positions.max_length

    def forward(
        self, ids: Int[Tensor, "batch length"], start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        return self.dropout(self.positions(self.embedding(ids) * self.scale, start))

    def mask(self, ids: Int[Tensor, "batch length"]) -> Bool[Tensor, "batch 1 1 length"]:
        """True where a token is not padding."""
        return padding_mask(ids, self.pad_id)
