"""What a model computed for one input, from the first layer to the last; free of torch."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from clearhead.errors import DataError
from clearhead.files import write_together

Array = np.ndarray[Any, np.dtype[Any]]

Unit = Literal["token", "frame"]
"""What stands at a position of a source."""

FORMAT = 1
_DAMAGES = (EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class EncoderLayerRecord:
    """What one encoder layer computed; `length` is that of the source.

    With pre-norm a sub-layer is given the norm of what is recorded before it, and what is recorded
    after it is the residual stream; with post-norm, what is recorded after it is normalised.

    Attributes:
        input: (length, d_model).
        attention: the weights of each head, (heads, queries, keys); each row sums to 1.
        attention_output: of the attention itself, before the residual, (length, d_model).
        after_attention: with the residual, (length, d_model).
        feed_forward_output: of the network itself, before the residual, (length, d_model).
        output: (length, d_model).
    """

    input: Array
    attention: Array
    attention_output: Array
    after_attention: Array
    feed_forward_output: Array
    output: Array


@dataclass(frozen=True, eq=False)
class DecoderLayerRecord:
    """What one decoder layer computed, in the order of its parts; see `EncoderLayerRecord`.

    Attributes:
        input: (target length, d_model).
        self_attention: weights over the target so far, (heads, target length, target length).
        self_attention_output: (target length, d_model).
        after_self_attention: (target length, d_model).
        cross_attention: weights over the source, (heads, target length, source length).
        cross_attention_output: (target length, d_model).
        after_cross_attention: (target length, d_model).
        feed_forward_output: (target length, d_model).
        output: (target length, d_model).
    """

    input: Array
    self_attention: Array
    self_attention_output: Array
    after_self_attention: Array
    cross_attention: Array
    cross_attention_output: Array
    after_cross_attention: Array
    feed_forward_output: Array
    output: Array


@dataclass(frozen=True, eq=False)
class Record:
    """What a model computed for one input.

    The decoder of a translator reads the start symbol and then the target, so its position 0
    predicts the first token of the target, position i predicts token i (from 0), and the last one
    predicts what comes after the target: the end symbol, where the translation is finished. A
    query of the decoder is named by the token that is read there, not by the one it predicts.

    Attributes:
        source: the name of each source position: a token, or the number or time of a frame.
        target: the name of each position of the decoder, the start symbol first; empty for a
            classifier.
        input: what the encoder's input was given: ids (length,) or features (length, width).
        encoder: its layers, the first one first.
        decoder: its layers; empty for a classifier.
        memory: the output of the encoder, its last norm included, (length, d_model).
        hidden: what the last projection was given: the decoder's output (target length, d_model),
            or what pooling made of the memory (pooled,).
        logits: (target length, vocabulary), or (labels,) for a classifier.
        unit: what a source position is: a token of a text, or a frame of features.
        pooling_weights: how much each source position counts in the pooling of a classifier that
            learns it (`attention`), (length,), of sum 1; None: it has no such pooling.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    input: Array
    encoder: tuple[EncoderLayerRecord, ...]
    decoder: tuple[DecoderLayerRecord, ...]
    memory: Array
    hidden: Array
    logits: Array
    unit: Unit = "token"
    pooling_weights: Array | None = None

    @property
    def encoder_attentions(self) -> Array:
        """The encoder's self-attention, (layers, heads, source length, source length)."""
        return np.stack([layer.attention for layer in self.encoder])

    @property
    def decoder_attentions(self) -> Array:
        """The decoder's self-attention, (layers, heads, target length, target length).

        Raises:
            DataError: it is the record of a classifier.
        """
        return np.stack([layer.self_attention for layer in self._decoder_layers()])

    @property
    def cross_attentions(self) -> Array:
        """The decoder's attention to the source, (layers, heads, target length, source length).

        Raises:
            DataError: it is the record of a classifier.
        """
        return np.stack([layer.cross_attention for layer in self._decoder_layers()])

    @property
    def source_position(self) -> str:
        """What a position of the source is called; a classifier has no target to tell it from."""
        return "source position" if self.decoder else self.unit

    def save(self, path: str | Path) -> None:
        """Write it as an `.npz` file, wholly or not at all; nothing is pickled.

        Raises:
            DataError: the file cannot be written.
        """
        names = {
            "format": FORMAT,
            "source": self.source,
            "target": self.target,
            "unit": self.unit,
        }
        arrays = {
            "names": np.frombuffer(json.dumps(names).encode(), dtype=np.uint8),
            **{name: getattr(self, name) for name in ("input", "memory", "hidden", "logits")},
            **_flat("encoder", self.encoder),
            **_flat("decoder", self.decoder),
        }
        if self.pooling_weights is not None:
            arrays["pooling_weights"] = self.pooling_weights

        def write(unfinished: Path) -> None:
            # An open file, for numpy would give a bare name another ending.
            with unfinished.open("wb") as file:
                np.savez_compressed(file, **arrays)

        path = Path(path)
        write_together(path.parent, [(path.name, write)])

    @classmethod
    def load(cls, path: str | Path) -> Record:
        """The record that `save` wrote.

        Raises:
            DataError: the file is missing, damaged, or no record of this version.
        """
        try:
            # Opened here: numpy leaves a damaged file open.
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as found:
                arrays = dict(found)
            names = json.loads(arrays["names"].tobytes())
            if names["format"] != FORMAT:
                raise ValueError(f"it has format {names['format']!r}, this reads format {FORMAT}")
            if (unit := names.get("unit", "token")) not in get_args(Unit):
                raise ValueError(f"its positions are {unit!r}")
            return cls(
                source=tuple(names["source"]),
                target=tuple(names["target"]),
                encoder=_layers("encoder", EncoderLayerRecord, arrays),
                decoder=_layers("decoder", DecoderLayerRecord, arrays),
                **{name: arrays[name] for name in ("input", "memory", "hidden", "logits")},
                unit=unit,
                pooling_weights=arrays.get("pooling_weights"),
            )
        except (*_DAMAGES, OSError, ValueError, KeyError, TypeError) as error:
            what = "this is no record that can be read"
            raise DataError(what, where=path, why=str(error)) from None

    def _decoder_layers(self) -> tuple[DecoderLayerRecord, ...]:
        if not self.decoder:
            raise DataError("the record of a classifier has no decoder")
        return self.decoder


_Layer = TypeVar("_Layer", EncoderLayerRecord, DecoderLayerRecord)


def _flat(
    stack: str, layers: tuple[EncoderLayerRecord, ...] | tuple[DecoderLayerRecord, ...]
) -> dict[str, Array]:
    """The arrays of a stack by names of their own: `encoder.0.attention`."""
    return {
        f"{stack}.{number}.{field.name}": getattr(layer, field.name)
        for number, layer in enumerate(layers)
        for field in fields(layer)
    }


def _layers(
    stack: str, kind: Callable[..., _Layer], arrays: Mapping[str, Array]
) -> tuple[_Layer, ...]:
    """The layers of a stack as `_flat` laid them out."""
    layers: dict[int, dict[str, Array]] = {}
    for name, array in arrays.items():
        first, *rest = name.split(".")
        if first == stack:
            layers.setdefault(int(rest[0]), {})[rest[1]] = array
    return tuple(kind(**layers[number]) for number in sorted(layers))
