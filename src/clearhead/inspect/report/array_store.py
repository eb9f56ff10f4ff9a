"""Arrays of a report as compressed blobs, each array with a reference by which the page finds it.

A reference is `{"blob": 3, "start": 0, "shape": [4, 8, 30, 30], "kind": "weight8"}`: the array
starts at byte 0 of blob 3. Large arrays also have `"split": true`: entry `i` of their first axis is
at byte 0 of blob `3 + i`, so that the page decodes one layer of a long sentence without the others.
"""

from __future__ import annotations

import zlib
from typing import Any, Literal

import numpy as np

from clearhead.inspect.record import Array

Kind = Literal["weight8", "float16", "float32"]
"""`weight8` is for weights from 0 to 1: one byte each, the value is (byte / 255)²."""

Reference = dict[str, Any]

FULL = 1 << 20
"""Bytes after which a blob takes no further array, and above which an array is split."""

LARGEST = {"float16": float(np.finfo(np.float16).max), "float32": float(np.finfo(np.float32).max)}


class ArrayStore:
    """Collects arrays into blobs.

    Attributes:
        blobs: raw-deflate-compressed bytes. Complete after `close`.
    """

    def __init__(self) -> None:
        self.blobs: list[bytes] = []
        self._open = bytearray()

    def add(self, array: Array, kind: Kind) -> Reference:
        """Store an array, and return the reference to it."""
        content = encoded(array, kind)
        reference: Reference = {"shape": list(array.shape), "kind": kind}
        if content.nbytes > FULL and content.ndim > 1:
            self.close()
            reference |= {"blob": len(self.blobs), "start": 0, "split": True}
            self.blobs += [_deflate(part.tobytes()) for part in content]
            return reference
        reference |= {"blob": len(self.blobs), "start": len(self._open)}
        self._open += content.tobytes()
        if len(self._open) > FULL:
            self.close()
        return reference

    def close(self) -> None:
        """Compress what is not compressed yet; a later array starts a new blob."""
        if self._open:
            self.blobs.append(_deflate(bytes(self._open)))
            self._open.clear()


def encoded(array: Array, kind: Kind) -> Array:
    """The array in the type in which it is stored, little-endian."""
    if not np.isfinite(array).all():
        raise ValueError("an array of the report has a value that is not finite")
    if kind == "weight8":
        if array.size and (array.min() < 0 or array.max() > 1.001):
            raise ValueError("a weight is not between 0 and 1")
        return np.rint(255 * np.sqrt(np.minimum(array, 1))).astype(np.uint8)
    limited = np.clip(array, -LARGEST[kind], LARGEST[kind])
    return limited.astype("<f2" if kind == "float16" else "<f4")


def _deflate(content: bytes) -> bytes:
    compressor = zlib.compressobj(level=6, wbits=-15)
    return compressor.compress(content) + compressor.flush()
