"""Which threads of a CPU translate what: workers for many sentences, or all for one."""

from __future__ import annotations

import os
from functools import cached_property, partial
from typing import TYPE_CHECKING

from clearhead.engines.cores import real_cores
from clearhead.engines.ctranslate2.folder import ExportedModel
from clearhead.engines.ctranslate2.loading import installed, loaded

if TYPE_CHECKING:
    import ctranslate2

NARROW = 256
"""The largest d_model for which many sentences are translated soonest by workers of one thread."""

SHARING = 2
"""The most threads that share the products of a sentence alone: more were not measured."""

SMALLEST_PART = 8
"""Sentences that a worker takes at a time, at least, where there are so many."""


class Translators:
    """CTranslate2's translators of one export (docs/decisions/0012); arguments as for its engine.

    On a CPU a narrow model has as many workers as threads, else one worker with all of them. A
    sentence alone would leave all workers but one idle: in float32, and where the threads have
    cores of their own, they share its products in place of that. For this the weights are loaded
    once more, which are few, with the first such sentence.

    Raises:
        ExportError: CTranslate2 is not installed, or cannot read the export.
        ConfigError: the device is not there, or cannot multiply such numbers.
        ClearheadError: the device failed, here or with the first sentence alone, e.g. because its
            memory is full.
    """

    def __init__(
        self, exported: ExportedModel, device: str, threads: int, compute_type: str
    ) -> None:
        gpu = device == "cuda" or (device == "auto" and installed().get_cuda_device_count() > 0)
        workers = 1 if gpu or exported.d_model > NARROW else threads or _usual_threads()
        self._load = partial(loaded, exported, device, compute_type)
        self._many = self._load(workers, 1 if workers > 1 else threads)
        self._sharing = min(workers, SHARING, real_cores()) if compute_type == "float32" else 1

    def of(self, sentences: int) -> ctranslate2.Translator:
        """That which has so many sentences translated the soonest."""
        return self._alone if sentences == 1 and self._sharing > 1 else self._many

    @cached_property
    def _alone(self) -> ctranslate2.Translator:
        return self._load(1, self._sharing)


def part_size(translator: ctranslate2.Translator, sentences: int) -> int:
    """How many of the sentences a worker takes at a time; 0: all of them.

    Of few sentences there are fewer parts than workers.
    """
    workers = translator.num_translators
    return 0 if workers == 1 else max(SMALLEST_PART, -(-sentences // workers))


def _usual_threads() -> int:
    """As many as CTranslate2 takes where none are asked for."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) else min(4, os.cpu_count() or 1)
