"""A model of `clearhead.nn`, with ids or any tokenizer, as inspection takes its models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from clearhead.errors import ConfigError, DataError, type_of
from clearhead.model.transformer import EncoderClassifier, EncoderDecoder, uncompiled
from clearhead.text.spans import NOTHING
from clearhead.tokenizer.normal_form import PLAIN


def inspected(subject: Any, tokenizer: Any = None) -> Any:
    """What `record`, `explain` and `align` look into: a model of `clearhead.nn`, adapted.

    Anything else is returned as it is.

    Args:
        subject: a model, or what `clearhead.load` returns.
        tokenizer: for a model, an object with `encode` and `decode`; for a translator also a pair,
            of the source and of the target. Without one, inputs and outputs are ids.

    Raises:
        ConfigError: there is a tokenizer for what has its own, or it lacks `encode` or `decode`.
    """
    subject = uncompiled(subject)
    if isinstance(subject, EncoderDecoder):
        return OwnTranslator(subject, tokenizer)
    if isinstance(subject, EncoderClassifier):
        return OwnClassifier(subject, tokenizer)
    if tokenizer is not None:
        what = f"a tokenizer is given, but {type_of(subject)} is no model of clearhead.nn"
        raise ConfigError(what, todo="leave it out: what clearhead.load returns has its own")
    return subject


class OwnTokenizer:
    """Any tokenizer, or none, with the ids of padding, start and end removed from its output."""

    form = PLAIN

    def __init__(self, tokenizer: Any, special: Sequence[int], reads: nn.Module) -> None:
        if tokenizer is not None and not all(hasattr(tokenizer, n) for n in ("encode", "decode")):
            what = f"{type_of(tokenizer)} has no encode and decode"
            raise ConfigError(what, where="tokenizer", todo="give a tokenizer, or ids without one")
        self._tokenizer, self._special = tokenizer, special
        tables = (each for each in reads.modules() if isinstance(each, nn.Embedding))
        self._vocabulary = next((table.num_embeddings for table in tables), 0)

    def encode(self, text: Any) -> list[int]:
        """The ids of a text; ids (length,) or (1, length) stay."""
        if isinstance(text, str):
            if self._tokenizer is None:
                what = "the input is a text, but there is no tokenizer"
                raise DataError(what, todo="give its ids, or tokenizer=…")
            text = self._tokenizer.encode(text)
            text = getattr(text, "ids", text)  # of the library tokenizers
        ids = np.asarray(text.cpu() if isinstance(text, Tensor) else text)
        if ids.ndim == 2 and len(ids) == 1:
            ids = ids[0]
        if ids.ndim != 1 or (ids.size > 0 and ids.dtype.kind not in "iu"):
            what = f"the input is no row of ids: it has the shape {ids.shape}, {ids.dtype}"
            raise DataError(what, todo="give the ids of one sentence")
        if ids.size > 0 and not 0 <= ids.min() <= ids.max() < self._vocabulary:
            raise DataError(
                f"the input has ids from {ids.min()} to {ids.max()}",
                why=f"the model reads ids from 0 to {self._vocabulary - 1}",
            )
        return [i for i in ids.tolist() if i not in self._special]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The name of each id: what it decodes to, or its number."""
        if self._tokenizer is None:
            return list(map(str, ids))
        for name in ("pieces", "convert_ids_to_tokens"):
            if hasattr(self._tokenizer, name):
                return [str(each) for each in getattr(self._tokenizer, name)([*ids])]
        return [self._tokenizer.decode([i]) for i in ids]


class OwnTranslator:
    """An encoder-decoder with its tokenizers."""

    protection = NOTHING
    folder = None

    def __init__(self, model: EncoderDecoder, tokenizer: Any) -> None:
        self.model = model
        pair = tokenizer if isinstance(tokenizer, tuple) else (tokenizer, tokenizer)
        special = model.pad_id, model.bos_id, model.eos_id
        # A source may have start and end symbols: the model reads them as any others.
        self.source_tokenizer = OwnTokenizer(pair[0], special[:1], model.source_input)
        self.target_tokenizer = OwnTokenizer(pair[1], special, model.target_input)


class OwnClassifier:
    """A classifier with its tokenizer."""

    folder = None
    temperature = 1.0
    multi_label = False

    def __init__(self, model: EncoderClassifier, tokenizer: Any) -> None:
        self.model = model
        self.labels = tuple(map(str, getattr(model, "labels", range(model.output.out_features))))
        self._tokenizer = OwnTokenizer(tokenizer, (model.pad_id,), model.input)

    def encode(self, source: Any) -> tuple[Any, Sequence[str]]:
        """What the model reads, and the name of each position."""
        features = np.asarray(source.cpu() if isinstance(source, Tensor) else source)
        if features.dtype.kind == "f":
            row = features[0] if features.ndim == 3 else features
            return row.astype(np.float32), [str(number) for number in range(1, len(row) + 1)]
        ids = self._tokenizer.encode(source)
        return np.array(ids, dtype=np.int64), self._tokenizer.pieces(ids)
