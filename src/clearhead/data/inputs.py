"""What a classifier reads: each example as a row of numbers, and padded batches of rows.

`Inputs` is the protocol. `TextInputs` makes token ids, `SpelledInputs` words with their character
n-grams, `FeatureInputs` feature vectors.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from clearhead.checkpoint import JOINT_TOKENIZER, read_folder_config, read_tokenizers
from clearhead.data.features import Rule, as_frames, fill_missing
from clearhead.data.labelled import Labelled, in_columns, one_line
from clearhead.data.normaliser import Normaliser
from clearhead.errors import ConfigError, DataError, ModelFolderError
from clearhead.settings import RunConfig
from clearhead.tokenizer import BOS, PAD, Tokenizer, WordTokenizer, load_tokenizer

TOKENIZER, NORMALISER = "tokenizer", "normaliser"
"""The names of the parts in a model folder."""

LONGEST_WORD = 40
"""Characters of a word that are split into n-grams, including its two marks. A batch is as wide as
its longest word has n-grams, and anything longer is a link or a number, not a word."""


class Inputs(Protocol):
    """One kind of input: texts, or sequences of features."""

    unit: str
    """What a row consists of, for messages: `tokens` or `frames`."""

    begun: int
    """The number of tokens that `collate` puts before each row."""

    width: int
    """The size of the vocabulary, or the number of features: what the model is built for."""

    parts: Mapping[str, Any]
    """What is saved in the model folder, by name."""

    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        """Each example as numbers, of any length.

        Ids (length,), ids and n-grams (length, 1 + most), or features (length, width), float32.

        Raises:
            DataError: an example cannot be read; `where` is its place.
        """
        ...

    def sampled(
        self, examples: Sequence[Labelled], rows: list[np.ndarray], seed: int
    ) -> list[np.ndarray]:
        """The rows for one epoch of training, where a tokenizer may sample the segmentation."""
        return rows

    def collate(self, rows: Sequence[np.ndarray]) -> Tensor:
        """One tensor (rows, length, …) of rows that are cut off at the maximum length.

        The padding is PAD for ids and NaN for features.
        """
        ...

    def real(self, batch: Tensor) -> int:
        """The number of positions of a batch that are not padding."""
        ...

    def hide(self, batch: Tensor, rate: float) -> Tensor:
        """The batch with a random share of its positions hidden from the model.

        Hidden tokens become the unknown token, without n-grams. Hidden frames become 0, which is
        the mean if features are normalised.
        """
        ...

    def names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        """The name of each position of an example in a batch: tokens, words, or frame numbers."""
        ...


class TextInputs(Inputs):
    """Texts as token ids.

    Args:
        tokenizer: makes the ids.
        max_length: the maximum number of tokens of a text.
        start: whether BOS comes first, for a pooling that takes the first position.
    """

    unit = "tokens"

    def __init__(self, tokenizer: Tokenizer, max_length: int, start: bool) -> None:
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.begun = int(start)
        self.width = len(tokenizer)
        self.parts = {TOKENIZER: tokenizer}

    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        encoded = self.tokenizer.encode_batch([_text(example) for example in examples])
        return [np.array(ids, dtype=np.int64) for ids in encoded]

    def sampled(
        self, examples: Sequence[Labelled], rows: list[np.ndarray], seed: int
    ) -> list[np.ndarray]:
        if self.tokenizer.sampling == 0.0:
            return rows
        drawn = self.tokenizer.sample_batch([_text(example) for example in examples], seed)
        return [np.array(ids, dtype=np.int64) for ids in drawn]

    def collate(self, rows: Sequence[np.ndarray]) -> Tensor:
        return self._padded([row[:, None] for row in rows], 1)[..., 0]

    def _padded(self, rows: Sequence[np.ndarray], columns: int) -> Tensor:
        """Rows of up to so many columns as (rows, length, columns), after BOS where it is first."""
        cut = [row[: self.max_length] for row in rows]
        # A batch of empty texts has one position, with PAD: no layer accepts a length of 0.
        length = max(1, self.begun + max(map(len, cut)))
        batch = np.full((len(rows), length, columns), PAD, dtype=np.int64)
        batch[:, : self.begun, 0] = BOS
        for place, row in zip(batch, cut, strict=True):
            place[self.begun : self.begun + len(row), : row.shape[1]] = row
        return torch.from_numpy(batch)

    def real(self, batch: Tensor) -> int:
        return int((batch != PAD).sum())

    def hide(self, batch: Tensor, rate: float) -> Tensor:
        return hide_words(batch, self.tokenizer.unk_id, rate)

    def names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        ids = [*[BOS] * self.begun, *row[: self.max_length].tolist()]
        return tuple(self.tokenizer.pieces(ids))


class NGrams(NamedTuple):
    """The character n-grams of words (Bojanowski et al. 2017, section 3.2).

    Attributes:
        lengths: of the n-grams, in characters, including the marks at both ends of a word.
        vectors: all n-grams share this many numbers, which start at 1.
    """

    lengths: tuple[int, ...]
    vectors: int

    def spelling(self, word: str) -> list[str]:
        """The n-grams of a word between its marks, by length; only the start of a long word."""
        marked = f"<{word}>"[:LONGEST_WORD]
        return [
            marked[first : first + length]
            for length in self.lengths
            for first in range(len(marked) - length + 1)
        ]

    def numbers(self, word: str) -> list[int]:
        """The number of each n-gram; different n-grams may share one."""
        # Python's own hash differs between processes.
        encoded = [ngram.encode("utf-8", "surrogatepass") for ngram in self.spelling(word)]
        return [1 + zlib.crc32(ngram) % self.vectors for ngram in encoded]


class SpelledInputs(TextInputs):
    """Texts as rows (length, 1 + most): the id of a word, then its n-grams, padded with 0.

    Args:
        tokenizer: knows the words.
        ngrams: numbers their n-grams.
        max_length: the maximum number of words of a text.
        start: whether BOS comes first, for a pooling that takes the first position.
    """

    def __init__(
        self, tokenizer: WordTokenizer, ngrams: NGrams, max_length: int, start: bool
    ) -> None:
        super().__init__(tokenizer, max_length, start)
        self.words = tokenizer
        self.ngrams = ngrams

    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        return [self._row(_text(example)) for example in examples]

    def _row(self, text: str) -> np.ndarray:
        ids = self.words.encode(text)
        # The words after the maximum length count for the length, but no model reads them.
        read = self.words.words_of(text)[: self.max_length]
        ngrams = [self.ngrams.numbers(word) for word in read]
        row = np.zeros((len(ids), 1 + max(map(len, ngrams), default=0)), dtype=np.int32)
        row[:, 0] = ids
        for place, numbers in zip(row, ngrams, strict=False):
            place[1 : 1 + len(numbers)] = numbers
        return row

    def collate(self, rows: Sequence[np.ndarray]) -> Tensor:
        # At least one column of n-grams, even if no word has one: EmbeddingBag needs it.
        return self._padded(rows, max(2, *(row.shape[1] for row in rows)))

    def real(self, batch: Tensor) -> int:
        return super().real(batch[..., 0])

    def hide(self, batch: Tensor, rate: float) -> Tensor:
        hidden = drawn_words(batch[..., 0], rate)
        hidden_batch = batch.masked_fill(hidden[..., None], 0)
        hidden_batch[..., 0].masked_fill_(hidden, self.tokenizer.unk_id)
        return hidden_batch

    def names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        # Unknown words too: the model reads their spelling.
        read = self.words.words_of(_text(example))[: self.max_length]
        return (*self.words.pieces([BOS] * self.begun), *read)


class FeatureInputs(Inputs):
    """Sequences of feature vectors without missing values, on a common scale.

    If both a sequence and the training data name their features, they are matched by name.

    Args:
        normaliser: learned from the training data.
        missing: the rule for missing values, as in `DataConfig`.
        max_length: the maximum number of frames of a sequence.
    """

    unit = "frames"
    begun = 0

    def __init__(self, normaliser: Normaliser, missing: Rule, max_length: int) -> None:
        self.normaliser = normaliser
        self.missing: Rule = missing
        self.max_length = max_length
        self.width = normaliser.width
        self.parts = {NORMALISER: normaliser}

    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        return [self._row(example) for example in examples]

    def _row(self, example: Labelled) -> np.ndarray:
        frames = as_frames(_array(example), example.place)
        frames = in_columns(example._replace(input=frames), self.normaliser.names).input
        self.normaliser.check(frames, example.place)
        filled = fill_missing(frames, self.missing, example.place, self.normaliser.mean)
        return self.normaliser(filled)

    def collate(self, rows: Sequence[np.ndarray]) -> Tensor:
        cut = [torch.from_numpy(row[: self.max_length]) for row in rows]
        return pad_sequence(cut, batch_first=True, padding_value=float("nan"))

    def real(self, batch: Tensor) -> int:
        return int((~batch[..., 0].isnan()).sum())

    def hide(self, batch: Tensor, rate: float) -> Tensor:
        return hide_frames(batch, rate)

    def names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        return tuple(str(number) for number in range(1, min(len(row), self.max_length) + 1))


def text_inputs(config: RunConfig, tokenizer: Tokenizer) -> TextInputs:
    """Texts as the ids of a tokenizer, with character n-grams if the run has them.

    Raises:
        ConfigError: there are to be n-grams, and the vocabulary has no whole words.
    """
    model, max_length = config.model, config.data.max_length
    start = "first" in config.classifier.pooling
    if not model.character_ngrams:
        return TextInputs(tokenizer, max_length, start)
    if not isinstance(tokenizer, WordTokenizer):
        raise ConfigError(
            "model.character_ngrams need whole words",
            why="the vocabulary has pieces of words",
            todo="leave character_ngrams out",
        )
    ngrams = NGrams(model.character_ngrams, model.ngram_vectors)
    return SpelledInputs(tokenizer, ngrams, max_length, start)


def feature_inputs(config: RunConfig, normaliser: Normaliser) -> FeatureInputs:
    """Features, filled as the run says and scaled by a normaliser."""
    return FeatureInputs(normaliser, config.data.missing, config.data.max_length)


def read_inputs(folder: Path, config: RunConfig) -> Inputs:
    """What turns examples into numbers, from the folder of a model.

    Raises:
        ModelFolderError: it is missing, damaged, or made for another kind of input.
    """
    found = read_folder_config(folder)
    if found.input != config.input:
        raise ModelFolderError(f"this model reads {found.input}, not {config.input}", where=folder)
    if config.input == "features":
        return feature_inputs(config, Normaliser.load(folder, NORMALISER))
    if found.task == "translation":
        return text_inputs(config, read_tokenizers(folder, found)[0])
    return text_inputs(config, load_tokenizer(folder, JOINT_TOKENIZER))


def hide_words(ids: Tensor, unk_id: int, rate: float) -> Tensor:
    """Ids with a random share of the tokens replaced by the unknown token.

    This is word dropout (Sennrich et al. 2016).
    """
    return ids.masked_fill(drawn_words(ids, rate), unk_id)


def drawn_words(ids: Tensor, rate: float) -> Tensor:
    """A bool tensor, True for a random share of the tokens, but not for BOS and padding."""
    drawn = torch.rand(ids.shape, device=ids.device) < rate
    return drawn & (ids != PAD) & (ids != BOS)


def hide_frames(features: Tensor, rate: float) -> Tensor:
    """Features (batch, length, width) with a random share of the frames set to 0.

    Padding stays NaN.
    """
    hidden = torch.rand(features.shape[:2], device=features.device) < rate
    return features.masked_fill(hidden[..., None] & ~features.isnan(), 0.0)


def _text(example: Labelled) -> str:
    """The text of an example, on one line."""
    if not isinstance(example.input, str):
        kind = type(example.input).__name__
        raise DataError(f"the input is a {kind}, not a text", where=example.place)
    return one_line(example.input)


def _array(example: Labelled) -> np.ndarray:
    """The features of an example; a Python caller may give lists or tensors."""
    try:
        return np.asarray(example.input)
    except (ValueError, TypeError, RuntimeError) as error:  # a tensor raises the latter two
        raise DataError(
            "the features are not an array of numbers, (frames, features)",
            where=example.place,
            why=str(error),
            todo="give every frame the same features",
        ) from None
