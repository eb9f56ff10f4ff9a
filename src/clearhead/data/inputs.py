"""The inputs of a classifier: each example as a row of numbers, and padded batches of rows.

`TextInputs` makes token ids, `SpelledInputs` words with their character n-grams, `FeatureInputs`
feature vectors.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from clearhead.data.judging.text_style import longest_text
from clearhead.data.normaliser import NORMALISER, Normaliser
from clearhead.data.reading.features import MissingRule, as_frames, fill_missing
from clearhead.data.reading.labelled import Labelled, in_columns, join_lines
from clearhead.errors import ConfigError, DataError, type_of
from clearhead.folder.model_folder import ModelFolder, Stored
from clearhead.settings import RunConfig
from clearhead.tokenizer import BOS, EOS, JOINT, PAD, Tokenizer, WordTokenizer, cut, read_tokenizers

LONGEST_WORD = 40
"""Characters of a word that are split into n-grams, including the marks at its ends. A batch is as
wide as the number of n-grams of its longest word, and longer words are links or numbers."""


class Inputs(ABC):
    """One kind of input: texts, or sequences of features.

    A row consists of `tokens` or `frames` (its `unit`), and a model reads `max_length` of them.
    `width` is the size of the vocabulary, or the number of features. `collate` puts `prepended`
    tokens before each row. `files` are saved in the model folder.
    """

    unit: str
    prepended = 0

    def __init__(self, max_length: int, width: int, files: Mapping[str, Stored]) -> None:
        self.max_length, self.width, self.files = max_length, width, files

    @abstractmethod
    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        """Each example as numbers, of any length.

        Ids (length,), ids and n-grams (length, 1 + most), or features (length, width), float32.
        """

    def sampled(
        self, examples: Sequence[Labelled], rows: list[np.ndarray], seed: int
    ) -> list[np.ndarray]:
        """The rows for one epoch of training, where a tokenizer may sample the segmentation."""
        return rows

    def collate(self, rows: Sequence[np.ndarray]) -> Tensor:
        """One tensor (rows, length, …) of rows that are cut off; PAD or NaN (features) pads."""
        return self._pad(list(map(self.cut, rows)))

    def names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        """The name of each position of an example in a batch: tokens, words, or frame numbers."""
        return self._names(example, self.cut(row))

    def cut(self, row: np.ndarray) -> np.ndarray:
        """The part of a row that models read."""
        return row[: self.max_length]

    @abstractmethod
    def _pad(self, rows: Sequence[np.ndarray]) -> Tensor: ...

    @abstractmethod
    def _names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]: ...

    @abstractmethod
    def real(self, batch: Tensor) -> int:
        """The number of positions of a batch that are not padding."""

    @abstractmethod
    def hide(self, batch: Tensor, rate: float) -> Tensor:
        """The batch with a random share of its positions hidden from the model.

        Hidden tokens become the unknown token, without n-grams, and hidden frames 0, the mean.
        """


class TextInputs(Inputs):
    """Texts as token ids; with `start` after BOS, for a pooling that takes the first position.

    The tokenizer of an imported model may add BOS itself.
    """

    unit = "tokens"

    def __init__(self, tokenizer: Tokenizer, max_length: int, start: bool) -> None:
        super().__init__(max_length, len(tokenizer), {JOINT: tokenizer})
        self.tokenizer = tokenizer
        self.prepended = int(start and tokenizer.boundaries != "both")

    def text(self, example: Labelled) -> str:
        """The text of an example as far as it is read, on one line."""
        if not isinstance(example.input, str):
            what = f"the input is {type_of(example.input)}, not a text"
            raise DataError(what, where=example.place)
        return join_lines(example.input[: longest_text(self.max_length)])

    def cut(self, row: np.ndarray) -> np.ndarray:
        """The part of a row that models read: with its end symbol, if the tokenizer sets one."""
        if len(row) <= self.max_length or self.tokenizer.boundaries == "none":
            return super().cut(row)
        return np.array(cut(row.tolist(), self.max_length, self.tokenizer.boundaries))

    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        encoded = self.tokenizer.encode_batch(list(map(self.text, examples)))
        return [np.array(ids, dtype=np.int64) for ids in encoded]

    def sampled(
        self, examples: Sequence[Labelled], rows: list[np.ndarray], seed: int
    ) -> list[np.ndarray]:
        if self.tokenizer.sampling == 0.0:
            return rows
        sampled = self.tokenizer.sample_batch(list(map(self.text, examples)), seed)
        return [np.array(ids, dtype=np.int64) for ids in sampled]

    def _pad(self, rows: Sequence[np.ndarray]) -> Tensor:
        return self._pad_columns([row[:, None] for row in rows], 1)[..., 0]

    def _pad_columns(self, rows: Sequence[np.ndarray], columns: int) -> Tensor:
        """Rows (length, up to `columns`) as (rows, length, columns), after BOS if it is first."""
        # A batch of empty texts has one position, with PAD: no layer accepts a length of 0.
        length = max(1, self.prepended + max(map(len, rows)))
        batch = np.full((len(rows), length, columns), PAD, dtype=np.int64)
        batch[:, : self.prepended, 0] = BOS
        for padded, row in zip(batch, rows, strict=True):
            padded[self.prepended : self.prepended + len(row), : row.shape[1]] = row
        return torch.from_numpy(batch)

    def _names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        return tuple(self.tokenizer.pieces([*[BOS] * self.prepended, *row.tolist()]))

    def real(self, batch: Tensor) -> int:
        return int((batch != PAD).sum())

    def hide(self, batch: Tensor, rate: float) -> Tensor:
        return hide_words(batch, self.tokenizer.unk_id, rate)


class NGrams(NamedTuple):
    """The character n-grams of words (Bojanowski et al. 2017, section 3.2).

    `lengths` are in characters, including the marks at both ends of a word. All n-grams share
    `vectors` numbers, which start at 1.
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
    """Texts as rows (length, 1 + most): the id of a word, then its n-grams, padded with 0."""

    def __init__(
        self, tokenizer: WordTokenizer, ngrams: NGrams, max_length: int, start: bool
    ) -> None:
        super().__init__(tokenizer, max_length, start)
        self.words = tokenizer
        self.ngrams = ngrams

    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        return [self._row(self.text(example)) for example in examples]

    def _row(self, text: str) -> np.ndarray:
        ids = self.words.encode(text)
        # Words after the maximum length count for the length of the row, but no model reads them.
        read = self.words.words_of(text)[: self.max_length]
        ngrams = [self.ngrams.numbers(word) for word in read]
        row = np.zeros((len(ids), 1 + max(map(len, ngrams), default=0)), dtype=np.int32)
        row[:, 0] = ids
        for columns, numbers in zip(row, ngrams, strict=False):
            columns[1 : 1 + len(numbers)] = numbers
        return row

    def _pad(self, rows: Sequence[np.ndarray]) -> Tensor:
        # At least one column of n-grams, even if no word has one: EmbeddingBag needs it.
        return self._pad_columns(rows, max(2, *(row.shape[1] for row in rows)))

    def _names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        # Unknown words too: the model reads their spelling.
        words = self.words.words_of(self.text(example))[: len(row)]
        return (*self.words.pieces([BOS] * self.prepended), *words)

    def real(self, batch: Tensor) -> int:
        return super().real(batch[..., 0])

    def hide(self, batch: Tensor, rate: float) -> Tensor:
        hidden = hidden_words(batch[..., 0], rate)
        hidden_batch = batch.masked_fill(hidden[..., None], 0)
        hidden_batch[..., 0].masked_fill_(hidden, self.tokenizer.unk_id)
        return hidden_batch


class FeatureInputs(Inputs):
    """Sequences of feature vectors without missing values, on a common scale.

    If both a sequence and the training data name their features, they are matched by name.
    """

    unit = "frames"

    def __init__(self, normaliser: Normaliser, missing: MissingRule, max_length: int) -> None:
        super().__init__(max_length, normaliser.width, {NORMALISER: normaliser})
        self.normaliser = normaliser
        self.missing: MissingRule = missing

    def rows(self, examples: Sequence[Labelled]) -> list[np.ndarray]:
        return [self._row(example) for example in examples]

    def _row(self, example: Labelled) -> np.ndarray:
        frames = as_frames(_array(example), example.place)
        frames = in_columns(example._replace(input=frames), self.normaliser.names).input
        self.normaliser.check(frames, example.place)
        filled = fill_missing(frames, self.missing, example.place, self.normaliser.mean)
        return self.normaliser(filled)

    def _pad(self, rows: Sequence[np.ndarray]) -> Tensor:
        tensors = list(map(torch.from_numpy, rows))
        return pad_sequence(tensors, batch_first=True, padding_value=float("nan"))

    def _names(self, example: Labelled, row: np.ndarray) -> tuple[str, ...]:
        return tuple(map(str, range(1, len(row) + 1)))

    def real(self, batch: Tensor) -> int:
        return int((~batch[..., 0].isnan()).sum())

    def hide(self, batch: Tensor, rate: float) -> Tensor:
        hidden = torch.rand(batch.shape[:2], device=batch.device) < rate
        return batch.masked_fill(hidden[..., None] & ~batch.isnan(), 0.0)  # padding stays NaN


def text_inputs(config: RunConfig, tokenizer: Tokenizer) -> TextInputs:
    """Texts as the ids of a tokenizer, with character n-grams if the run has them."""
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
    """Features, filled by the rule of the run and scaled by a normaliser."""
    return FeatureInputs(normaliser, config.data.missing, config.data.max_length)


def read_inputs(folder: ModelFolder, config: RunConfig | None = None) -> Inputs:
    """The inputs of a model, or those of a run that starts from this model.

    Raises:
        ModelFolderError: a file is missing or damaged.
    """
    config = config or folder.config
    if config.input == "features":
        return feature_inputs(config, Normaliser.of(folder))
    return text_inputs(config, read_tokenizers(folder)[0])


def hide_words(ids: Tensor, unk_id: int, rate: float) -> Tensor:
    """Ids with a random share of the tokens unknown: word dropout (Sennrich et al. 2016)."""
    return ids.masked_fill(hidden_words(ids, rate), unk_id)


def hidden_words(ids: Tensor, rate: float) -> Tensor:
    """A bool tensor, True for a random share of the tokens, but not for BOS, EOS and padding."""
    hidden = torch.rand(ids.shape, device=ids.device) < rate
    return hidden & (ids != PAD) & (ids != BOS) & (ids != EOS)


def _array(example: Labelled) -> np.ndarray:
    """The features of an example, which may be lists or tensors if they come from Python."""
    try:
        return np.asarray(example.input)
    except (ValueError, TypeError, RuntimeError) as error:  # a tensor raises the latter two
        raise DataError(
            "the features are not an array of numbers, (frames, features)",
            where=example.place,
            why=str(error),
            todo="give every frame the same features",
        ) from None
