"""The log of a run: one JSON object a line, for programs to read."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from clearhead.errors import TrainingError
from clearhead.training.events import Event


class JsonLog:
    """Appends each event as a line: `{"event": "Progress", "time": 1763640000.0, "step": …}`.

    `time` is in seconds since 1970; a number that JSON cannot write (infinite, or none at all) is
    null. Each line is written at once and whole. If a run was killed while it wrote, its torn last
    line is taken away when the next one opens the log, so every line can always be read.

    Args:
        path: the file, which is made with its folder if need be.
        clock: tells the time.

    Raises:
        TrainingError: the file cannot be written.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: a line is one write, and nothing is left to lose when the run is killed.
            self._file = path.open("a+b", buffering=0)
            _mend_end(self._file)
        except OSError as error:
            raise self._failure(error) from None

    def observe(self, event: Event) -> None:
        """Append the event.

        Raises:
            TrainingError: the file cannot be written, e.g. because the disk is full.
        """
        record = {"event": type(event).__name__, "time": self._clock(), **asdict(event)}
        line = json.dumps(_finite(record), ensure_ascii=False, allow_nan=False, default=str)
        try:
            self._file.write(line.encode("utf-8", errors="replace") + b"\n")
        except OSError as error:
            raise self._failure(error) from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _failure(self, error: OSError) -> TrainingError:
        return TrainingError("the log cannot be written", where=self._path, why=str(error))


def _mend_end(file: BinaryIO) -> None:
    """End the file with a whole line: add the line break that is missing, or cut a torn line."""
    size = file.seek(0, os.SEEK_END)
    end = size
    tail = b""
    while end > 0 and b"\n" not in tail:
        start = max(0, end - 65536)
        file.seek(start)
        tail = file.read(end - start) + tail
        end = start
    last = tail.rpartition(b"\n")[2]
    if not last:
        return
    try:
        json.loads(last)
    except ValueError:
        file.truncate(size - len(last))
    else:
        file.write(b"\n")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
