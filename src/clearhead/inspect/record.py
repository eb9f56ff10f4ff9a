"""The record of what a model computes for one input, without torch."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from clearhead.data.reading.arrays import DAMAGE, check_sizes
from clearhead.errors import DataError, reason
from clearhead.folder.files import parse_json, write_together

Array = np.ndarray[Any, np.dtype[Any]]

Unit = Literal["token", "frame"]
"""What a position of the source is."""

DETAILS: dict[str, str] = {
    "embeddings": "of each position before its position is added, (length, d_model)",
    "positions": "the vectors that are added, (length, d_model)",
    "convolutions": "what convolutions over the input add, if there are any, (length, d_model)",
    "queries": "(heads, queries, d_k)",
    "keys": "(heads, keys, d_k)",
    "values": "(heads, keys, d_v)",
    "scores": "QKᵀ/√d_k before the mask, (heads, queries, keys)",
    "head_outputs": "weights · V of each head, (heads, queries, d_v)",
    "head_parts": "each head's part of the output of its attention, (heads, queries, d_model)",
    "residuals": "x + Sublayer(…), (length, d_model)",
    "norms": "output of each layer norm, (length, d_model)",
    "hidden_units": "of the feed-forward network, after the activation, (length, d_ff)",
    "probabilities": "softmax of the logits, in the shape of the logits",
}
"""What a record keeps only when asked, and its shape."""

FORMAT = 1
NAMES = ("source", "target", "predicted")
ARRAYS = ("input", "memory", "hidden", "logits")


@dataclass(frozen=True, eq=False)
class EncoderLayerRecord:
    """The values of one encoder layer; `length` is that of the source.

    With pre-norm, the input of a sub-layer is the norm of the value recorded before it, and the
    value recorded after it is the residual stream. With post-norm, the value recorded after a
    sub-layer is normalised.

    Attributes:
        input: (length, d_model).
        attention: weights of each head, (heads, queries, keys); each row sums to 1.
        attention_output: output of the attention before the residual sum, (length, d_model).
        after_attention: after the residual sum, (length, d_model).
        feed_forward_output: output of the network before the residual sum, (length, d_model).
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
    """The values of one decoder layer, in the order of its parts; see `EncoderLayerRecord`.

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
    """What a model computes for one input.

        seen = clearhead.record(translator, "A man sleeps.", "Ein Mann schläft.")
        seen.cross_attentions  # (layers, heads, target length, source length)

    The decoder of a translator reads the start symbol and then the target. So position i predicts
    token i of the target (from 0), and the last position predicts what follows the target, which is
    the end symbol if the translation is finished. `target` has the name of the token that a
    position reads. Tables, figures and the report name a row of the decoder by both, see `rows`.

    Attributes:
        source: the name of each source position: a token, or the number or time of a frame.
        target: the name of each decoder position, the start symbol first; empty for a classifier.
        input: ids (length,) or features (length, width).
        encoder: the encoder layers, from first to last.
        decoder: the decoder layers; empty for a classifier.
        memory: the output of the encoder, after its last norm, (length, d_model).
        hidden: the input of the last projection: the output of the decoder (target length,
            d_model), or the pooled memory (pooled,).
        logits: (target length, vocabulary), or (labels,) for a classifier.
        unit: whether a source position is a token of a text or a frame of features.
        pooling_weights: weights of the source positions in attention pooling, (length,), of sum 1;
            None if the model has no attention pooling.
        predicted: the name of the token that each decoder position predicts, if they are known
            otherwise than from `target`.
        details: what `record` was asked to keep, by names that end with those of `DETAILS`:
            `source.embeddings`, `encoder.1.self.queries`, `decoder.2.cross.head_parts`,
            `encoder.1.feed_forward.hidden_units`, `probabilities`. Layers count from 1. A head's
            parts plus the bias of the output projection sum to the output of its attention.
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
    predicted: tuple[str, ...] = ()
    details: Mapping[str, Array] = field(default_factory=dict)

    def __repr__(self) -> str:
        sides = f"{len(self.source)} positions of the source, {len(self.target)} of the target"
        return f"<Record: {sides}, {len(self.encoder)} + {len(self.decoder)} layers>"

    @property
    def encoder_attentions(self) -> Array:
        """The encoder's self-attention, (layers, heads, source length, source length)."""
        return np.stack([layer.attention for layer in self.encoder])

    @property
    def decoder_attentions(self) -> Array:
        """The decoder's self-attention, (layers, heads, target length, target length).

        Raises:
            DataError: this is the record of a classifier.
        """
        return np.stack([layer.self_attention for layer in self._decoder_layers()])

    @property
    def cross_attentions(self) -> Array:
        """The decoder's attention to the source, (layers, heads, target length, source length).

        Raises:
            DataError: this is the record of a classifier.
        """
        return np.stack([layer.cross_attention for layer in self._decoder_layers()])

    @property
    def rows(self) -> tuple[str, ...]:
        """The name of each row of the decoder's attention, `read → predicted`.

        What follows the target is `…` if it is not known. A classifier has no such rows.
        """
        predicted = self.predicted or (*self.target[1:], "…")
        return tuple(f"{a} → {b}" for a, b in zip(self.target, predicted, strict=False))

    @property
    def source_position(self) -> str:
        """The name of a source position; a classifier has no target positions to distinguish."""
        return "source position" if self.decoder else self.unit

    def _repr_html_(self) -> str:
        """What a notebook shows: a table of the last layer's attention, the mean of its heads."""
        last = self.decoder[-1].cross_attention if self.decoder else self.encoder[-1].attention
        rows, columns = self.rows or self.source, self.source
        layers = f"{len(self.encoder)} encoder layers, {len(self.decoder)} decoder layers"
        what = f"{'Cross-attention' if self.decoder else 'Self-attention'} of the last layer"
        facts = f"Record: {layers}, {len(last)} heads. {what}, mean of its heads."
        if self.decoder:
            facts += " A row is named after the token that the decoder reads → the one it predicts."
        return heat_table(facts, last.mean(axis=0), rows, columns)

    def save(self, path: str | Path) -> None:
        """Write an `.npz` file atomically, without pickles.

        Raises:
            DataError: the file cannot be written.
        """
        names = {"format": FORMAT, "unit": self.unit}
        names |= {name: getattr(self, name) for name in NAMES}
        arrays = {
            "names": np.frombuffer(json.dumps(names).encode(), dtype=np.uint8),
            **{name: getattr(self, name) for name in ARRAYS},
        }
        for stack, layers in (("encoder", self.encoder), ("decoder", self.decoder)):
            for number, layer in enumerate(layers):
                arrays |= {f"{stack}.{number}.{name}": x for name, x in vars(layer).items()}
        if self.pooling_weights is not None:
            arrays["pooling_weights"] = self.pooling_weights
        arrays |= {f"details.{name}": x for name, x in self.details.items()}

        def write(unfinished: Path) -> None:
            # To a path numpy would add another suffix.
            with unfinished.open("wb") as file:
                np.savez_compressed(file, **arrays)

        path = Path(path)
        write_together(path.parent, [(path.name, write)])

    @classmethod
    def load(cls, path: str | Path) -> Record:
        """Read a record written by `save`.

        Raises:
            DataError: the file is missing or damaged, or is not a record of this version.
        """
        try:
            # numpy does not close a damaged file.
            with Path(path).open("rb") as file:
                check_sizes(file)
                with np.load(file, allow_pickle=False) as stored:
                    arrays = dict(stored)
            names = parse_json(arrays["names"].tobytes())
            if names["format"] != FORMAT:
                raise ValueError(f"its format is {names['format']!r}, not {FORMAT}")
            names.setdefault("predicted", ())
            if (unit := names.get("unit", "token")) not in get_args(Unit):
                raise ValueError(f"its unit is {unit!r}")
            return cls(
                **{name: tuple(names[name]) for name in NAMES},
                encoder=_layers("encoder", EncoderLayerRecord, arrays),
                decoder=_layers("decoder", DecoderLayerRecord, arrays),
                **{name: arrays[name] for name in ARRAYS},
                unit=unit,
                pooling_weights=arrays.get("pooling_weights"),
                details={
                    name.removeprefix("details."): x
                    for name, x in arrays.items()
                    if name.startswith("details.")
                },
            )
        except (*DAMAGE, AttributeError, IndexError) as error:
            raise DataError("the record cannot be read", where=path, why=reason(error)) from None

    def _decoder_layers(self) -> tuple[DecoderLayerRecord, ...]:
        if not self.decoder:
            raise DataError("the record of a classifier has no decoder")
        return self.decoder


_Layer = TypeVar("_Layer", EncoderLayerRecord, DecoderLayerRecord)


def _layers(
    stack: str, kind: Callable[..., _Layer], arrays: Mapping[str, Array]
) -> tuple[_Layer, ...]:
    """The layers of a stack from arrays with names such as `encoder.0.attention`."""
    layers: dict[int, dict[str, Array]] = {}
    for name, array in arrays.items():
        first, *rest = name.split(".")
        if first == stack:
            layers.setdefault(int(rest[0]), {})[rest[1]] = array
    return tuple(kind(**layers[number]) for number in sorted(layers))


SHOWN = 60
"""Rows and columns of a table in a notebook."""


FAINTEST = 0.1
"""The strongest colour of weights and effects (in nats) stands for at least this much."""


def heat_table(caption: str, values: Array, rows: Sequence[str], columns: Sequence[str]) -> str:
    """HTML of a table whose cells are blue-green above 0 and orange below, by their size."""
    largest = max(FAINTEST, float(np.abs(values).max(initial=0)))

    def cell(value: float) -> str:
        colour = "44, 148, 155" if value > 0 else "226, 140, 72"
        strength = 0.6 * abs(value) / largest
        return f'<td style="background: rgba({colour}, {strength:.2f})">{value:.2f}</td>'

    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns[:SHOWN])
    body = "".join(
        f"<tr><th>{html.escape(name)}</th>{''.join(map(cell, row[:SHOWN]))}</tr>"
        for name, row in list(zip(rows, values, strict=True))[:SHOWN]
    )
    if max(values.shape) > SHOWN:
        caption += f" (the first {SHOWN} of {len(rows):,} rows and {len(columns):,} columns)"
    top = f"<caption>{html.escape(caption)}</caption><tr><td></td>{head}</tr>"
    return f"<table>{top}{body}</table>"
