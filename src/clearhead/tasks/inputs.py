"""What a classifier reads, as rows of numbers, and the batches that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from clearhead.data.features import Rule, as_frames, fill_missing
from clearhead.data.labelled import Labelled, in_columns, one_line
from clearhead.data.normaliser import Normaliser
from clearhead.errors import DataError
from clearhead.tasks.noise import hide_frames, hide_words
from clearhead.tokenizer import BOS, PAD, Tokenizer

TOKENIZER, NORMALISER = "tokenizer", "normaliser"
"""The names of the parts of a model folder."""


class Inputs(Protocol):
    """One kind of input: texts, or sequences of features."""

    unit: str
    """What a row is made of, for messages: `tokens` or `frames`."""

    begun: int
    """Places that `collate` puts before those of a row."""

    @property
    def width(self) -> int:
        """Tokens of the vocabulary, or features of a frame: what the model is built for."""
        ...

    @property
    def parts(self) -> Mapping[str, Any]:
        """What belongs into the model folder, by name."""
        ...

    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        """Each example as numbers, however long: ids (length,), or features (length, width).

        Ids are (length, 1 + most) where words are spelt.

        Raises:
            DataError: an example cannot be read so; the message has its place.
        """
        ...

    def sampled(
        self, examples: Sequence[Labelled], rows: list[np.ndarray], seed: int
    ) -> list[np.ndarray]:
        """The rows as they are to be seen in one epoch of training."""
        ...

    def collate(self, rows: Sequence[np.ndarray]) -> Tensor:
        """One padded tensor of rows, none longer than the limit: the rest is cut off."""
        ...

    def real(self, batch: Tensor) -> int:
        """How many places of a batch are no padding."""
        ...

    def hide(self, batch: Tensor, rate: float) -> Tensor:
        """A share of the places of a batch hidden from the model."""
        ...

    def names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        """What each place of an example's row is called, as far as the row is read."""
        ...


class TextInputs:
    """Texts as token ids.

    Args:
        tokenizer: makes ids of them.
        max_length: tokens that are read, at most.
        start: whether BOS stands first, for a pooling that takes the first place.
    """

    unit = "tokens"

    def __init__(self, tokenizer: Tokenizer, max_length: int, start: bool) -> None:
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.start = [BOS] if start else []
        self.begun = len(self.start)

    @property
    def width(self) -> int:
        """Tokens of the vocabulary."""
        return len(self.tokenizer)

    @property
    def parts(self) -> Mapping[str, Any]:
        """The tokenizer."""
        return {TOKENIZER: self.tokenizer}

    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        """The ids of each text (length,)."""
        encoded = self.tokenizer.encode_batch([text_of(example) for example in examples])
        return [np.array(ids, dtype=np.int64) for ids in encoded]

    def sampled(
        self, examples: Sequence[Labelled], rows: list[np.ndarray], seed: int
    ) -> list[np.ndarray]:
        """Another segmentation of each text, where the tokenizer samples."""
        if self.tokenizer.sampling == 0.0:
            return rows
        drawn = self.tokenizer.sample_batch([text_of(e) for e in examples], seed)
        return [np.array(ids, dtype=np.int64) for ids in drawn]

    def collate(self, rows: Sequence[np.ndarray]) -> Tensor:
        """Ids (rows, length), PAD behind each row's own."""
        kept = [torch.tensor([*self.start, *row[: self.max_length]]).long() for row in rows]
        padded = pad_sequence(kept, batch_first=True, padding_value=PAD)
        # Of empty texts alone, a batch still has a place, where nothing stands.
        return padded if padded.size(1) else padded.new_full((len(rows), 1), PAD)

    def real(self, batch: Tensor) -> int:
        """Tokens that are not PAD."""
        return int((batch != PAD).sum())

    def hide(self, batch: Tensor, rate: float) -> Tensor:
        """Tokens made unknown."""
        return hide_words(batch, self.tokenizer.unk_id, rate)

    def names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        """The pieces of the text."""
        return tuple(self.tokenizer.pieces([*self.start, *row[: self.max_length].tolist()]))


def text_of(example: Labelled) -> str:
    """The text of an example, in one line.

    Raises:
        DataError: its input is no text.
    """
    if not isinstance(example.input, str):
        kind = type(example.input).__name__
        raise DataError(f"the input is a {kind}, not a text", where=example.place)
    return one_line(example.input)


class FeatureInputs:
    """Sequences of feature vectors, filled and brought to a common scale.

    Args:
        normaliser: learned from the training data.
        missing: the rule for missing values, as in `DataConfig`.
        max_length: frames that are read, at most.
    """

    unit = "frames"

    def __init__(self, normaliser: Normaliser, missing: Rule, max_length: int) -> None:
        self.normaliser = normaliser
        self.missing: Rule = missing
        self.begun = 0
        self.max_length = max_length

    @property
    def width(self) -> int:
        """Features of a frame."""
        return self.normaliser.width

    @property
    def parts(self) -> Mapping[str, Any]:
        """The normaliser."""
        return {NORMALISER: self.normaliser}

    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        """The frames of each sequence (length, width), float32, no value missing.

        Where both the sequence and the training data name the features, they go by name.
        """
        return [self._row(example) for example in examples]

    def _row(self, example: Labelled) -> np.ndarray:
        frames = as_frames(_array(example), example.place)
        frames = in_columns(example._replace(input=frames), self.normaliser.names).input
        self.normaliser.check(frames, example.place)
        filled = fill_missing(frames, self.missing, example.place, self.normaliser.mean)
        return self.normaliser(filled)

    def sampled(
        self, examples: Sequence[Labelled], rows: list[np.ndarray], seed: int
    ) -> list[np.ndarray]:
        """The same rows in every epoch."""
        return rows

    def collate(self, rows: Sequence[np.ndarray]) -> Tensor:
        """Features (rows, length, width), NaN behind each row's own."""
        kept = [torch.from_numpy(row[: self.max_length]) for row in rows]
        return pad_sequence(kept, batch_first=True, padding_value=float("nan"))

    def real(self, batch: Tensor) -> int:
        """Frames that are not padding."""
        return int((~batch[..., 0].isnan()).sum())

    def hide(self, batch: Tensor, rate: float) -> Tensor:
        """Frames set to 0: to the mean, unless features are not normalised (`data.normalise`)."""
        return hide_frames(batch, rate)

    def names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        """The numbers of the frames, from 1."""
        return tuple(str(number) for number in range(1, min(len(row), self.max_length) + 1))


def _array(example: Labelled) -> np.ndarray:
    """The features of an example, as whoever calls from Python has them."""
    try:
        return np.asarray(example.input)
    except (ValueError, TypeError, RuntimeError) as error:  # a tensor has the latter two
        raise DataError(
            "the features are not an array of numbers, (frames, features)",
            where=example.place,
            why=str(error),
            todo="give every frame the same features",
        ) from None
