"""The attention of a few validation examples over the course of a run.

An observer of the run records them before the first step and at each validation, in
`training/attention/step-500-1.npz`: the step, and the number of the example. Each file is a
`Record` with the attention weights alone, in float16. The replay draws no random numbers and
changes no weight, so the run stays the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from clearhead.errors import ClearheadError
from clearhead.inspect.record import DecoderLayerRecord, EncoderLayerRecord, Record
from clearhead.training.events import (
    Event,
    RunStarted,
    UnwritableLogError,
    Validated,
    WentBack,
)

FOLDER = "training/attention"
"""In the folder of the run."""

NAME = re.compile(r"step-(\d+)-(\d+)\.npz")


class AttentionWatch:
    """An observer that writes the records of a run's examples at the start and each validation.

    A run that resumes or goes back removes the records of the steps that it makes again. Records
    that cannot be made or written give one warning; the run continues.

    Args:
        folder: of the run.
        records: makes the records with the present weights.
    """

    def __init__(self, folder: Path, records: Callable[[], Iterable[Record]]) -> None:
        self._folder = folder / FOLDER
        self._records = records
        self._failed = False

    def observe(self, event: Event) -> None:
        """Write records, or remove those of later steps."""
        if isinstance(event, RunStarted | WentBack):
            for (step, _), path in _files(self._folder).items():
                if step > event.step:
                    with suppress(OSError):
                        path.unlink()
        if (isinstance(event, RunStarted) and event.step == 0) or (
            isinstance(event, Validated) and event.weights == "current"
        ):
            try:
                for number, record in enumerate(self._records(), start=1):
                    small(record).save(self._folder / f"step-{event.step}-{number}.npz")
            except (ClearheadError, torch.OutOfMemoryError) as error:
                if not self._failed:
                    self._failed = True
                    raise UnwritableLogError(
                        "the attention of the watched examples cannot be kept",
                        where=self._folder,
                        why=getattr(error, "why", None) or str(error),
                        todo="training continues and tries again at the next validation",
                    ) from None

    def close(self) -> None:
        """Nothing is open."""


_Layer = TypeVar("_Layer", EncoderLayerRecord, DecoderLayerRecord)


def small(record: Record) -> Record:
    """The record with its attention weights in float16, and nothing else."""

    def reduced(layer: _Layer) -> _Layer:
        kept = {
            field.name: getattr(layer, field.name).astype(np.float16)
            if field.name.endswith("attention") and not field.name.startswith("after")
            else nothing
            for field in fields(layer)
        }
        return type(layer)(**kept)

    nothing = np.zeros(0, dtype=np.float16)
    return replace(
        record,
        encoder=tuple(map(reduced, record.encoder)),
        decoder=tuple(map(reduced, record.decoder)),
        **dict.fromkeys(("input", "memory", "hidden", "logits"), nothing),
        pooling_weights=None,
        details={},
    )


def watched(folder: Path) -> Mapping[int, Sequence[tuple[int, Path]]]:
    """For each example of a run, from 1, its records: steps in order, and files."""
    found: dict[int, list[tuple[int, Path]]] = {}
    for (step, number), path in sorted(_files(folder / FOLDER).items()):
        found.setdefault(number, []).append((step, path))
    return found


def _files(folder: Path) -> dict[tuple[int, int], Path]:
    """The records in a folder by step and example."""
    found = {}
    for path in folder.glob("step-*.npz"):
        if (name := NAME.fullmatch(path.name)) and path.is_file():  # no pipe
            found[int(name[1]), int(name[2])] = path
    return found
